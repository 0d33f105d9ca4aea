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
/* Marks an entry that must not receive a row. */
#define ROW_REFUSED (MAP_NO_ROW - 1)
/* Marks a new entry that waits for the row of a deleted entry until the end of
 * the pass. */
#define ROW_AWAITED (MAP_NO_ROW - 2)

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

static void remove_row(const struct map_source *source,
                       const struct map_entry *entry) {
  if (source->in_region && entry->row < ROW_AWAITED)
    percore_row_remove(source->publisher->region, source->number, entry->row,
                       PERCORE_NO_UPDATE_IN_FLIGHT);
}

/* For map_entries_sweep. If this pass has not read the entry, removes its row
 * and returns true. */
static bool was_not_read(void *context, const struct map_entry *entry) {
  const struct map_source *source = context;
  if (entry->pass == source->pass)
    return false;
  remove_row(source, entry);
  return true;
}

/* Forgets all entries and removes their rows, because another map has taken the
 * place of the map that they belong to. */
static void forget_entries(struct map_source *source) {
  source->pass++;
  map_entries_sweep(&source->entries, was_not_read, source);
}

void map_source_remove_rows(struct map_source *source) {
  for (size_t i = 0; i < source->entries.len; i++) {
    struct map_entry *entry = &source->entries.list[i];
    if (!entry->used)
      continue;
    remove_row(source, entry);
    entry->row = MAP_NO_ROW;
  }
}

/* Prepares to read a map for the first time: forgets the entries of the
 * previous map and learns the fields of this one. */
static int meet(struct map_source *source, char why[MAP_WHY_SIZE]) {
  struct map_publisher *publisher = source->publisher;
  const struct map *map = &source->map;
  forget_entries(source);
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
  map_entries_free(&source->clashes);
  map_entries_init(&source->clashes, MAP_ROW_NAME_SIZE, 1);
  free(source->growth);
  source->growth = malloc(values * sizeof(*source->growth));
  if (source->growth == NULL) {
    snprintf(why, MAP_WHY_SIZE, "out of memory");
    return -ENOMEM;
  }
  publisher->outdated |= !same || !source->in_region;
  source->known = true;
  source->falls = (struct map_falls){0};
  source->said_long = source->said_clash = source->said_fast = false;
  return 0;
}

/* Opens the map. A map that was created since the last reading is marked as
 * fresh, so that its entries count from 0. */
