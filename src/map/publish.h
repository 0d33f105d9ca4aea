/* publish: makes a region of BPF maps, so that all that reads regions
 * (collectd, percore top, percore dump) reads maps, too. A map is a table, its
 * entries are rows, the members of its values are fields. Uses percore.h as any
 * producer.
 *
 * One thread at a time calls these functions.
 */
#ifndef PERCORE_MAP_PUBLISH_H
#define PERCORE_MAP_PUBLISH_H

#include "fields.h"

#define MAP_ROWS_DEFAULT 100000

/* A field that is named by its place, for maps without type information. */
struct map_field_at {
  const char *name;
  uint32_t offset;
  uint32_t size;
};

/* How one map is read. Strings and lists are the caller's, and must live as
 * long as the publisher. */
struct map_table {
  const char *path; /* its pin, or NULL: id */
  uint32_t id;
  const char *name; /* of the table, [a-z][a-z0-9]* */
  const char
      *object; /* an ELF file with type information, or NULL: the kernel */
  const char *const
      *fields; /* the only fields read; none: all. Global variables
                  (.bss, .data) are read only if they are named
                  here or tagged */
  size_t fields_len;
  bool has_all_names; /* say what fields and gauges name and the map lacks */
  const char *const *gauges; /* fields that are gauges, whatever their types */
  size_t gauges_len;
  const struct map_field_at *fields_at; /* instead of type information */
  size_t fields_at_len;
  const char *const *row_names; /* of an array, by index */
  size_t row_names_len;
  uint32_t max_rows; /* 0: MAP_ROWS_DEFAULT */
};

struct map_publisher_options {
  const char *region;      /* [a-z][a-z0-9]* */
  const char *runtime_dir; /* as of percore_create; NULL: its default */
  bool from_zero; /* count what entries held before the first look, too */
  bool polled;    /* nobody but this process reads the region: no thread */
  /* Is given a line when something goes wrong, and again only after it has
   * changed. */
  void (*say)(void *context, const char *line);
  /* May be NULL. True ends a look before the last entry. */
  bool (*must_end)(void *context);
  void *context;
};

struct map_publisher;

/* Returns 0 or -ENOMEM. */
int map_publisher_open(struct map_publisher **publisher,
                       const struct map_publisher_options *options);

/* Adds a map. fresh: it came since the last update, so that what it holds
 * already is counted. Returns 0, -EEXIST if there is a table of that name, or
 * -ENOMEM. */
int map_publisher_add(struct map_publisher *publisher,
                      const struct map_table *table, bool fresh);

/* Looks at every map once and adds what it counted since the last look. Maps
 * that are absent are looked for again. A map that takes long is left out now
 * and then, so that reading takes at most a fifth of the time. Returns how many
 * maps were read. */
size_t map_publisher_update(struct map_publisher *publisher);

void map_publisher_close(struct map_publisher *publisher);

#endif
