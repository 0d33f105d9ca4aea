/* Tests how reading a BPF map turns its entries into rows of the region. The
 * map is simulated: this file defines the functions of open.c, read.c and
 * keys.c. */
#include "map/feed.h"
#include "map/growth.h"
#include "map/keys.h"
#include "map/publish.h"

#include "region_unit.h"

enum { KEYS = 12, ROWS_MAX = 6, COPIES = 2, FIELDS = 2 };
enum { COPY_SIZE = 2 * sizeof(uint64_t) };

/* ---------------------------------------------------------------------------
 * The map
 */

struct value {
  uint64_t fields[FIELDS];
};

struct entry {
  bool exists, was_read;
  struct value copies[COPIES];
};

static struct {
  struct bpf_map_info info;
  struct entry entries[KEYS];
  int missing;    /* errno with which opening the map fails; 0: it succeeds */
  int lost_after; /* a reading fails after this number of entries */
  uint32_t names; /* key K is named K modulo `names` */
  int cores_lost; /* reading the list of cores fails this many times */
} kernel;

static struct map_publisher *publisher;
static struct region_reader *reader;
static char said[8][MAP_SAID_SIZE];
static size_t said_len;

bool map_is_array(const struct bpf_map_info *info) { return info->type == 0; }
bool map_is_per_cpu(const struct bpf_map_info *info) { return info->type == 2; }
bool map_can_be_read(const struct bpf_map_info *info) { return info->type < 3; }

size_t map_possible_cores(int *cores, size_t size) {
  if (kernel.cores_lost > 0 && kernel.cores_lost-- > 0)
    return 0;
  for (int i = 0; i < COPIES && (size_t)i < size; i++)
    cores[i] = i;
  return COPIES;
}

int map_open_pin(struct map *map, const char *path, char why[WHY_SIZE]) {
  (void)path;
  *map = (struct map){.fd = kernel.missing == 0 ? 0 : -1,
                      .info = kernel.info,
                      .copies = map_is_per_cpu(&kernel.info) ? COPIES : 1,
                      .stride = COPY_SIZE};
  if (kernel.missing != 0)
    snprintf(why, WHY_SIZE, "%s", strerror(kernel.missing));
  return -kernel.missing;
}

int map_open_id(struct map *map, uint32_t id, char why[WHY_SIZE]) {
  (void)id;
  return map_open_pin(map, NULL, why);
}

void map_close(struct map *map) { map->fd = -1; }

void map_key_name(char name[MAP_ROW_NAME_SIZE], const struct btf_types *types,
                  const struct bpf_map_info *info, const void *key,
                  enum map_key_form form) {
  (void)form;
  (void)types;
  (void)info;
  uint32_t number;
  memcpy(&number, key, sizeof(number));
  snprintf(name, MAP_ROW_NAME_SIZE, "%u", number % kernel.names);
}

/* Returns a random number less than `below`. The generator (xorshift) has a
 * fixed seed, so that every run plays the same events. */
static uint32_t random_number(uint32_t below) {
  static uint32_t state = 2463534242u;
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state % below;
}

/* Simulates reading the map. Reading starts at a random key, because the
 * entries of a hash map have no order. */
int map_read(const struct map *map, map_entry_fn *entry, void *context,
             char why[WHY_SIZE]) {
  (void)map;
  int delivered = 0;
  for (uint32_t key = 0; key < KEYS; key++)
    kernel.entries[key].was_read = false;
  uint32_t first = map_is_array(&map->info) ? 0 : random_number(KEYS);
  for (uint32_t i = 0; i < KEYS; i++) {
    uint32_t key = (first + i) % KEYS;
    if (!kernel.entries[key].exists)
      continue;
    if (delivered++ == kernel.lost_after) {
      snprintf(why, WHY_SIZE, "lost");
      return -EIO;
    }
    kernel.entries[key].was_read = true;
    if (!entry(context, &key, kernel.entries[key].copies))
      return 1;
  }
  return 0;
}

