#include "feed.h"

#include "base/clock.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Pause after reading a map, in multiples of the CPU time of that reading. */
#define REST 4
/* In arrays with more than ROWS_OF_ZERO entries, an entry whose values are all
 * 0 receives no row. */
#define ROWS_OF_ZERO 1024

/* ---------------------------------------------------------------------------
 * Messages
 */

void map_say_once(struct map_publisher *publisher, char said[MAP_SAID_SIZE],
                  const char *line) {
  if (strncmp(said, line, MAP_SAID_SIZE - 1) == 0)
    return;
  snprintf(said, MAP_SAID_SIZE, "%s", line);
  if (line[0] != '\0')
    publisher->options.say(publisher->options.context, line);
}

/* Reports a line about the map, unless it equals the last one. */
__attribute__((format(printf, 2, 3))) static void
say_of(struct map_feed *feed, const char *format, ...) {
  char line[MAP_SAID_SIZE], id[32];
  snprintf(id, sizeof(id), "id %u", feed->table.id);
  snprintf(line, sizeof(line) / 2,
           "map %s: ", feed->table.path != NULL ? feed->table.path : id);
  size_t used = strlen(line);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line + used, sizeof(line) - used, format, arguments);
  va_end(arguments);
  map_say_once(feed->publisher, feed->said, line);
}

/* ---------------------------------------------------------------------------
 * Counting in rows
 */

/* Adds feed->growth to a row. */
static void add_growth(struct map_feed *feed, uint32_t row) {
  const uint64_t *growth = feed->growth;
  const struct map_fields *fields = &feed->fields;
  for (uint32_t copy = 0; copy < feed->map.copies; copy++) {
    percore_row_t into =
        percore_row(feed->tables[feed->is_per_cpu ? copy : 0], row);
    uint32_t column = 0;
    for (size_t f = 0; f < fields->len; f++, growth++) {
      column += fields->list[f].bucket == 1; /* that of the value 0 */
      percore_add(into, column, *growth);
      column++;
    }
  }
}

/* Adds the values of gauges to a row, `sign` times, and those of counters if
 * from_zero is set. */
static void add_values(struct map_feed *feed, uint32_t row,
                       const uint64_t *values, int sign, bool from_zero) {
  const struct map_fields *fields = &feed->fields;
  for (size_t i = 0; i < feed->map.copies * fields->len; i++) {
    const struct map_field *field = &fields->list[i % fields->len];
    uint64_t count = from_zero ? map_step(field, 0, values[i]) : 0;
    feed->growth[i] = field->is_gauge ? (uint64_t)sign * values[i] : count;
  }
  add_growth(feed, row);
}

/* Takes an entry out of its row, and removes the row if no other entry counts
 * in it. */
static void leave_row(struct map_feed *feed, const struct map_entry *entry) {
  size_t number = (size_t)(entry - feed->known.list);
  if (entry->row == MAP_NO_ROW)
    return;
  if (--feed->users[entry->row] == 0)
    percore_row_remove(feed->publisher->region, feed->number, entry->row,
                       PERCORE_NO_UPDATE_IN_FLIGHT);
  else
    add_values(feed, entry->row, map_known_values(&feed->known, number), -1,
               false);
}

/* For map_known_sweep. If this pass has not read the entry, takes it out of
 * its row and returns true. */
static bool was_not_read(void *context, const struct map_entry *entry) {
  struct map_feed *feed = context;
  if (entry->pass == feed->pass)
    return false;
  leave_row(feed, entry);
  return true;
}

void map_feed_remove_rows(struct map_feed *feed) {
  for (uint32_t row = 1; row <= feed->room; row++)
    if (feed->users[row] > 0) {
      percore_row_remove(feed->publisher->region, feed->number, row,
                         PERCORE_NO_UPDATE_IN_FLIGHT);
      feed->users[row] = 0;
    }
  for (size_t i = 0; i < feed->known.len; i++)
    feed->known.list[i].row = MAP_NO_ROW;
}

/* ---------------------------------------------------------------------------
 * Opening a map
 */

static bool same_fields(const struct map_fields *a,
                        const struct map_fields *b) {
  return a->len == b->len &&
         (a->len == 0 ||
          memcmp(a->list, b->list, a->len * sizeof(*a->list)) == 0);
}

/* Prepares to read a map for the first time: learns its fields, and forgets the
 * entries of the previous map. The table in the region stays if it fits. */
