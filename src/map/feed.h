/* feed: one map that is published, with its fields, its known entries and their
 * rows. Private to learn.c, publish.c and feed.c. */
#ifndef PERCORE_MAP_FEED_H
#define PERCORE_MAP_FEED_H

#include "growth.h"
#include "keys.h"
#include "known.h"
#include "percore_tune.h"
#include "publish.h"

#define MAP_SAID_SIZE 512

/* Reads a map into its table of the publisher's region. */
struct map_feed {
  struct map_table table;
  struct map_publisher *publisher;
  struct map map; /* open only while it is being read; map.info stays valid */
  /* What was learned about the map with the id learned_id; 0: nothing. */
  uint32_t learned_id;
  struct btf_types types;
  struct map_fields fields; /* the columns of the region's table */
  struct map_known known;
  uint64_t *growth; /* copies x fields */
  uint32_t pass;    /* number of the last pass over the entries */
  /* An entry that was added since the last reading counts from 0. An entry that
   * may be older counts from its first reading on. This is true if the next
   * reading finds new entries of the first kind only: there was no map before,
   * or the last reading knew all entries of the map. */
  bool from_zero;
  bool said_fast;           /* reported that a counter may wrap unnoticed */
  bool failed;              /* the last attempt to open the map failed */
  uint64_t next_ns;         /* when to read the map again (CLOCK_MONOTONIC) */
  char said[MAP_SAID_SIZE]; /* the last message about this map */

  /* The map's table in the region. */
  uint32_t columns; /* how many of the fields it has; 0: there is no table */
  uint32_t room;    /* how many rows it can have */
  uint32_t number;  /* its index in the region */
  uint32_t *users;  /* for each row: how many entries count in it */
  bool is_per_cpu;
  percore_table_t *tables; /* for each copy; 1 if the table is not per core */
};

struct map_publisher {
  struct map_publisher_options options;
  struct percore_region *region;
  int cores[CORES_MAX]; /* numbers of the possible cores; known before the
                               region is created */
  percore_slot_t slots[CORES_MAX];
  size_t cores_len;
  struct map_feed *feeds;
  size_t len;
  char said[MAP_SAID_SIZE]; /* the last message about the region */
};

/* Reports a line unless it equals `said`, and stores it in `said`. An empty
 * line only clears `said`. */
void map_say_once(struct map_publisher *publisher, char said[MAP_SAID_SIZE],
                  const char *line);

/* Finds out which fields the open map has, and chooses those to read. Returns 0
 * or a negative errno. */
int map_feed_learn(struct map_feed *feed, char why[WHY_SIZE]);

/* Opens the map if it is due to be read. Learns its fields if the map is not
 * the one that was opened before. Reports failures. */
void map_feed_open(struct map_feed *feed);

/* Returns how many fields the map's table should have; 0: no table. The region
 * fits if this is feed->columns for each feed. */
uint32_t map_feed_columns(const struct map_feed *feed);

/* Removes the rows of all entries from the region, but keeps the entries. */
void map_feed_remove_rows(struct map_feed *feed);

/* Returns how many rows the map's table should have. */
uint32_t map_feed_max_rows(const struct map_feed *feed);

/* Adds the growth of the open map's entries since the last reading to the rows
 * of its table. */
void map_feed_read(struct map_feed *feed);

void map_feed_free(struct map_feed *feed);

#endif
