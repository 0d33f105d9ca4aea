/* Tests how rows are found by name: src/region/row_index.c. */
#include "percore_config.h"

#include "region/row_index.h"
#include "unit.h"

enum { ROWS = 2000 };
static uint64_t names[ROWS][3];

static void name_row(uint32_t row, uint64_t name) {
  memset(names[row], 0, sizeof(names[row]));
  names[row][0] = name;
}

TEST(rows_are_found_by_name_until_they_are_removed) {
  struct row_index index;
  row_index_init(&index, names, sizeof(names[0]));
  bool live[ROWS] = {false};
  unsigned seed = 3;
  /* Adds and removes rows in random order. The hashes of many names collide. */
  for (int step = 0; step < 40000; step++) {
    uint32_t row = (uint32_t)rand_r(&seed) % ROWS, found;
    if (live[row]) {
      row_index_remove(&index, row);
      assert_false(row_index_find(&index, names[row], &found));
    } else {
      name_row(row, (uint64_t)row << 32);
      assert_int_equal(row_index_reserve(&index), 0);
      row_index_add(&index, row);
    }
    live[row] = !live[row];
    uint32_t other = (uint32_t)rand_r(&seed) % ROWS;
    uint64_t wanted[3] = {(uint64_t)other << 32};
    assert_int_equal(row_index_find(&index, wanted, &found), live[other]);
    if (live[other])
      assert_int_equal(found, other);
  }
  row_index_free(&index);
}

TEST(an_empty_index_finds_and_removes_nothing) {
  struct row_index index;
  uint32_t found;
  row_index_init(&index, names, sizeof(names[0]));
  assert_false(row_index_find(&index, names[0], &found));
  row_index_remove(&index, 0);
  assert_int_equal(index.count, 0);
  row_index_free(&index);
}