static int meet(struct map_feed *feed, char why[WHY_SIZE]) {
  const struct map *map = &feed->map;
  struct map_fields before = feed->fields;
  bool was_per_cpu = feed->is_per_cpu;
  feed->fields = (struct map_fields){0};
  int status = map_feed_learn(feed, why);
  bool fits = same_fields(&before, &feed->fields) &&
              map_feed_max_rows(feed) <= feed->room &&
              was_per_cpu == map_is_per_cpu(&map->info);
  map_fields_free(&before);
  if (!fits)
    feed->columns = 0; /* the region is made again */
  if (status != 0)
    return status;
  size_t values = map->copies * feed->fields.len;
  map_known_free(&feed->known);
  map_known_init(&feed->known, map->info.key_size, values);
  free(feed->growth);
  feed->growth = malloc(values * sizeof(*feed->growth));
  if (feed->growth == NULL)
    return why_fails(why, -ENOMEM, "out of memory");
  feed->learned_id = map->info.id;
  feed->said_fast = false;
  return 0;
}

static int open_map(struct map_feed *feed, char why[WHY_SIZE]) {
  const struct map_table *table = &feed->table;
  struct map map;
  int status = table->path != NULL ? map_open_pin(&map, table->path, why)
                                   : map_open_id(&map, table->id, why);
  const char *advice = feed->publisher->options.if_missing;
  size_t length = strlen(why);
  if (status == -ENOENT && advice != NULL)
    snprintf(why + length, WHY_SIZE - length, "; %s", advice);
  if (status != 0) {
    feed->from_zero |= status == -ENOENT && feed->learned_id == 0;
    map_feed_remove_rows(feed); /* keep the entries: the map may reappear */
    return status;
  }
  feed->map = map;
  if (map.info.id == feed->learned_id)
    return 0;
  feed->from_zero |= feed->learned_id != 0;
  feed->learned_id = 0;
  map_feed_remove_rows(feed);
  if (map_can_be_read(&map.info))
    return meet(feed, why);
  return why_fails(why, -ENOTSUP,
                   "maps of type %u cannot be read; arrays and hash maps can",
                   map.info.type);
}

/* Sets the time at which to read the map again, so that opening and reading it
 * take at most a fifth of a core. `began_ns` is this thread's CPU time before
 * these steps. Measures CPU time and not wall time, because on a busy machine
 * the thread mostly waits for a core. */
static void rest(struct map_feed *feed, uint64_t began_ns) {
  uint64_t took = clock_now_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
  feed->next_ns = clock_now_ns(CLOCK_MONOTONIC) + REST * took;
}

void map_feed_open(struct map_feed *feed) {
  if (clock_now_ns(CLOCK_MONOTONIC) < feed->next_ns)
    return;
  uint64_t began_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
  char why[WHY_SIZE] = "";
  int status = open_map(feed, why);
  if (why[0] != '\0')
    say_of(feed, "%s", why);
  else if (feed->failed)
    feed->said[0] = '\0';
  feed->failed = status != 0;
  if (feed->failed) {
    map_close(&feed->map);
    rest(feed, began_ns);
  }
}

/* ---------------------------------------------------------------------------
 * Reading a map
 */

uint32_t map_feed_columns(const struct map_feed *feed) {
  return feed->learned_id != 0 ? (uint32_t)feed->fields.len : 0;
}

uint32_t map_feed_max_rows(const struct map_feed *feed) {
  uint32_t wanted =
      feed->table.max_rows > 0 ? feed->table.max_rows : MAP_ROWS_DEFAULT;
  uint32_t has = feed->map.info.max_entries;
  return map_is_array(&feed->map.info) && has < wanted ? has : wanted;
}

static bool is_zero(const char *bytes, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (bytes[i] != 0)
      return false;
  return true;
}

/* Warns once about a counter that may wrap unnoticed. */
static void say_fast(struct map_feed *feed, const struct map_field *fast) {
  if (fast == NULL || feed->said_fast)
    return;
  feed->said_fast = true;
  say_of(feed,
         "field %s grew by more than a quarter of its range between two "
         "readings; counts are lost if it grows by half: declare it with 64 "
         "bits, or set a shorter Interval",
         fast->name);
}

static void name_row(const struct map_feed *feed, const void *key,
                     char name[MAP_ROW_NAME_SIZE]) {
  const struct names *names = &feed->table.row_names;
  uint32_t index = UINT32_MAX;
  if (map_is_array(&feed->map.info))
    memcpy(&index, key, sizeof(index));
  if (index < names->len)
    snprintf(name, MAP_ROW_NAME_SIZE, "%s", names->list[index]);
  else
    map_key_name(name, &feed->types, &feed->map.info, key, feed->table.key);
}

/* The state of one pass over the entries. */
struct look {
  struct map_feed *feed;
  size_t seen;  /* entries read, except new entries that did not fit */
  size_t added; /* new entries */
  bool full;    /* an entry did not fit */
  bool failed;  /* there was no memory for an entry */
};