static void add(uint32_t key, uint64_t packets, uint64_t bytes) {
  uint32_t copy = map_is_per_cpu(&kernel.info) ? random_number(COPIES) : 0;
  struct entry *entry = &kernel.entries[key];
  entry->exists = true;
  entry->copies[copy].fields[0] += packets;
  entry->copies[copy].fields[1] += bytes;
}

static void remove_entry(uint32_t key) {
  kernel.entries[key] = (struct entry){.exists = false};
}

/* ---------------------------------------------------------------------------
 * The rows of the map
 */

static void say(void *context, const char *line) {
  (void)context;
  if (said_len < sizeof(said) / sizeof(said[0]))
    snprintf(said[said_len++], MAP_SAID_SIZE, "%s", line);
}

/* The row of each key, and how much it has grown since the last call of look().
 */
static struct {
  bool exists;
  uint32_t number; /* of the row */
  uint64_t generation, shown[FIELDS], grew[FIELDS];
} rows[KEYS];

static void see_row(const struct region_tile *tile, uint32_t i) {
  char name[REGION_ROW_NAME_SIZE];
  assert_true(region_reader_row_name(reader, 1, i, tile->generations[i], name));
  unsigned key;
  assert_int_equal(sscanf(name, "%u", &key), 1);
  assert_true(key < KEYS && !rows[key].exists);
  rows[key].exists = true;
  bool again =
      rows[key].number == i && rows[key].generation == tile->generations[i];
  rows[key].number = i;
  rows[key].generation = tile->generations[i];
  for (uint32_t f = 0; f < FIELDS; f++) {
    uint64_t shown =
        region_row_shown(region_reader_directory(reader), tile, i, f);
    rows[key].grew[f] = again ? shown - rows[key].shown[f] : shown;
    rows[key].shown[f] = shown;
  }
}

static size_t see_rows(void) {
  if (reader == NULL) {
    struct region_reader_options options = {0};
    assert_return_code(region_reader_open(&reader, "unit", NULL, &options), 0);
  }
  int came = region_reader_refresh(reader);
  assert_return_code(came, errno);
  if (came == REGION_CAME)
    memset(rows, 0, sizeof(rows));
  struct region_tile tile;
  assert_return_code(region_tile_init(&tile, reader, 1, KEYS + 1,
                                      REGION_WANT_BIRTHS | REGION_WANT_RESETS),
                     0);
  region_tile_read(reader, &tile, 0);
  for (uint32_t key = 0; key < KEYS; key++)
    rows[key].exists = false;
  size_t len = 0;
  for (uint32_t i = 0; i < tile.rows; i++)
    if (region_state(tile.generations[i]) == REGION_LIVE) {
      see_row(&tile, i);
      len++;
    }
  region_tile_free(&tile);
  return len;
}

/* Makes the publisher read the map, and then reads the region. Returns the
 * number of rows. */
static size_t look(void) {
  publisher->feeds[0].next_ns = 0;
  map_publisher_update(publisher);
  return see_rows();
}

static struct names gauges;

static void publish(uint32_t type, uint32_t max_rows, bool from_zero) {
  static struct map_field fields[FIELDS] = {
      {.name = "packets", .size = 8},
      {.name = "bytes", .offset = 8, .size = 8}};
  static const struct map_publisher_options options = {.region = "unit",
                                                       .say = say};
  struct map_table table = {.path = "pin",
                            .name = "flows",
                            .fields_at = {fields, FIELDS},
                            .gauges = gauges,
                            .max_rows = max_rows};
  kernel.info = (struct bpf_map_info){.type = type,
                                      .id = 1,
                                      .key_size = sizeof(uint32_t),
                                      .value_size = COPY_SIZE,
                                      .max_entries = KEYS};
  publisher = map_publisher_open(&options);
  assert_non_null(publisher);
  assert_int_equal(map_publisher_add(publisher, &table, from_zero), 0);
}

static void begin(void) {
  memset(&kernel, 0, sizeof(kernel));
  memset(rows, 0, sizeof(rows));
  gauges = (struct names){.len = 0};
  kernel.lost_after = -1;
  kernel.names = KEYS;
  said_len = 0;
}

static void end(void) {
  if (reader != NULL)
    region_reader_close(reader);
  reader = NULL;
  map_publisher_close(publisher);
  publisher = NULL;
}

