/* Tests how numbers are found by their keys: src/base/key_index.c. */
#include "percore_config.h"

#include "base/key_index.h"
#include "unit.h"

enum { ROWS = 2000 };
static uint64_t names[ROWS][3];

static void name_row(uint32_t row, uint64_t name) {
  memset(names[row], 0, sizeof(names[row]));
  names[row][0] = name;
}

TEST(rows_are_found_by_name_until_they_are_removed) {
  struct key_index index;
  key_index_init(&index, names, sizeof(names[0]));
  bool live[ROWS] = {false};
  unsigned seed = 3;
  /* Adds and removes rows in random order. The hashes of many names collide. */
  for (int step = 0; step < 40000; step++) {
    uint32_t row = (uint32_t)rand_r(&seed) % ROWS, found;
    if (live[row]) {
      key_index_remove(&index, row);
      assert_false(key_index_find(&index, names[row], &found));
    } else {
      name_row(row, (uint64_t)row << 32);
      assert_true(key_index_reserve(&index));
      key_index_add(&index, row);
    }
    live[row] = !live[row];
    uint32_t other = (uint32_t)rand_r(&seed) % ROWS;
    uint64_t wanted[3] = {(uint64_t)other << 32};
    assert_int_equal(key_index_find(&index, wanted, &found), live[other]);
    if (live[other])
      assert_int_equal(found, other);
  }
  key_index_free(&index);
}

static const char *string_of(const void *strings, uint32_t number) {
  return ((const char *const *)strings)[number];
}

TEST(strings_are_found_whatever_their_length) {
  static const char *const strings[] = {
      "", "a", "ab", "abcdefgh", "abcdefgi", "abcdefghi", "abcdefghabcdefgh"};
  struct key_index index;
  uint32_t found;
  key_index_init_names(&index, strings, string_of);
  for (uint32_t n = 0; n < 7; n++) {
    assert_false(key_index_find(&index, strings[n], &found));
    assert_true(key_index_reserve(&index));
    key_index_add(&index, n);
  }
  for (uint32_t n = 0; n < 7; n++) {
    assert_true(key_index_find(&index, strings[n], &found));
    assert_int_equal(found, n);
  }
  key_index_renumber(&index, 3);
  assert_int_equal(index.count, 3);
  assert_true(key_index_find(&index, "ab", &found));
  assert_false(key_index_find(&index, "abcdefgh", &found));
  key_index_free(&index);
}

/* Returns the length of the longest sequence of cells that are taken. */
static uint32_t longest_run(const struct key_index *index) {
  uint32_t run = 0, longest = 0;
  for (uint32_t at = 0; at <= index->mask; at++) {
    run = index->cells[at] != 0 ? run + 1 : 0;
    longest = run > longest ? run : longest;
  }
  return longest;
}

/* Whoever knows this file finds keys that collide for one seed. */
TEST(keys_that_collide_with_one_seed_do_not_collide_with_another) {
  static uint64_t keys[ROWS];
  struct key_index known, other;
  uint32_t count = 0;
  key_index_init(&known, keys, sizeof(keys[0]));
  key_index_init(&other, keys, sizeof(keys[0]));
  assert_true(known.seed != other.seed);
  known.cells = calloc(1 << 14, sizeof(*known.cells));
  known.mask = (1 << 14) - 1;
  for (uint64_t key = 1; count < ROWS / 10; key++) {
    keys[count] = key;
    key_index_add(&known, count);
    bool collides = known.cells[0] == count + 1;
    key_index_remove(&known, count);
    count += collides;
  }
  for (uint32_t n = 0; n < count; n++) {
    assert_true(key_index_reserve(&known) && key_index_reserve(&other));
    key_index_add(&known, n);
    key_index_add(&other, n);
  }
  assert_int_equal(longest_run(&known), count);
  assert_in_range(longest_run(&other), 1, count / 4);
  key_index_free(&known);
  key_index_free(&other);
}

TEST(an_empty_index_finds_and_removes_nothing) {
  struct key_index index;
  uint32_t found;
  key_index_init(&index, names, sizeof(names[0]));
  assert_false(key_index_find(&index, names[0], &found));
  key_index_remove(&index, 0);
  assert_int_equal(index.count, 0);
  key_index_free(&index);
}