/* Finds a row for an entry, and adds the values that the entry had at its last
 * reading, see add_values. Entries whose keys have the same name share a row.
 * Returns false if out of memory. */
static bool enter_row(struct look *look, size_t number, bool from_zero) {
  struct map_feed *feed = look->feed;
  struct map_entry *entry = &feed->known.list[number];
  char name[MAP_ROW_NAME_SIZE];
  name_row(feed, map_known_key(&feed->known, number), name);
  entry->row = percore_row_add(feed->publisher->region, feed->number, name, 0);
  if (entry->row == MAP_NO_ROW) {
    look->failed = true;
    return false;
  }
  entry->is_new = false;
  feed->users[entry->row]++;
  add_values(feed, entry->row, map_known_values(&feed->known, number), 1,
             from_zero);
  return true;
}

/* True if the map is a large array without row names and all values are 0. */
static bool is_unused(const struct map_feed *feed, const void *values) {
  const struct map *map = &feed->map;
  return map_is_array(&map->info) && map->info.max_entries > ROWS_OF_ZERO &&
         feed->table.row_names.len == 0 &&
         is_zero(values, map->stride * map->copies);
}

/* Adds an entry if there is still a row for it. Entries that this pass has not
 * read yet may have been deleted, so their rows are assumed to be free. Returns
 * the number of the new entry, or -1. */
static long add_entry(struct look *look, const void *key) {
  struct map_feed *feed = look->feed;
  if (look->seen >= map_feed_max_rows(feed)) {
    look->full = true;
    return -1;
  }
  long number = map_known_add(&feed->known, key);
  look->failed |= number < 0;
  look->added += number >= 0;
  return number;
}

static bool read_entry(void *context, const void *key, const void *values) {
  struct look *look = context;
  struct map_feed *feed = look->feed;
  struct map_known *known = &feed->known;
  const struct map_publisher_options *options = &feed->publisher->options;
  if (options->must_end != NULL && options->must_end(options->context))
    return false;
  long found = map_known_find(known, key);
  if (found < 0 &&
      (is_unused(feed, values) || (found = add_entry(look, key)) < 0))
    return true;
  size_t number = (size_t)found;
  struct map_entry *entry = &known->list[number];
  look->seen += entry->pass != feed->pass;
  entry->pass = feed->pass;
  /* An old entry has lost its row with the region or the pin. Without memory
   * for a row, it counts from its last values as soon as there is some. */
  if (!entry->is_new && entry->row == MAP_NO_ROW &&
      !enter_row(look, number, false))
    return true;
  say_fast(feed, map_growth(&feed->map, &feed->fields, values,
                            map_known_values(known, number), feed->growth));
  if (!entry->is_new)
    add_growth(feed, entry->row);
  return true;
}

/* For map_known_sweep. */
static bool is_still_new(void *context, const struct map_entry *entry) {
  (void)context;
  return entry->is_new;
}

/* Adds rows for the entries that are new in this pass, now that the rows of
 * deleted entries are free. Entries that do not get a row are forgotten; the
 * next reading finds them as new entries. */
static void settle(struct look *look) {
  struct map_feed *feed = look->feed;
  struct map_known *known = &feed->known;
  size_t settled = known->len - look->added;
  for (size_t i = 0; i < known->len && look->added > 0; i++) {
    if (!known->list[i].is_new)
      continue;
    if (settled >= map_feed_max_rows(feed))
      look->full = true;
    else if (enter_row(look, i, feed->from_zero))
      settled++;
  }
  if (settled < known->len)
    map_known_sweep(known, is_still_new, NULL);
}

void map_feed_read(struct map_feed *feed) {
  uint64_t began_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
  char why[WHY_SIZE] = "";
  struct look look = {.feed = feed};
  feed->pass++;
  int status = map_read(&feed->map, read_entry, &look, why);
  bool complete = status == 0;
  if (complete && !map_is_array(&feed->map.info))
    map_known_sweep(&feed->known, was_not_read, feed);
  settle(&look);
  if (look.failed)
    snprintf(why, sizeof(why), "out of memory; it is read again");
  else if (complete && look.full)
    snprintf(why, sizeof(why),
             "it has more entries than rows; raise MaxRows to count them all");
  if (status >= 0 && !look.failed)
    feed->from_zero = complete && !look.full;
  if (why[0] != '\0')
    say_of(feed, "%s", why);
  rest(feed, began_ns);
}

void map_feed_free(struct map_feed *feed) {
  btf_close(&feed->types);
  map_fields_free(&feed->fields);
  map_known_free(&feed->known);
  free(feed->growth);
  free(feed->users);
  free(feed->tables);
}
