/* source: one map that is published: its fields, its entries, and the rows that
 * they have. Private to publish.c and source.c. */
#ifndef PERCORE_MAP_SOURCE_H
#define PERCORE_MAP_SOURCE_H

#include "entries.h"
#include "keys.h"
#include "percore.h"
#include "publish.h"

#include <time.h>

#define MAP_SAID_SIZE 512

/* One map, and the table that it becomes. */
struct map_source {
  struct map_table table;
  struct map_publisher *publisher;
  struct map map; /* open only while it is read; map.info lives on */
  struct btf_types types;
  struct map_fields fields; /* those of the region's table */
  struct map_entries entries;
  uint64_t *growth; /* copies x fields */
  uint32_t pass;
  bool known;           /* its fields and entries are those of map.info.id */
  bool fresh;           /* entries that come are counted from 0 on */
  bool full;            /* more entries than rows at the last look */
  bool refused[2];      /* said that a name was too long, not its key's own */
  bool failed;          /* to open */
  struct timespec next; /* is not read before */
  char said[MAP_SAID_SIZE];

  bool in_region;
  uint32_t number; /* of the table in the region */
  uint32_t room;   /* rows of that table */
  percore_core_table_t core;
  percore_owned_table_t owned;
};

struct map_publisher {
  struct map_publisher_options options;
  struct percore_region *region;
  percore_slot_t *slots; /* one for each possible core */
  int *cores;
  size_t cores_len;
  struct map_source *sources;
  size_t len;
  bool outdated; /* the region's tables are not those of the maps */
  char said[MAP_SAID_SIZE];
};

/* Says a line unless it is the one that was said last; "" is silence. */
void map_say_once(struct map_publisher *publisher, char said[MAP_SAID_SIZE],
                  const char *line);

/* Opens the map and, if it is another one than before, learns its fields.
 * Returns 0, or a negative errno after it has said why. */
int map_source_open(struct map_source *source);

/* False if all of its fields are withheld, so that it has no table. */
bool map_source_has_fields(const struct map_source *source);

/* The rows that its table should have room for. */
uint32_t map_source_max_rows(const struct map_source *source);

/* Adds what the open map counted since the last look to the rows of its table.
 */
void map_source_read(struct map_source *source);

void map_source_free(struct map_source *source);

#endif
