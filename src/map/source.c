#include "source.h"

#include "growth.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REST                                                                   \
  4 /* pause after reading a map, in multiples of the time it took             \
     */
#define ROWS_OF_ZERO 1024 /* in larger arrays, entries that are 0 get no row   \
                           */
#define ROW_REFUSED (MAP_NO_ROW - 1)

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

/* why NULL: nothing is wrong. */
static void say_of(struct map_source *source, const char *why) {
  char line[MAP_SAID_SIZE] = "", id[32];
  snprintf(id, sizeof(id), "id %u", source->table.id);
  if (why != NULL && why[0] != '\0')
    snprintf(line, sizeof(line), "map %s: %s",
             source->table.path != NULL ? source->table.path : id, why);
  map_say_once(source->publisher, source->said, line);
}

/* ---------------------------------------------------------------------------
 * The fields of a map
 */

static bool is_among(const char *name, const char *const *list, size_t len) {
  for (size_t i = 0; i < len; i++)
    if (strcmp(list[i], name) == 0)
      return true;
  return false;
}

static int fields_by_place(struct map_source *source, char why[MAP_WHY_SIZE]) {
  const struct map_table *table = &source->table;
  source->fields.list =
      calloc(table->fields_at_len, sizeof(*source->fields.list));
  if (source->fields.list == NULL) {
    snprintf(why, MAP_WHY_SIZE, "out of memory");
    return -ENOMEM;
  }
  for (size_t i = 0; i < table->fields_at_len; i++) {
    const struct map_field_at *at = &table->fields_at[i];
    if (at->size > source->map.info.value_size ||
        at->offset > source->map.info.value_size - at->size) {
      snprintf(why, MAP_WHY_SIZE,
               "field %s ends beyond the %u bytes of a value", at->name,
               source->map.info.value_size);
      return -ERANGE;
    }
    struct map_field *field = &source->fields.list[source->fields.len++];
    *field = (struct map_field){
        .offset = at->offset, .size = (uint8_t)at->size, .is_tagged = true};
    snprintf(field->name, sizeof(field->name), "%s", at->name);
  }
  return 0;
}

/* Global variables may be secrets or seeds as well as counters. */
static bool is_wanted(const struct map_source *source,
                      const struct map_field *field) {
  const struct map_table *table = &source->table;
  if (table->fields_len > 0)
    return is_among(field->name, table->fields, table->fields_len);
  return strchr(source->map.info.name, '.') == NULL || field->is_tagged;
}

/* Reports names that the map lacks: a misspelt name would read nothing. */
static void check_names(const struct map_fields *fields, const char *option,
                        const char *const *names, size_t len,
                        char why[MAP_WHY_SIZE]) {
  for (size_t i = 0; i < len; i++) {
    size_t f = 0;
    while (f < fields->len && strcmp(fields->list[f].name, names[i]) != 0)
      f++;
    if (f == fields->len)
      snprintf(why, MAP_WHY_SIZE, "it has no field %s; correct %s", names[i],
               option);
  }
}

static int choose_fields(struct map_source *source, char why[MAP_WHY_SIZE]) {
  const struct map_table *table = &source->table;
  size_t kept = 0;
  if (table->has_all_names) {
    check_names(&source->fields, "Field", table->fields, table->fields_len,
                why);
    check_names(&source->fields, "Gauge", table->gauges, table->gauges_len,
                why);
  }
  for (size_t i = 0; i < source->fields.len; i++) {
    struct map_field *field = &source->fields.list[i];
    field->is_gauge |= is_among(field->name, table->gauges, table->gauges_len);
    if (is_wanted(source, field))
      source->fields.list[kept++] = *field;
  }
  source->fields.len = kept;
  if (kept > 0)
    return 0;
  snprintf(
      why, MAP_WHY_SIZE,
      "no field is read: name fields with Field, or tag them percore:counter");
  return -ENOENT;
}

static int learn_fields(struct map_source *source, char why[MAP_WHY_SIZE]) {
  struct map_info *info = &source->map.info;
  btf_close(&source->types);
  map_fields_free(&source->fields);
  int status = 0;
  if (source->table.fields_at_len > 0) {
    status = fields_by_place(source, why);
  } else {
    status = btf_open(&source->types, info, source->table.object, why);
    if (status == 0)
      status = map_fields_read(&source->fields, &source->types, info, why);
  }
  return status == 0 ? choose_fields(source, why) : status;
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
  if (source->in_region && entry->row < ROW_REFUSED)
    percore_row_remove(source->publisher->region, source->number, entry->row,
                       PERCORE_NO_UPDATE_IN_FLIGHT);
}

