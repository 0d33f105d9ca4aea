/* Tests how much an entry of a BPF map counts between two readings. */
#include "map/growth.h"
#include "map/known.h"

#include "unit.h"

#include <linux/bpf.h>

#define COPIES 2

struct value {
  uint64_t packets, bytes;
  uint32_t drops;
  int32_t depth;
};

static struct map_field list[] = {
    {.name = "packets", .offset = 0, .size = 8},
    {.name = "bytes", .offset = 8, .size = 8},
    {.name = "drops", .offset = 16, .size = 4},
    {.name = "depth",
     .offset = 20,
     .size = 4,
     .is_signed = true,
     .is_gauge = true},
};
enum { PACKETS, BYTES, DROPS, DEPTH, FIELDS };

static struct value now[COPIES];
static uint64_t last[COPIES * FIELDS], growth[COPIES * FIELDS];
static const struct map_field *fast;
static bool is_array;

static void begin(void) {
  memset(now, 0, sizeof(now));
  memset(last, 0, sizeof(last));
  is_array = false;
}

static const struct map_fields fields = {.list = list, .len = FIELDS};

static void look(void) {
  struct map map = {
      .info = {.type = is_array ? BPF_MAP_TYPE_ARRAY : BPF_MAP_TYPE_HASH},
      .copies = COPIES,
      .stride = sizeof(now[0])};
  fast = map_growth(&map, &fields, now, last, growth);
}

static uint64_t grew(size_t field) {
  return growth[field] + growth[FIELDS + field];
}

TEST(counters_grow_in_each_copy) {
  now[0] = (struct value){.packets = 5, .bytes = 500};
  now[1] = (struct value){.packets = 7, .bytes = 700};
  look();
  now[1].packets = 10;
  look();
  assert_int_equal(growth[PACKETS], 0);
  assert_int_equal(growth[FIELDS + PACKETS], 3);
  assert_int_equal(grew(BYTES), 0);
}

TEST(a_gauge_rises_and_falls) {
  now[0].depth = 5;
  now[1].depth = -8;
  look();
  assert_int_equal((int64_t)grew(DEPTH), -3);
  now[0].depth = 1;
  look();
  assert_int_equal((int64_t)grew(DEPTH), -4);
}

TEST(a_narrow_counter_wraps) {
  now[0] = (struct value){.packets = 9, .drops = UINT32_MAX - 10};
  look();
  now[0].drops = 20;
  look();
  assert_int_equal(grew(DROPS), 31);
}

TEST(a_narrow_counter_that_may_wrap_unnoticed_is_fast) {
  now[0] = (struct value){.packets = 9, .drops = UINT32_MAX / 2};
  look(); /* may have grown for long */
  now[0].drops += UINT32_MAX / 4;
  now[0].packets += UINT64_MAX / 2;
  look();
  assert_null(fast);
  now[0].drops += UINT32_MAX / 4 + 1;
  look();
  assert_ptr_equal(fast, &list[DROPS]);
}

TEST(an_entry_whose_counters_all_decreased_was_created_again) {
  now[0] = (struct value){.packets = 50, .bytes = 5000};
  now[1] = (struct value){.packets = 50, .bytes = 5000};
  look();
  now[0] = (struct value){.packets = 3, .bytes = 300};
  now[1] = (struct value){.packets = 0, .bytes = 0};
  for (int i = 0; i < 10; i++) {
    look();
    assert_int_equal(grew(PACKETS), i == 0 ? 3 : 0);
  }
  assert_int_equal(last[PACKETS], 3);
}

TEST(a_field_that_falls_alone_counts_nothing) {
  for (int i = 0; i < 2; i++) {
    begin();
    is_array = i == 1;
    now[0] = (struct value){.packets = 50, .bytes = 5000};
    look();
    now[0] = (struct value){.packets = 60, .bytes = 4000};
    look();
    assert_int_equal(grew(PACKETS), 10);
    assert_int_equal(grew(BYTES), 0);
  }
}

