/* source: one published map, with its fields, its entries and their rows.
 * Private to learn.c, publish.c and source.c. */
#ifndef PERCORE_MAP_SOURCE_H
#define PERCORE_MAP_SOURCE_H

#include "entries.h"
#include "growth.h"
#include "keys.h"
#include "percore.h"
#include "publish.h"

#define MAP_SAID_SIZE 512

/* A map, and its table in the region that the publisher makes. */
struct map_source {
  struct map_table table;
  struct map_publisher *publisher;
  struct map map; /* open only while it is being read; map.info stays valid */
  struct btf_types types;
  struct map_fields fields; /* the columns of the region's table */
  struct map_entries entries;
  uint64_t *growth; /* copies x fields */
  struct map_falls falls;
  uint32_t pass; /* number of the last pass over the entries */
  bool known;    /* `fields` and `entries` belong to the map map.info.id */
  bool fresh; /* all entries that the map had at the last reading are known, so
                 new entries count from 0 */
  bool full;  /* the last complete reading found more entries than rows */
  bool said_fast;           /* reported that a counter may wrap unnoticed */
  bool failed;              /* the last attempt to open the map failed */
  uint64_t next_ns;         /* when to read the map again (CLOCK_MONOTONIC) */
  char said[MAP_SAID_SIZE]; /* the last message about this map */

  bool in_region;  /* the region has a table for this map */
  uint32_t number; /* index of this table in the region */
  uint32_t room;   /* how many rows the table can have */
  uint32_t *users; /* for each row: how many entries count in it */
  percore_core_table_t core;
  percore_owned_table_t owned;
};

struct map_publisher {
  struct map_publisher_options options;
  struct percore_region *region;
  int cores[MAP_CORES_MAX]; /* numbers of the possible cores; known before the
                               region is created */
  percore_slot_t slots[MAP_CORES_MAX];
  size_t cores_len;
  struct map_source *sources;
  size_t len;
  bool outdated;            /* the region's tables no longer match the maps */
  char said[MAP_SAID_SIZE]; /* the last message about the region */
};

/* Reports a line unless it equals `said`, and stores it in `said`. An empty
 * line only clears `said`. */
void map_say_once(struct map_publisher *publisher, char said[MAP_SAID_SIZE],
                  const char *line);

/* Finds out which fields the open map has, and chooses those to read. Returns 0
 * or a negative errno. */
int map_source_learn(struct map_source *source, char why[WHY_SIZE]);

/* Opens the map if it is due to be read. Learns its fields if the map is not
 * the one that was opened before. Reports failures. */
void map_source_open(struct map_source *source);

/* True if the map's fields are known and at least one of them is read. */
bool map_source_has_table(const struct map_source *source);

/* Removes the rows of all entries from the region, but keeps the entries. */
void map_source_remove_rows(struct map_source *source);

/* Returns how many rows the map's table should have. */
uint32_t map_source_max_rows(const struct map_source *source);

/* Adds the growth of the open map's entries since the last reading to the rows
 * of its table. */
void map_source_read(struct map_source *source);

void map_source_free(struct map_source *source);

#endif