static void forget_entry(void *context, const struct map_entry *entry) {
  remove_row(context, entry);
}

/* Forgets everything, because another map has taken the place of this map. */
static void forget_entries(struct map_source *source) {
  map_entries_sweep(&source->entries, ++source->pass, forget_entry, source);
}

/* Removes all rows, because the map is gone; it may come back. */
static void remove_rows(struct map_source *source) {
  for (size_t i = 0; i < source->entries.len; i++) {
    struct map_entry *entry = &source->entries.list[i];
    if (!entry->used)
      continue;
    remove_row(source, entry);
    entry->row = MAP_NO_ROW;
  }
}

/* Prepares to read a map for the first time. */
static int meet(struct map_source *source, char why[MAP_WHY_SIZE]) {
  struct map_publisher *publisher = source->publisher;
  const struct map *map = &source->map;
  forget_entries(source);
  struct map_fields before = source->fields;
  bool was_per_cpu = source->core.stride != 0;
  source->fields = (struct map_fields){0};
  int status = learn_fields(source, why);
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
  if (source->growth == NULL) {
    snprintf(why, MAP_WHY_SIZE, "out of memory");
    return -ENOMEM;
  }
  publisher->outdated |= !same || !source->in_region;
  source->known = true;
  memset(source->refused, 0, sizeof(source->refused));
  return 0;
}