static int open_map(struct map_source *source, char why[MAP_WHY_SIZE]) {
  const struct map_table *table = &source->table;
  struct map map;
  int status = table->path != NULL ? map_open_pin(&map, table->path, why)
                                   : map_open_id(&map, table->id, why);
  if (status == -ENOENT && table->path != NULL)
    map_advise(why, source->publisher->options.if_missing);
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
  if (map_can_be_read(&map.info))
    return meet(source, why);
  snprintf(why, MAP_WHY_SIZE,
           "maps of type %u cannot be read; arrays and hash maps can",
           map.info.type);
  forget_entries(source);
  return -ENOTSUP;
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
  char why[MAP_WHY_SIZE] = "";
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
  char why[MAP_WHY_SIZE];
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

/* Reports what is wrong, unless *said is true. Then sets *said. */
static void say_if_new(struct map_source *source, bool *said,
                       const char *format, const char *name) {
  char why[MAP_WHY_SIZE];
  if (*said)
    return;
  *said = true;
  snprintf(why, sizeof(why), format, name);
  say_of(source, why);
}

/* Writes the name of the row for a key, padded with NULs. Returns false if the
 * name does not fit. */
static bool name_row(const struct map_source *source, const void *key,
                     char name[MAP_ROW_NAME_SIZE]) {
  const struct map_table *table = &source->table;
  memset(name, 0, MAP_ROW_NAME_SIZE);
  if (map_is_array(&source->map.info)) {
    uint32_t index;
    memcpy(&index, key, sizeof(index));
    if (index < table->row_names.len) {
      snprintf(name, MAP_ROW_NAME_SIZE, "%s", table->row_names.list[index]);
      return true;
    }
  }
  return map_key_name(name, &source->types, &source->map.info, key);
}

/* True if several keys have had this name. Then marks the name as read in this
 * pass, so that it is not removed from the list of clashes. */
static bool has_clashed(struct map_source *source, const char *name) {
  long number = map_entries_find(&source->clashes, name);
  if (number < 0)
    return false;
  source->clashes.list[number].pass = source->pass;
  return true;
}

/* Records that the key of `entry` is the second key with this name, so that no
 * key with this name has a row any more. */
static void add_clash(struct map_source *source, struct map_entry *entry,
                      const char *name) {
  long number = map_entries_add(&source->clashes, name);
  if (number < 0)
    return; /* out of memory: the entry is forgotten, and the next reading tries
               again */
  source->clashes.list[number].pass = source->pass;
  entry->row = ROW_REFUSED;
  say_if_new(source, &source->said_clash,
             "several keys are named %.64s; keys with the same name are not "
             "read",
             name);
}

/* Removes the rows of entries whose names have clashed. */
static void remove_clashing_rows(struct map_source *source) {
  char name[MAP_ROW_NAME_SIZE];
  for (size_t i = 0; i < source->entries.len; i++) {
    struct map_entry *entry = &source->entries.list[i];
    if (!entry->used || entry->row >= ROW_AWAITED ||
        !name_row(source, map_entries_key(&source->entries, i), name) ||
        !has_clashed(source, name))
      continue;
    remove_row(source, entry);
    entry->row = ROW_REFUSED;
  }
}

/* Adds a row for the entry. Returns false if this is not possible. If the name
 * is already in use, its row may belong to a deleted entry. If `swept` is set,
 * the rows of deleted entries have been removed, so several keys must have the
 * name. An entry without a row for any other reason, such as a lack of memory,
 * gets one in a later pass. */
static bool add_row(struct map_source *source, struct map_entry *entry,
                    const void *key, bool swept) {
  char name[MAP_ROW_NAME_SIZE];
  entry->row = ROW_REFUSED;
  if (!name_row(source, key, name)) {
    say_if_new(source, &source->said_long,
               "the key %.64s... is too long to name a row; such entries are "
               "not read",
               name);
    return false;
  }
  if (has_clashed(source, name))
    return false;
  if (percore_row_add(source->publisher->region, source->number, name,
                      &entry->row) == 0)
    return true;
  bool awaits = errno == EEXIST || errno == ENOSPC || errno == EAGAIN;
  entry->row = awaits ? ROW_AWAITED : MAP_NO_ROW;
  if (errno == EEXIST && swept)
    add_clash(source, entry, name);
  return false;
}

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

/* The state of one pass over the entries. */
struct look {
  struct map_source *source;
  size_t seen;    /* entries read, except new entries that did not fit */
  size_t waiting; /* new entries that wait for the rows of deleted entries */
  bool full;      /* an entry did not fit */
  bool failed;    /* there was no memory for an entry */
};

static bool counts_from_zero(const struct map_source *source) {
  return source->publisher->options.from_zero || source->fresh;
}

/* Computes the first growth of a new row. A gauge grows by its whole value. The
 * counters of a new entry count from 0 if the entry is known to have been added
 * since the last reading or the option from_zero is set, and otherwise from now
 * on. */
static void begin_row(struct map_source *source, const uint64_t *last,
                      bool new_entry) {
  const struct map_fields *fields = &source->fields;
  bool from_zero = counts_from_zero(source);
  for (size_t i = 0; i < source->map.copies * fields->len; i++) {
    const struct map_field *field = &fields->list[i % fields->len];
    if (field->is_gauge)
      source->growth[i] = last[i];
    else if (new_entry)
      source->growth[i] = from_zero ? map_step(field, 0, last[i]) : 0;
  }
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
 * read yet may have been deleted (except in arrays), so their rows are assumed
 * to be free. Returns the number of the new entry, or -1. */
static long add_entry(struct look *look, const void *key) {
  struct map_source *source = look->source;
  size_t taken =
      map_is_array(&source->map.info) ? source->entries.live : look->seen;
  if (taken >= map_source_max_rows(source)) {
    look->full = true;
    return -1;
  }
  long number = map_entries_add(&source->entries, key);
  look->failed |= number < 0;
  return number;
}

static bool read_entry(void *context, const void *key, const void *values) {
  struct look *look = context;
  struct map_source *source = look->source;
  struct map_entries *entries = &source->entries;
  if (must_end(source->publisher))
    return false;
  long number = map_entries_find(entries, key);
  bool new_entry = number < 0;
  if (new_entry &&
      (is_unused(source, values) || (number = add_entry(look, key)) < 0))
    return true;
  struct map_entry *entry = &entries->list[number];
  bool again = entry->pass == source->pass;
  bool new_row = entry->row == MAP_NO_ROW;
  entry->pass = source->pass;
  look->seen += !again;
  if (again && entry->row >= ROW_AWAITED)
    return true;
  if (entry->row == ROW_REFUSED) {
    char name[MAP_ROW_NAME_SIZE];
    if (name_row(source, key, name))
      has_clashed(source, name);
    return true;
  }
  if (new_entry && entries->live > map_source_max_rows(source))
    entry->row = ROW_AWAITED;
  else if (new_row && !add_row(source, entry, key, false) &&
           entry->row == MAP_NO_ROW && (!new_entry || counts_from_zero(source)))
    return true; /* counts from its last values as soon as it has a row */
  uint64_t *last = map_entries_values(entries, (size_t)number);
  map_growth(&source->map, &source->fields, values, last, source->growth,
             &source->falls);
  look->waiting += entry->row == ROW_AWAITED;
  if (entry->row >= ROW_AWAITED)
    return true;
  if (new_row)
    begin_row(source, last, new_entry);
  add_growth(source, entry->row);
  return true;
}

/* For map_entries_sweep. */
static bool awaits_row(void *context, const struct map_entry *entry) {
  (void)context;
  return entry->row == ROW_AWAITED;
}

/* Adds rows for waiting entries in place of the rows of deleted entries.
 * Forgets the waiting entries that did not receive a row, so that the next
 * reading treats them as new. */
static void settle(struct look *look, bool swept) {
  struct map_source *source = look->source;
  struct map_entries *entries = &source->entries;
  size_t clashes = source->clashes.live;
  for (size_t i = 0; i < entries->len && look->waiting > 0; i++) {
    struct map_entry *entry = &entries->list[i];
    if (!entry->used || entry->row != ROW_AWAITED ||
        entries->live - look->waiting >= map_source_max_rows(source))
      continue;
    if (add_row(source, entry, map_entries_key(entries, i), swept)) {
      begin_row(source, map_entries_values(entries, i), true);
      add_growth(source, entry->row);
    } else if (entry->row == MAP_NO_ROW && counts_from_zero(source)) {
      memset(map_entries_values(entries, i), 0,
             entries->values_len * sizeof(uint64_t));
    }
    look->waiting -= entry->row != ROW_AWAITED;
  }
  if (source->clashes.live > clashes)
    remove_clashing_rows(source);
  if (look->waiting == 0)
    return;
  look->full = true;
  map_entries_sweep(entries, awaits_row, NULL);
}

void map_source_read(struct map_source *source) {
  uint64_t began_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
  char why[MAP_WHY_SIZE] = "";
  struct look look = {.source = source};
  source->pass++;
  int status = map_read(&source->map, read_entry, &look, why);
  bool complete = status == 0;
  if (complete && !map_is_array(&source->map.info)) {
    map_entries_sweep(&source->entries, was_not_read, source);
    map_entries_sweep(&source->clashes, was_not_read, source);
  }
  if (look.waiting > 0)
    settle(&look, complete);
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
    if (source->falls.fast[f])
      say_if_new(source, &source->said_fast,
                 "field %s grew by more than a quarter of its range between "
                 "two readings; counts are lost if it grows by half: declare "
                 "it with 64 bits, or set a shorter Interval",
                 source->fields.list[f].name);
  }
  if (why[0] != '\0')
    say_of(source, why);
  rest(source, began_ns);
}

void map_source_free(struct map_source *source) {
  btf_close(&source->types);
  map_fields_free(&source->fields);
  map_entries_free(&source->entries);
  map_entries_free(&source->clashes);
  free(source->growth);
}