static bool was_said(const char *text) {
  for (size_t i = 0; i < said_len; i++)
    if (strstr(said[i], text) != NULL)
      return true;
  return false;
}

/* ---------------------------------------------------------------------------
 * MaxRows
 */

TEST(entries_that_take_the_place_of_others_are_counted) {
  publish(1, ROWS_MAX, true);
  for (uint32_t key = 0; key < ROWS_MAX; key++)
    add(key, 1, 100);
  assert_int_equal(look(), ROWS_MAX);
  for (int round = 1; round < 50; round++) {
    for (uint32_t i = 0; i < ROWS_MAX; i++) { /* replaces every entry */
      remove_entry((uint32_t)(ROWS_MAX * (round - 1) + (int)i) % KEYS);
      add((uint32_t)(ROWS_MAX * round + (int)i) % KEYS, 5, 500);
    }
    assert_int_equal(look(), ROWS_MAX);
    for (uint32_t key = 0; key < KEYS; key++)
      if (rows[key].exists)
        assert_int_equal(rows[key].grew[0], 5);
  }
  assert_int_equal(said_len, 0);
}

TEST(entries_without_a_row_are_reported_and_never_make_others_wrong) {
  publish(1, ROWS_MAX, true);
  for (uint32_t key = 0; key < KEYS; key++)
    add(key, 1000, 1000);
  assert_int_equal(look(), ROWS_MAX);
  assert_int_equal(said_len, 1);
  assert_true(was_said("raise MaxRows"));
  for (uint32_t key = 0; key < KEYS; key++)
    if (rows[key].exists)
      remove_entry(key);
    else
      add(key, 1, 1);
  assert_int_equal(look(), KEYS - ROWS_MAX);
  for (uint32_t key = 0; key < KEYS; key++)
    if (rows[key].exists) /* counts of old entries are not reported */
      assert_int_equal(rows[key].grew[0], 0);
}

TEST(old_entries_are_not_new_because_their_pin_was_missing) {
  publish(1, ROWS_MAX, false);
  for (uint32_t key = 0; key < KEYS; key++)
    add(key, 1000, 1000);
  look();
  for (uint32_t key = 0; key < KEYS; key++)
    if (rows[key].exists)
      remove_entry(key);
  kernel.missing = ENOENT;
  assert_int_equal(look(), 0);
  kernel.missing = 0;
  look();
  assert_int_equal(look(), KEYS - ROWS_MAX);
  for (uint32_t key = 0; key < KEYS; key++)
    assert_int_equal(rows[key].shown[0], 0);
}

TEST(a_map_that_cannot_be_read_has_no_table_until_it_is_replaced) {
  publish(1, ROWS_MAX, true);
  add(0, 10, 1000);
  assert_int_equal(look(), 1);
  kernel.info.id++;
  kernel.info.type = 3;
  publisher->feeds[0].next_ns = 0;
  map_publisher_update(publisher);
  assert_null(publisher->region);
  assert_true(was_said("maps of type 3 cannot be read"));
  kernel.info.id++;
  kernel.info.type = 1;
  remove_entry(0);
  add(1, 5, 500);
  look(); /* the reader loses the old region */
  assert_int_equal(look(), 1);
  assert_int_equal(rows[1].shown[0], 5);
}

TEST(a_list_of_cores_that_cannot_be_read_once_loses_no_count) {
  kernel.cores_lost = 1;
  publish(2, ROWS_MAX, true);
  add(0, 7, 700);
  add(1, 9, 900);
  map_publisher_update(publisher);
  assert_int_equal(said_len, 1);
  assert_true(was_said("region unit: cannot read the possible cores from "));
  assert_int_equal(look(), 2);
  assert_int_equal(rows[0].shown[0], 7);
  assert_int_equal(rows[1].shown[0], 9);
}

/* ---------------------------------------------------------------------------
 * Names
 */