/* A map that was created since the last reading is fresh. */
static int open_map(struct map_source *source, char why[MAP_WHY_SIZE]) {
  const struct map_table *table = &source->table;
  struct map map;
  int status = table->path != NULL ? map_open_pin(&map, table->path, why)
                                   : map_open_id(&map, table->id, why);
  if (status != 0) {
    source->fresh |= status == -ENOENT;
    remove_rows(source);
    return status;
  }
  bool known = source->known;
  bool same = known && map.info.id == source->map.info.id;
  source->map = map;
  if (same) {
    source->publisher->outdated |=
        !source->in_region && map_source_has_fields(source);
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

int map_source_open(struct map_source *source) {
  char why[MAP_WHY_SIZE] = "";
  int status = open_map(source, why);
  if (why[0] != '\0' || source->failed)
    say_of(source, why);
  source->failed = status != 0;
  if (status != 0)
    map_close(&source->map);
  return status;
}

/* ---------------------------------------------------------------------------
 * Reading a map
 */

bool map_source_has_fields(const struct map_source *source) {
  for (size_t f = 0; f < source->fields.len; f++)
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

static void withhold(struct map_source *source, size_t f) {
  char why[MAP_WHY_SIZE];
  struct map_field *field = &source->fields.list[f];
  field->is_withheld = true;
  source->publisher->outdated = true;
  snprintf(why, sizeof(why),
           "field %s decreased, so it is not a counter and is no longer read; "
           "if it is a gauge, set Gauge \"%s\"",
           field->name, field->name);
  say_of(source, why);
}

/* Gives the entry a row. Returns false if no row is available now. */
static bool add_row(struct map_source *source, struct map_entry *entry,
                    const void *key) {
  const struct map_table *table = &source->table;
  char name[MAP_ROW_NAME_SIZE], why[MAP_WHY_SIZE];
  uint32_t index = 0;
  if (map_is_array(&source->map.info))
    memcpy(&index, key, sizeof(index));
  bool fits = true;
  if (map_is_array(&source->map.info) && index < table->row_names_len)
    snprintf(name, sizeof(name), "%s", table->row_names[index]);
  else
    fits = map_key_name(name, &source->types, &source->map.info, key);
  if (fits && percore_row_add(source->publisher->region, source->number, name,
                              &entry->row) == 0)
    return true;
  int error = errno;
  entry->row = MAP_NO_ROW;
  if (fits && error != EEXIST) {
    source->full |= error == ENOSPC;
    return false;
  }
  entry->row = ROW_REFUSED;
  if (source->refused[fits])
    return false;
  source->refused[fits] = true;
  snprintf(
      why, sizeof(why),
      fits ? "several keys are named %.64s; of keys with the same name, only "
             "one is read"
           : "the key %.64s... is too long to name a row; such entries are "
             "not read",
      name);
  say_of(source, why);
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
      if (map_is_per_cpu(&source->map.info))
        percore_add(core, column, *growth);
      else
        percore_add(owned, column, *growth);
      column++;
    }
  }
}

/* In a new row, gauges start with their whole value. */
static void begin_row(struct map_source *source, const uint64_t *last,
                      bool leave_out) {
  size_t fields = source->fields.len;
  for (size_t i = 0; i < source->map.copies * fields; i++)
    if (source->fields.list[i % fields].is_gauge)
      source->growth[i] = last[i];
    else if (leave_out)
      source->growth[i] = 0;
}

struct look {
  struct map_source *source;
  /* A field that is proven not to be a counter, or MAP_NO_FIELD. */
  size_t suspect;
  bool was_full; /* entries may have existed before they had rows */
};

static bool must_end(const struct map_publisher *publisher) {
  const struct map_publisher_options *options = &publisher->options;
  return options->must_end != NULL && options->must_end(options->context);
}

/* True if the counts that a new entry already holds are left out. */
static bool counts_from_now(const struct look *look) {
  return !look->source->publisher->options.from_zero &&
         (!look->source->fresh || look->was_full);
}

static bool read_entry(void *context, const void *key, const void *values) {
  struct look *look = context;
  struct map_source *source = look->source;
  const struct map *map = &source->map;
  if (must_end(source->publisher))
    return false;
  long number = map_entries_find(&source->entries, key);
  bool new_entry = number < 0;
  if (new_entry) {
    bool may_wait = map_is_array(&map->info) &&
                    map->info.max_entries > ROWS_OF_ZERO &&
                    source->table.row_names_len == 0;
    if (may_wait && is_zero(values, map->stride * map->copies))
      return true;
    if (source->entries.live >= map_source_max_rows(source)) {
      source->full = true;
      return true;
    }
    if ((number = map_entries_add(&source->entries, key)) < 0)
      return false;
  }
  struct map_entry *entry = &source->entries.list[number];
  entry->pass = source->pass;
  if (entry->row == ROW_REFUSED)
    return true;
  bool new_row = entry->row == MAP_NO_ROW;
  if (new_row && !add_row(source, entry, key))
    return true;
  struct map_shape shape = {.fields = source->fields.list,
                            .fields_len = source->fields.len,
                            .copies = map->copies,
                            .stride = map->stride,
                            .is_array = map_is_array(&map->info)};
  uint64_t *last = map_entries_values(&source->entries, (size_t)number);
  size_t suspect =
      map_growth(&shape, values, last, source->growth, &entry->falls);
  if (new_row)
    begin_row(source, last, new_entry && counts_from_now(look));
  if (suspect != MAP_NO_FIELD)
    look->suspect = suspect;
  add_growth(source, entry->row);
  return true;
}

/* Postpones the next reading, so that readings take at most a fifth of the
 * time. */
static void rest(struct map_source *source, const struct timespec *begin) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t took = (now.tv_sec - begin->tv_sec) * INT64_C(1000000000) +
                 now.tv_nsec - begin->tv_nsec;
  int64_t until = now.tv_nsec + REST * took;
  source->next = (struct timespec){.tv_sec = now.tv_sec + until / 1000000000,
                                   .tv_nsec = until % 1000000000};
}

void map_source_read(struct map_source *source) {
  struct timespec begin;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  char why[MAP_WHY_SIZE] = "";
  struct look look = {
      .source = source, .suspect = MAP_NO_FIELD, .was_full = source->full};
  source->pass++;
  source->full = false;
  int status = map_read(&source->map, read_entry, &look, why);
  if (status == 0) {
    if (!map_is_array(&source->map.info))
      map_entries_sweep(&source->entries, source->pass, forget_entry, source);
    source->fresh = true;
  } else if (status > 0 && !must_end(source->publisher)) {
    snprintf(why, sizeof(why), "it has too many entries to read one by one");
  }
  if (look.suspect != MAP_NO_FIELD)
    withhold(source, look.suspect);
  else if (source->full && !look.was_full)
    snprintf(why, sizeof(why),
             "it has more entries than rows; raise MaxRows to count them all");
  if (why[0] != '\0')
    say_of(source, why);
  rest(source, &begin);
}

void map_source_free(struct map_source *source) {
  btf_close(&source->types);
  map_fields_free(&source->fields);
  map_entries_free(&source->entries);
  free(source->growth);
}
