/* publish: the maps of one region, which all readers of regions can read
 * (collectd, percore top). A map becomes a table, its entries
 * become rows, and the members of its values become fields.
 *
 * Only one thread at a time may call these functions.
 */
#ifndef PERCORE_MAP_PUBLISH_H
#define PERCORE_MAP_PUBLISH_H

#include "keys.h"

#include "base/names.h"

#define MAP_ROWS_DEFAULT 100000

/* How to read one map. The caller owns all strings and lists, which must
 * outlive the publisher. */
struct map_table {
  const char *path; /* path of the map's pin; NULL: the map is opened by `id` */
  uint32_t id;
  const char *name; /* name of the table, [a-z][a-z0-9]* */
  /* Names of the fields to read; empty: all. Global variables (.bss, .data) are
   * read only if they are named here or tagged. */
  struct names fields;
  struct names gauges; /* names of fields to read as gauges, of any type */
  bool has_all_names;  /* warn about names in `fields` and `gauges` that the map
                          lacks */
  /* Unless empty, the fields to read without type information. */
  struct map_fields fields_at;
  struct names row_names; /* names of an array's rows, by index */
  enum map_key_form key;  /* how the names of other rows show integers */
  uint32_t max_rows;      /* 0: MAP_ROWS_DEFAULT */
};

struct map_publisher_options {
  const char *region;      /* [a-z][a-z0-9]* */
  const char *runtime_dir; /* as in percore_create; NULL: the default */
  /* Advice that is appended to the message that a pin does not exist, or NULL.
   */
  const char *if_missing;
  /* Receives a line when something goes wrong, unless the line equals the
   * previous line about the same map or region. */
  void (*say)(void *context, const char *line);
  /* Called for each entry of a map; returns true to end the pass early. May be
   * NULL. */
  bool (*must_end)(void *context);
  void *context;
};

struct map_publisher;

/* Creates a publisher that has no maps yet. Returns NULL if out of memory. */
struct map_publisher *
map_publisher_open(const struct map_publisher_options *options);

/* Adds a map. If `from_zero` is set, the values of its entries at the first
 * reading count too, because the map was created after the last update. Returns
 * 0, -EEXIST if a table already has the name of this table, or -ENOMEM. */
int map_publisher_add(struct map_publisher *publisher,
                      const struct map_table *table, bool from_zero);

/* Reads each map that is due and adds its growth since the last reading to the
 * region. Opens maps first, and tries again to open those that were missing.
 * After a reading, a map is not due until four times the CPU time of the
 * reading has passed, so that reading it takes at most a fifth of a core.
 * Returns the number of maps read. */
size_t map_publisher_update(struct map_publisher *publisher);

/* Removes the region and frees the publisher. Must be called by the thread that
 * called map_publisher_update, because that thread is attached to the region.
 * Accepts NULL. */
void map_publisher_close(struct map_publisher *publisher);

#endif