TEST(keys_with_the_same_name_count_in_one_row) {
  for (uint32_t type = 0; type < 3; type++) { /* arrays and hash maps */
    begin();
    kernel.names = 4;
    publish(type, KEYS, true);
    add(0, 10, 1000);
    add(1, 20, 2000);
    add(4, 30, 3000);
    assert_int_equal(look(), 2);
    assert_int_equal(rows[0].shown[0], 40);
    assert_int_equal(rows[1].shown[0], 20);
    add(0, 1, 1);
    add(4, 2, 2);
    publisher->feeds[0].columns = 0;
    look(); /* the reader loses the old region */
    assert_int_equal(look(), 2);
    assert_int_equal(rows[0].shown[0], 3);
    assert_int_equal(said_len, 0);
    end();
  }
}

TEST(a_row_ends_with_the_last_key_of_its_name) {
  kernel.names = 4;
  publish(1, KEYS, true);
  add(0, 10, 1000);
  add(4, 5, 500);
  assert_int_equal(look(), 1);
  remove_entry(0);
  add(4, 7, 700);
  assert_int_equal(look(), 1);
  assert_int_equal(rows[0].grew[0], 7);
  remove_entry(4);
  assert_int_equal(look(), 0);
  add(0, 3, 300);
  assert_int_equal(look(), 1);
  assert_int_equal(rows[0].shown[0], 3);
}

TEST(a_gauge_is_that_of_the_keys_that_exist) {
  static const char *gauge = "packets";
  kernel.names = 4;
  gauges = (struct names){&gauge, 1};
  publish(1, KEYS, true);
  add(0, 10, 1000);
  add(4, 5, 500);
  look();
  assert_int_equal(rows[0].shown[0], 15);
  remove_entry(0);
  add(4, 1, 100);
  look();
  assert_int_equal(rows[0].shown[0], 6);
  kernel.missing = ENOENT;
  assert_int_equal(look(), 0);
  kernel.missing = 0;
  look();
  assert_int_equal(rows[0].shown[0], 6);
}

/* ---------------------------------------------------------------------------
 * Counters that may wrap
 */

TEST(a_counter_that_may_wrap_unnoticed_is_warned_about_once) {
  publish(1, ROWS_MAX, true);
  add(0, 1, 1);
  look();
  assert_int_equal(said_len, 0);
  publisher->feeds[0].fields.list[0].size = 4;
  for (int i = 0; i < 3; i++) {
    add(0, 1 + UINT32_MAX / 4, 1);
    look();
    assert_int_equal(said_len, 1);
  }
  assert_true(was_said("field packets grew by more than a quarter"));
  assert_true(was_said("64 bits"));
}

/* ---------------------------------------------------------------------------
 * Any order of events
 *
 * The model: if the last complete reading had a row for every entry, a new
 * entry counts from 0, otherwise from its first reading on. If all fields of a
 * copy decreased, the copy counts from 0 again; otherwise fields that decreased
 * count nothing. An entry is forgotten when a complete reading does not find
 * it.
 */

static struct {
  bool known;
  struct value last[COPIES];
} model[KEYS];
static bool model_from_zero;

static void grow(const struct value *last, const struct value *now,
                 uint64_t *growth) {
  bool whole = true, any = false;
  for (int f = 0; f < FIELDS; f++) {
    any |= now->fields[f] < last->fields[f];
    whole &= now->fields[f] < last->fields[f] || last->fields[f] == 0;
  }
  for (int f = 0; f < FIELDS; f++)
    if (any && whole)
      growth[f] += now->fields[f];
    else if (now->fields[f] > last->fields[f])
      growth[f] += now->fields[f] - last->fields[f];
}

static size_t living(void) {
  size_t len = 0;
  for (uint32_t key = 0; key < KEYS; key++)
    len += kernel.entries[key].exists;
  return len;
}

/* Asserts how much the row of an entry grew in a reading that found the entry.
 */
static void follow(uint32_t key) {
  uint64_t growth[FIELDS] = {0};
  static const struct value none;
  for (int copy = 0; copy < COPIES; copy++) {
    struct value *last = &model[key].last[copy];
    const struct value *now = &kernel.entries[key].copies[copy];
    if (model[key].known || model_from_zero)
      grow(model[key].known ? last : &none, now, growth);
    *last = *now;
  }
  model[key].known = true;
  for (int f = 0; f < FIELDS; f++)
    assert_int_equal(rows[key].grew[f], growth[f]);
}

