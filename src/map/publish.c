#include "feed.h"

#include "base/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------
 * Creating the region
 */

static struct percore_field *region_fields(const struct map_feed *feed,
                                           uint32_t *len) {
  struct percore_field *fields = calloc(feed->fields.len, sizeof(*fields));
  *len = 0;
  for (size_t f = 0; fields != NULL && f < feed->fields.len; f++) {
    const struct map_field *field = &feed->fields.list[f];
    if (field->bucket > 1)
      continue;
    fields[(*len)++] = (struct percore_field){
        .name = field->name,
        .help = field->help[0] != '\0' ? field->help : NULL,
        .max_bits = field->buckets,
        .kind = field->bucket > 0 ? PERCORE_HISTOGRAM
                : field->is_gauge ? PERCORE_UPDOWN
                                  : PERCORE_COUNTER};
  }
  return fields;
}

/* Creates the region and attaches to each core. On failure, returns false after
 * writing the reason to `line`. */
static bool create_region(struct map_publisher *publisher,
                          const struct percore_table *tables, uint32_t len,
                          char line[MAP_SAID_SIZE]) {
  const struct map_publisher_options *options = &publisher->options;
  struct percore_options create = {.runtime_dir = options->runtime_dir,
                                   .quiet = 1};
  struct percore_region_status status;
  int used = snprintf(line, MAP_SAID_SIZE, "region %s: ", options->region);
  char *why = line + used;
  size_t size = MAP_SAID_SIZE - (size_t)used;
  if (publisher->cores_len == 0)
    publisher->cores_len = map_possible_cores(publisher->cores, CORES_MAX);
  if (publisher->cores_len == 0) {
    snprintf(why, size, "cannot read the possible cores from " MAP_POSSIBLE);
    return false;
  }
  create.cores = (uint32_t)publisher->cores[publisher->cores_len - 1] + 1;
  publisher->region = percore_create(options->region, tables, len, &create);
  if (errno != 0) {
    percore_status(publisher->region, &status);
    snprintf(line, MAP_SAID_SIZE, "%s", status.reason);
    return false;
  }
  for (size_t i = 0; i < publisher->cores_len; i++) {
    publisher->slots[i] =
        percore_attach(publisher->region, "map", publisher->cores[i]);
    if (errno != 0) {
      snprintf(why, size, "cannot count for core %d: %s", publisher->cores[i],
               strerror(errno));
      return false;
    }
  }
  line[0] = '\0';
  return true;
}

static void close_region(struct map_publisher *publisher) {
  if (publisher->region == NULL)
    return;
  percore_destroy(publisher->region);
  publisher->region = NULL;
  for (size_t i = 0; i < publisher->len; i++)
    publisher->feeds[i].columns = publisher->feeds[i].room = 0;
}

/* Returns false if out of memory. */
static bool make_tables(struct map_feed *feed) {
  struct map_publisher *publisher = feed->publisher;
  size_t count = feed->is_per_cpu ? publisher->cores_len : 1;
  free(feed->tables);
  feed->tables = calloc(count, sizeof(*feed->tables));
  for (size_t i = 0; feed->tables != NULL && i < count; i++)
    feed->tables[i] = percore_table(publisher->slots[i], feed->number);
  return feed->tables != NULL;
}

static void enter_region(struct map_publisher *publisher) {
  for (size_t i = 0; i < publisher->len; i++) {
    struct map_feed *feed = &publisher->feeds[i];
    if (map_feed_columns(feed) == 0)
      continue;
    map_feed_remove_rows(feed); /* entries need rows in the new region */
    feed->room = map_feed_max_rows(feed);
    feed->columns = make_tables(feed) ? map_feed_columns(feed) : 0;
  }
}

/* Replaces the region by a new one, which has a table for each known map. If
 * this fails, the next update tries again. */
static void make_region(struct map_publisher *publisher) {
  close_region(publisher);
  struct percore_table *tables = calloc(publisher->len, sizeof(*tables));
  if (tables == NULL)
    return;
  uint32_t len = 0;
  bool complete = true;
  for (size_t i = 0; i < publisher->len; i++) {
    struct map_feed *feed = &publisher->feeds[i];
    if (map_feed_columns(feed) == 0)
      continue;
    bool per_cpu = map_is_per_cpu(&feed->map.info);
    uint32_t fields_len;
    struct percore_field *fields = region_fields(feed, &fields_len);
    free(feed->users);
    feed->users = calloc(map_feed_max_rows(feed) + 1, sizeof(uint32_t));
    complete &= fields != NULL && feed->users != NULL;
    tables[len] = (struct percore_table){.name = feed->table.name,
                                         .storage = per_cpu ? PERCORE_PER_CORE
                                                            : PERCORE_OWNED,
                                         .fields = fields,
                                         .field_count = fields_len,
                                         .max_rows = map_feed_max_rows(feed),
                                         .row_name_size = MAP_ROW_NAME_SIZE};
    feed->is_per_cpu = per_cpu;
    feed->number = len++;
  }
  char line[MAP_SAID_SIZE] = "";
  complete = complete && len > 0 && create_region(publisher, tables, len, line);
  map_say_once(publisher, publisher->said, line);
  for (uint32_t t = 0; t < len; t++)
    free((void *)tables[t].fields);
  free(tables);
  if (complete)
    enter_region(publisher);
  else
    close_region(publisher);
}

/* ---------------------------------------------------------------------------
 * The publisher
 */

struct map_publisher *
map_publisher_open(const struct map_publisher_options *options) {
  struct map_publisher *publisher = calloc(1, sizeof(*publisher));
  if (publisher != NULL)
    publisher->options = *options;
  return publisher;
}

int map_publisher_add(struct map_publisher *publisher,
                      const struct map_table *table, bool from_zero) {
  for (size_t i = 0; i < publisher->len; i++)
    if (strcmp(publisher->feeds[i].table.name, table->name) == 0)
      return -EEXIST;
  if (!array_resize(&publisher->feeds, publisher->len + 1,
                    sizeof(*publisher->feeds)))
    return -ENOMEM;
  publisher->feeds[publisher->len++] =
      (struct map_feed){.table = *table,
                        .publisher = publisher,
                        .map = {.fd = -1},
                        .from_zero = from_zero};
  return 0;
}

size_t map_publisher_update(struct map_publisher *publisher) {
  size_t read = 0;
  bool fits = true; /* the region has the tables that it should have */
  for (size_t i = 0; i < publisher->len; i++) {
    struct map_feed *feed = &publisher->feeds[i];
    map_feed_open(feed);
    fits &= map_feed_columns(feed) == feed->columns;
  }
  if (!fits)
    make_region(publisher);
  for (size_t i = 0; i < publisher->len; i++) {
    struct map_feed *feed = &publisher->feeds[i];
    if (feed->map.fd >= 0 && feed->columns > 0) {
      map_feed_read(feed);
      read++;
    }
    map_close(&feed->map);
  }
  for (size_t i = 0; i < publisher->cores_len && publisher->region != NULL; i++)
    percore_quiescent(publisher->slots[i]);
  return read;
}

void map_publisher_close(struct map_publisher *publisher) {
  if (publisher == NULL)
    return;
  close_region(publisher);
  for (size_t i = 0; i < publisher->len; i++)
    map_feed_free(&publisher->feeds[i]);
  free(publisher->feeds);
  free(publisher);
}