TEST(a_core_that_was_set_to_zero_leaves_the_others_alone) {
  now[0] = (struct value){.packets = 1000, .bytes = 9000};
  now[1] = (struct value){.packets = 10, .bytes = 90};
  look();
  now[0] = (struct value){.packets = 1100, .bytes = 9900};
  now[1] = (struct value){.packets = 3, .bytes = 27};
  look();
  assert_int_equal(grew(PACKETS), 100 + 3);
  assert_int_equal(grew(BYTES), 900 + 27);
}

TEST(a_narrow_counter_falls_with_the_others) {
  now[0] = (struct value){.packets = 50, .drops = UINT32_MAX - 10};
  look();
  now[0] = (struct value){.packets = 4, .drops = 20};
  look();
  assert_int_equal(grew(PACKETS), 4);
  assert_int_equal(grew(DROPS), 20);
}

TEST(an_array_that_was_set_to_zero_counts_from_zero) {
  is_array = true;
  now[0] = (struct value){.packets = 50, .bytes = 5000, .drops = 3};
  look();
  now[0] = (struct value){.packets = 4, .bytes = 400};
  look();
  assert_int_equal(grew(PACKETS), 4);
  assert_int_equal(grew(DROPS), 0);
}

TEST(an_array_that_falls_a_little_counts_nothing) {
  is_array = true;
  now[0] = (struct value){.packets = 1000};
  look();
  for (uint64_t i = 1; i <= 3; i++) {
    now[0].packets -= 10;
    look();
    assert_int_equal(grew(PACKETS), 0);
  }
}

/* ---------------------------------------------------------------------------
 * Entries
 */

static uint32_t gone[1000];
static size_t gone_len;

static bool was_not_read(void *context, const struct map_entry *entry) {
  (void)context;
  if (entry->pass == 1)
    return false;
  gone[gone_len++] = entry->row;
  return true;
}

TEST(entries_are_found_by_their_keys_however_many_there_are) {
  struct map_known entries;
  map_known_init(&entries, sizeof(uint64_t), 2);
  for (uint64_t key = 0; key < 1000; key++) {
    assert_int_equal(map_known_find(&entries, &key), -1);
    long entry = map_known_add(&entries, &key);
    assert_true(entry >= 0);
    entries.list[entry].row = (uint32_t)key;
    map_known_values(&entries, (size_t)entry)[1] = key * 3;
  }
  for (uint64_t key = 0; key < 1000; key++) {
    long entry = map_known_find(&entries, &key);
    assert_true(entry >= 0);
    assert_int_equal(entries.list[entry].row, key);
    assert_int_equal(map_known_values(&entries, (size_t)entry)[1], key * 3);
  }
  assert_int_equal(entries.len, 1000);
  map_known_free(&entries);
}

TEST(entries_that_were_not_read_make_room_for_others) {
  struct map_known entries;
  map_known_init(&entries, sizeof(uint64_t), 1);
  gone_len = 0;
  for (uint64_t key = 0; key < 100; key++) {
    long entry = map_known_add(&entries, &key);
    entries.list[entry].row = (uint32_t)key;
    entries.list[entry].pass = key % 2 ? 1 : 0;
  }
  map_known_sweep(&entries, was_not_read, NULL);
  assert_int_equal(gone_len, 50);
  assert_int_equal(entries.len, 50);
  for (uint64_t key = 0; key < 100; key++)
    assert_int_equal(map_known_find(&entries, &key) >= 0, key % 2);
  size_t capacity = entries.capacity;
  for (uint64_t key = 1000; key < 1050; key++) {
    long entry = map_known_add(&entries, &key);
    assert_int_equal(map_known_values(&entries, (size_t)entry)[0], 0);
    map_known_values(&entries, (size_t)entry)[0] = key;
  }
  assert_int_equal(entries.capacity, capacity);
  map_known_free(&entries);
}

const struct unit_fixtures unit_fixtures = {.before_each = begin};