static void check_key(uint32_t key, bool complete) {
  if (kernel.entries[key].was_read) {
    assert_true(rows[key].exists || !model[key].known);
    if (rows[key].exists)
      follow(key);
  } else if (complete) {
    assert_false(rows[key].exists);
    model[key].known = false;
  } else if (rows[key].exists) {
    assert_true(model[key].known);
    assert_int_equal(rows[key].grew[0] + rows[key].grew[1], 0);
  }
}

static void check_look(void) {
  kernel.lost_after = random_number(5) == 0 ? (int)random_number(KEYS) : -1;
  size_t alive = living(), len = look();
  bool complete = kernel.lost_after < 0 || (size_t)kernel.lost_after >= alive;
  assert_true(len <= ROWS_MAX);
  for (uint32_t key = 0; key < KEYS; key++)
    check_key(key, complete);
  if (!complete)
    return;
  assert_int_equal(len, alive < ROWS_MAX ? alive : ROWS_MAX);
  model_from_zero = alive <= ROWS_MAX;
}

static void happen(void) {
  uint32_t key = random_number(KEYS);
  switch (random_number(8)) {
  case 0:
    remove_entry(key);
    break;
  case 1: /* deletes the entry and creates it again, with any values */
    remove_entry(key);
    add(key, 1 + random_number(40), 1 + random_number(4000));
    break;
  case 2: { /* deletes another entry if the map is full, as an LRU map does */
    uint32_t other = random_number(KEYS);
    if (living() > ROWS_MAX)
      remove_entry(other);
    add(key, 1, 60);
    break;
  }
  default:
    if (kernel.entries[key].exists || living() < ROWS_MAX ||
        random_number(8) == 0)
      add(key, 1 + random_number(20), 60 + random_number(1500));
  }
}

static void play(uint32_t type) {
  memset(model, 0, sizeof(model));
  model_from_zero = false;
  publish(type, ROWS_MAX, false);
  check_look();
  for (int i = 0; i < 4000; i++) {
    for (uint32_t events = random_number(10); events > 0; events--)
      happen();
    if (random_number(12) == 0) { /* the pin is missing for one reading */
      kernel.missing = random_number(2) == 0 ? ENOENT : EACCES;
      assert_int_equal(look(), 0);
      kernel.missing = 0;
    } else if (random_number(40) == 0) { /* the program is loaded again */
      memset(kernel.entries, 0, sizeof(kernel.entries));
      memset(model, 0, sizeof(model));
      kernel.info.id++;
      model_from_zero = true;
    }
    check_look();
  }
  assert_false(was_said("decreased"));
}

TEST(rows_count_what_each_entry_grew_by_in_any_order_of_events) { play(1); }

TEST(rows_of_maps_per_core_count_what_each_entry_grew_by) { play(2); }

TEST(a_row_counts_what_all_keys_of_its_name_grew_by) {
  uint64_t last[KEYS] = {0};
  kernel.names = KEYS - 3;
  publish(1, KEYS, true);
  for (int i = 0; i < 2000; i++) {
    uint64_t growth[KEYS] = {0};
    bool exists[KEYS] = {false};
    for (uint32_t key = 0; key < KEYS; key++) {
      uint32_t event = random_number(8);
      if (event == 0)
        remove_entry(key);
      else if (event < 3 || kernel.entries[key].exists)
        add(key, event, 60);
      uint64_t packets = kernel.entries[key].copies[0].fields[0];
      growth[key % kernel.names] +=
          packets > last[key] ? packets - last[key] : 0;
      exists[key % kernel.names] |= kernel.entries[key].exists;
      last[key] = packets;
    }
    look();
    for (uint32_t name = 0; name < kernel.names; name++) {
      assert_int_equal(rows[name].exists, exists[name]);
      if (exists[name])
        assert_int_equal(rows[name].grew[0], growth[name]);
    }
  }
  assert_int_equal(said_len, 0);
}

const struct unit_fixtures unit_fixtures = {
    .before_all = unit_make_runtime_dir,
    .after_all = unit_remove_runtime_dir,
    .before_each = begin,
    .after_each = end,
};
