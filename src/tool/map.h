/* map: lists the BPF maps of this machine, and publishes one of them as a
 * region, which `percore top` then shows like any other. */
#ifndef PERCORE_TOOL_MAP_H
#define PERCORE_TOOL_MAP_H

#include <stdbool.h>

/* The name of the region. */
#define MAP_REGION "map"

/* True if a word of the command line is the path of a pin or id:NUMBER, which
 * are no names of regions. */
bool map_is_named(const char *word);

/* Publishes a map in a runtime directory of this process's own, so that the
 * region's name cannot clash with that of a producer. Sets *table to the name
 * of the map's table, unless it is set. Returns TOOL_OK, or another exit status
 * after an error message. */
int map_publish(const char *command, const char *word, const char **table);

/* Updates the region, and removes it. Do nothing if no map is published. */
void map_renew(void);
void map_end(void);

/* Prints all maps. Returns an exit status. */
int map_list(const char *command, bool as_json);

#endif
