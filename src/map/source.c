#include "source.h"

#include "base/clock.h"

#include <errno.h>
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

/* Reports why the map cannot be read, unless this was the last reason reported.
 * An empty reason reports nothing and clears the last reason. */
static void say_of(struct map_source *source, const char *why) {
  char line[MAP_SAID_SIZE] = "", id[32];
  snprintf(id, sizeof(id), "id %u", source->table.id);
  if (why[0] != '\0')
    snprintf(line, sizeof(line), "map %s: %s",
             source->table.path != NULL ? source->table.path : id, why);
  map_say_once(source->publisher, source->said, line);
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

/* Adds source->growth to a row. */
static void add_growth(struct map_source *source, uint32_t row) {
  struct map_publisher *publisher = source->publisher;
  const uint64_t *growth = source->growth;
  const struct map_fields *fields = &source->fields;
  percore_owned_row_t owned = percore_owned_row(source->owned, row);
  for (uint32_t copy = 0; copy < source->map.copies; copy++) {
    percore_core_row_t core =
        percore_core_row(publisher->slots[copy], source->core, row);
    uint32_t column = 0;
    for (size_t f = 0; f < fields->len; f++, growth++) {
      if (fields->list[f].is_withheld)
        continue;
      column += fields->list[f].bucket == 1; /* that of the value 0 */
      if (map_is_per_cpu(&source->map.info))
        percore_add(core, column, *growth);
      else
        percore_add(owned, column, *growth);
      column++;
    }
  }
}

/* Adds the values of gauges to a row, `sign` times, and those of counters if
 * from_zero is set. */
static void add_values(struct map_source *source, uint32_t row,
                       const uint64_t *values, int sign, bool from_zero) {
  const struct map_fields *fields = &source->fields;
  for (size_t i = 0; i < source->map.copies * fields->len; i++) {
    const struct map_field *field = &fields->list[i % fields->len];
    uint64_t count = from_zero ? map_step(field, 0, values[i]) : 0;
    source->growth[i] = field->is_gauge ? (uint64_t)sign * values[i] : count;
  }
  add_growth(source, row);
}

/* Takes an entry out of its row, and removes the row if no other entry counts
 * in it. */
static void leave_row(struct map_source *source,
                      const struct map_entry *entry) {
  size_t number = (size_t)(entry - source->entries.list);
  if (!source->in_region || entry->row == MAP_NO_ROW)
    return;
  if (--source->users[entry->row] == 0)
    percore_row_remove(source->publisher->region, source->number, entry->row,
                       PERCORE_NO_UPDATE_IN_FLIGHT);
  else
    add_values(source, entry->row, map_entries_values(&source->entries, number),
               -1, false);
}

/* For map_entries_sweep. If this pass has not read the entry, takes it out of
 * its row and returns true. */
static bool was_not_read(void *context, const struct map_entry *entry) {
  struct map_source *source = context;
  if (entry->pass == source->pass)
    return false;
  leave_row(source, entry);
  return true;
}

void map_source_remove_rows(struct map_source *source) {
  for (uint32_t row = 0; row < source->room && source->in_region; row++)
    if (source->users[row] > 0) {
      percore_row_remove(source->publisher->region, source->number, row,
                         PERCORE_NO_UPDATE_IN_FLIGHT);
      source->users[row] = 0;
    }
  for (size_t i = 0; i < source->entries.len; i++)
    if (source->entries.list[i].used)
      source->entries.list[i].row = MAP_NO_ROW;
}

/* Prepares to read a map for the first time: learns its fields, and forgets the
 * entries of the previous map. */
static int meet(struct map_source *source, char why[WHY_SIZE]) {
  struct map_publisher *publisher = source->publisher;
  const struct map *map = &source->map;
  struct map_fields before = source->fields;
  bool was_per_cpu = source->core.stride != 0;
  source->fields = (struct map_fields){0};
  int status = map_source_learn(source, why);
  bool same = status == 0 && same_fields(&before, &source->fields) &&
              map_source_max_rows(source) <= source->room &&
              was_per_cpu == map_is_per_cpu(&map->info);
  map_fields_free(&before);
  if (status != 0)
    return status;
  size_t values = map->copies * source->fields.len;
  map_entries_free(&source->entries);
  map_entries_init(&source->entries, map->info.key_size, values);
  free(source->growth);
  source->growth = malloc(values * sizeof(*source->growth));
  if (source->growth == NULL)
    return why_fails(why, -ENOMEM, "out of memory");
  publisher->outdated |= !same || !source->in_region;
  source->known = true;
  source->falls = (struct map_falls){0};
  source->said_fast = false;
  return 0;
}

/* Opens the map. A map that was created since the last reading is marked as
 * fresh, so that its entries count from 0. */
static int open_map(struct map_source *source, char why[WHY_SIZE]) {
  const struct map_table *table = &source->table;
  struct map map;
  int status = table->path != NULL ? map_open_pin(&map, table->path, why)
                                   : map_open_id(&map, table->id, why);
  const char *advice = source->publisher->options.if_missing;
  size_t length = strlen(why);
  if (status == -ENOENT && advice != NULL)
    snprintf(why + length, WHY_SIZE - length, "; %s", advice);
  if (status != 0) {
    source->fresh |= status == -ENOENT && !source->known;
    map_source_remove_rows(source); /* keep the entries: the map may reappear */
    return status;
  }
  bool known = source->known;
  bool same = known && map.info.id == source->map.info.id;
  source->map = map;
  if (same) {
    source->publisher->outdated |=
        !source->in_region && map_source_has_table(source);
    return 0;
  }
  source->fresh |= known;
  source->known = false;
  map_source_remove_rows(source);
  if (map_can_be_read(&map.info))
    return meet(source, why);
  return why_fails(why, -ENOTSUP,
                   "maps of type %u cannot be read; arrays and hash maps can",
                   map.info.type);
}

/* Sets the time at which to read the map again, so that opening and reading it
 * take at most a fifth of a core. `began_ns` is this thread's CPU time before
 * these steps. Measures CPU time and not wall time, because on a busy machine
 * the thread mostly waits for a core. */
static void rest(struct map_source *source, uint64_t began_ns) {
  uint64_t took = clock_now_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
  source->next_ns = clock_now_ns(CLOCK_MONOTONIC) + REST * took;
}

void map_source_open(struct map_source *source) {
  if (clock_now_ns(CLOCK_MONOTONIC) < source->next_ns)
    return;
  uint64_t began_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
  char why[WHY_SIZE] = "";
  int status = open_map(source, why);
  if (why[0] != '\0' || source->failed)
    say_of(source, why);
  source->failed = status != 0;
  if (source->failed) {
    map_close(&source->map);
    rest(source, began_ns);
  }
}

/* ---------------------------------------------------------------------------
 * Reading a map
 */

bool map_source_has_table(const struct map_source *source) {
  for (size_t f = 0; f < source->fields.len && source->known; f++)
    if (!source->fields.list[f].is_withheld)
      return true;
  return false;
}

uint32_t map_source_max_rows(const struct map_source *source) {
  uint32_t wanted =
      source->table.max_rows > 0 ? source->table.max_rows : MAP_ROWS_DEFAULT;
  uint32_t has = source->map.info.max_entries;
  return map_is_array(&source->map.info) && has < wanted ? has : wanted;
}

static bool is_zero(const char *bytes, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (bytes[i] != 0)
      return false;
  return true;
}

/* Stops reading a field that was assumed to be a counter but has decreased too
 * often. */
static void withhold_gauge(struct map_source *source, size_t f) {
  char why[WHY_SIZE];
  const struct map_falls *falls = &source->falls;
  struct map_field *field = &source->fields.list[f];
  if (field->is_withheld || field->bucket > 0 ||
      falls->suspect[f] < falls->whole + MAP_FALLS_MAX)
    return;
  field->is_withheld = true;
  source->publisher->outdated = true;
  snprintf(why, sizeof(why),
           "field %s decreased, so it is not a counter and is no longer read; "
           "if it is a gauge, set Gauge \"%s\"",
           field->name, field->name);
  say_of(source, why);
}

/* Warns once about counters that may wrap unnoticed. */
static void say_fast(struct map_source *source, size_t f) {
  char why[WHY_SIZE];
  if (!source->falls.fast[f] || source->said_fast)
    return;
  source->said_fast = true;
  snprintf(why, sizeof(why),
           "field %s grew by more than a quarter of its range between two "
           "readings; counts are lost if it grows by half: declare it with 64 "
           "bits, or set a shorter Interval",
           source->fields.list[f].name);
  say_of(source, why);
}

static void name_row(const struct map_source *source, const void *key,
                     char name[MAP_ROW_NAME_SIZE]) {
  const struct names *names = &source->table.row_names;
  uint32_t index = UINT32_MAX;
  if (map_is_array(&source->map.info))
    memcpy(&index, key, sizeof(index));
  if (index < names->len)
    snprintf(name, MAP_ROW_NAME_SIZE, "%s", names->list[index]);
  else
    map_key_name(name, &source->types, &source->map.info, key);
}

/* The state of one pass over the entries. */
struct look {
  struct map_source *source;
  size_t seen;  /* entries read, except new entries that did not fit */
  size_t added; /* new entries */
  bool full;    /* an entry did not fit */
  bool failed;  /* there was no memory for an entry */
};

/* Finds a row for an entry, and adds the values that the entry had at its last
 * reading, see add_values. Entries whose keys have the same name share a row.
 * Returns false if out of memory. */
static bool enter_row(struct look *look, size_t number, bool from_zero) {
  struct map_source *source = look->source;
  struct map_entry *entry = &source->entries.list[number];
  char name[MAP_ROW_NAME_SIZE];
  name_row(source, map_entries_key(&source->entries, number), name);
  if (percore_row_add(source->publisher->region, source->number, name,
                      &entry->row) != 0 &&
      errno != EEXIST) {
    look->failed = true;
    entry->row = MAP_NO_ROW;
    return false;
  }
  entry->is_new = false;
  source->users[entry->row]++;
  add_values(source, entry->row, map_entries_values(&source->entries, number),
             1, from_zero);
  return true;
}

static bool must_end(const struct map_publisher *publisher) {
  const struct map_publisher_options *options = &publisher->options;
  return options->must_end != NULL && options->must_end(options->context);
}

/* True if the map is a large array without row names and all values are 0. */
static bool is_unused(const struct map_source *source, const void *values) {
  const struct map *map = &source->map;
  return map_is_array(&map->info) && map->info.max_entries > ROWS_OF_ZERO &&
         source->table.row_names.len == 0 &&
         is_zero(values, map->stride * map->copies);
}

/* Adds an entry if there is still a row for it. Entries that this pass has not
 * read yet may have been deleted, so their rows are assumed to be free. Returns
 * the number of the new entry, or -1. */
static long add_entry(struct look *look, const void *key) {
  struct map_source *source = look->source;
  if (look->seen >= map_source_max_rows(source)) {
    look->full = true;
    return -1;
  }
  long number = map_entries_add(&source->entries, key);
  look->failed |= number < 0;
  look->added += number >= 0;
  return number;
}

static bool read_entry(void *context, const void *key, const void *values) {
  struct look *look = context;
  struct map_source *source = look->source;
  struct map_entries *entries = &source->entries;
  if (must_end(source->publisher))
    return false;
  long found = map_entries_find(entries, key);
  if (found < 0 &&
      (is_unused(source, values) || (found = add_entry(look, key)) < 0))
    return true;
  size_t number = (size_t)found;
  struct map_entry *entry = &entries->list[number];
  look->seen += entry->pass != source->pass;
  entry->pass = source->pass;
  /* An old entry has lost its row with the region or the pin. Without memory
   * for a row, it counts from its last values as soon as there is some. */
  if (!entry->is_new && entry->row == MAP_NO_ROW &&
      !enter_row(look, number, false))
    return true;
  map_growth(&source->map, &source->fields, values,
             map_entries_values(entries, number), source->growth,
             &source->falls);
  if (!entry->is_new)
    add_growth(source, entry->row);
  return true;
}

/* For map_entries_sweep. */
static bool is_still_new(void *context, const struct map_entry *entry) {
  (void)context;
  return entry->is_new;
}

/* Adds rows for the entries that are new in this pass, now that the rows of
 * deleted entries are free. The counters of a new entry count from 0 if the
 * entry is known to have been added since the last reading or the option
 * from_zero is set, and otherwise from now on. Entries that do not get a row
 * are forgotten, so that the next reading treats them as new. */
static void settle(struct look *look) {
  struct map_source *source = look->source;
  struct map_entries *entries = &source->entries;
  bool from_zero = source->publisher->options.from_zero || source->fresh;
  size_t settled = entries->live - look->added;
  for (size_t i = 0; i < entries->len && look->added > 0; i++) {
    if (!entries->list[i].is_new)
      continue;
    if (settled >= map_source_max_rows(source))
      look->full = true;
    else if (enter_row(look, i, from_zero))
      settled++;
  }
  if (settled < entries->live)
    map_entries_sweep(entries, is_still_new, NULL);
}

void map_source_read(struct map_source *source) {
  uint64_t began_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
  char why[WHY_SIZE] = "";
  struct look look = {.source = source};
  source->pass++;
  int status = map_read(&source->map, read_entry, &look, why);
  bool complete = status == 0;
  if (complete && !map_is_array(&source->map.info))
    map_entries_sweep(&source->entries, was_not_read, source);
  settle(&look);
  if (look.failed)
    snprintf(why, sizeof(why), "out of memory; it is read again");
  else if (status > 0 && !must_end(source->publisher))
    snprintf(why, sizeof(why), "it has too many entries to read one by one");
  else if (complete && look.full && !source->full)
    snprintf(why, sizeof(why),
             "it has more entries than rows; raise MaxRows to count them all");
  if (complete)
    source->full = look.full;
  if (status >= 0 && !look.failed)
    source->fresh = complete && !look.full;
  for (size_t f = 0; f < source->fields.len; f++) {
    withhold_gauge(source, f);
    say_fast(source, f);
  }
  if (why[0] != '\0')
    say_of(source, why);
  rest(source, began_ns);
}

void map_source_free(struct map_source *source) {
  btf_close(&source->types);
  map_fields_free(&source->fields);
  map_entries_free(&source->entries);
  free(source->growth);
  free(source->users);
}
