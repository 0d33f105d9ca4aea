/* region_list: which instances of regions there are: the sockets in the runtime
 * directory that somebody serves, and those that were served lately. Private to
 * region_watch. */
#ifndef PERCORE_PLUGIN_REGION_LIST_H
#define PERCORE_PLUGIN_REGION_LIST_H

#include <stdint.h>

struct region_watch;

/* Adds those that have come, in the order of their names. */
void region_list_look(struct region_watch *watch);

/* Lets go of those that nobody has served for ten minutes. */
void region_list_forget(struct region_watch *watch, uint64_t now_ns);

void region_list_free(struct region_watch *watch);

#endif
