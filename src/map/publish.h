/* publish: publishes BPF maps as a region, so that all readers of regions
 * (collectd, percore top, percore dump) can read them. A map becomes a table,
 * its entries become rows, and the members of its values become fields. Uses
 * percore.h like any other producer.
 *
 * Only one thread at a time may call these functions.
 */
#ifndef PERCORE_MAP_PUBLISH_H
#define PERCORE_MAP_PUBLISH_H

#include "fields.h"

#define MAP_ROWS_DEFAULT 100000

/* A field given by its offset, for values without type information. */
struct map_field_at {
  const char *name;
  uint32_t offset;
  uint32_t size;
};

struct map_names {
  const char **list;
  size_t len;
};

/* How to read one map. The caller owns all strings and lists, which must
 * outlive the publisher. */
struct map_table {
  const char *path; /* pin of the map; NULL: open it by id */
  uint32_t id;
  const char *name; /* name of the table, [a-z][a-z0-9]* */
  /* ELF file that has the type information; NULL: ask the kernel. */
  const char *object;
  /* Fields to read; none: all. Fields of global variables (.bss, .data) must be
   * named here or tagged. */
  struct map_names fields;
  struct map_names gauges; /* fields to read as gauges, whatever their type */
  bool has_all_names; /* report names in fields and gauges that the map lacks */
  const struct map_field_at *fields_at; /* used instead of type information */
  size_t fields_at_len;
  struct map_names row_names; /* names of an array's rows, by index */
  uint32_t max_rows;          /* 0: MAP_ROWS_DEFAULT */
};

struct map_publisher_options {
  const char *region;      /* [a-z][a-z0-9]* */
  const char *runtime_dir; /* as in percore_create; NULL: the default */
  bool from_zero; /* also count what entries held before the first reading */
  /* Advice that ends the messages about a pin that does not exist, and about
   * type information that this process may not read. May be NULL. */
  const char *if_missing, *if_no_rights;
  /* Receives a message when something goes wrong, unless it equals the previous
   * message. */
  void (*say)(void *context, const char *line);
  /* Returns true to end a pass before its last entry. May be NULL. */
  bool (*must_end)(void *context);
  void *context;
};

struct map_publisher;

/* Returns 0 or -ENOMEM. */
int map_publisher_open(struct map_publisher **publisher,
                       const struct map_publisher_options *options);

/* Adds a map. `fresh` means that the map was created after the last update, so
 * its present values are counted. Returns 0, -EEXIST if a table already has
 * that name, or -ENOMEM. */
int map_publisher_add(struct map_publisher *publisher,
                      const struct map_table *table, bool fresh);

/* Reads every map once and adds what it has counted since the last reading to
 * the region. Tries again to open missing maps. Skips a map for four times the
 * processor time that its last reading took, so that reading takes at most a
 * fifth of a core. Returns the number of maps read. */
size_t map_publisher_update(struct map_publisher *publisher);

/* Must be called by the thread that called map_publisher_update, because that
 * thread is attached to the region. */
void map_publisher_close(struct map_publisher *publisher);

#endif
