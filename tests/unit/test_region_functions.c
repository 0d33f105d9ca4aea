/* Tests that the functions of the library (src/region/functions.c) do what the
 * updates of percore_update.h do. */
#include "percore_config.h"

#include <string.h>

#include "region_unit.h"

enum { CELLS = 16 };

/* A slot block with one PER_CORE table, and a copy of an OWNED table. */
struct memory {
  struct percore_slot_head head;
  uint64_t cells[CELLS], owned[CELLS], sequence;
};
static struct memory inlined, called;

static const percore_histogram_t histogram = {4, 1, 8};

static percore_slot_t slot_of(struct memory *memory) {
  return (percore_slot_t){&memory->head};
}

static const percore_core_table_t core_table = {
    .offset = offsetof(struct memory, cells), .stride = 32, .max_rows = 2};

static percore_owned_table_t owned_table(struct memory *memory) {
  return (percore_owned_table_t){.rows = (unsigned char *)memory->owned,
                                 .stride = 32,
                                 .max_rows = 2,
                                 .sequences =
                                     (unsigned char *)&memory->sequence};
}

static percore_shared_table_t shared_table(struct memory *memory) {
  return (percore_shared_table_t){
      .rows = (unsigned char *)memory->owned, .stride = 32, .max_rows = 4};
}

static void begin(void) {
  memset(&inlined, 0, sizeof(inlined));
  memset(&called, 0, sizeof(called));
  inlined.head.long_round = called.head.long_round = UINT64_MAX;
}

#define assert_same() assert_memory_equal(&inlined, &called, sizeof(called))

TEST(functions_for_rows_of_a_slot_do_what_the_inline_updates_do) {
  percore_core_row_t row = percore_core_row(slot_of(&inlined), core_table, 1);
  percore_core_row_t other =
      percore_core_row_fn(slot_of(&called), core_table, 1);
  uint64_t last = 3, other_last = 3;
  percore_begin(slot_of(&inlined));
  percore_begin_fn(slot_of(&called));
  assert_same();
  percore_add(row, 0, 5);
  percore_add_fn(other, 0, 5);
  percore_updown_add(row, 1, -2);
  percore_updown_add_fn(other, 1, -2);
  percore_set(row, 2, -7);
  percore_set_fn(other, 2, -7);
  percore_add_growth(row, 3, 10, &last);
  percore_add_growth_fn(other, 3, 10, &other_last);
  assert_int_equal(last, other_last);
  percore_hist_add(row, histogram, 5);
  percore_hist_add_fn(other, histogram, 5);
  percore_prefetch_fn(other);
  assert_same();
  assert_int_equal(called.cells[4], 5);
  percore_end(slot_of(&inlined));
  percore_end_fn(slot_of(&called));
  assert_same();
  assert_int_equal(called.head.sequence, 2);
}

TEST(functions_for_owned_and_shared_rows_do_what_the_inline_updates_do) {
  percore_owned_row_t row = percore_owned_row(owned_table(&inlined), 1);
  percore_owned_row_t other = percore_owned_row_fn(owned_table(&called), 1);
  percore_shared_row_t shared = percore_shared_row(shared_table(&inlined), 3);
  percore_shared_row_t other_shared =
      percore_shared_row_fn(shared_table(&called), 3);
  uint64_t last = 0, other_last = 0;
  percore_row_begin(row);
  percore_row_begin_fn(other);
  assert_same();
  percore_add(row, 0, 5);
  percore_owned_add_fn(other, 0, 5);
  percore_updown_add(row, 1, -2);
  percore_owned_updown_add_fn(other, 1, -2);
  percore_set(row, 2, 7);
  percore_owned_set_fn(other, 2, 7);
  percore_add_growth(row, 3, 10, &last);
  percore_owned_add_growth_fn(other, 3, 10, &other_last);
  percore_hist_add(row, histogram, 1);
  percore_owned_hist_add_fn(other, histogram, 1);
  percore_owned_prefetch_fn(other);
  percore_row_end(row);
  percore_row_end_fn(other);
  percore_shared_add(shared, 0, 9);
  percore_shared_add_fn(other_shared, 0, 9);
  percore_shared_set(shared, 1, 8);
  percore_shared_set_fn(other_shared, 1, 8);
  assert_same();
  assert_int_equal(called.owned[4], 5);
  assert_int_equal(called.owned[12], 9);
  assert_int_equal(called.sequence, 2);
}

TEST(functions_for_polls_and_sleep_do_what_the_inline_updates_do) {
  percore_poll_at(slot_of(&inlined), 1000, 4);
  percore_poll_at_fn(slot_of(&called), 1000, 4);
  percore_quiescent(slot_of(&inlined));
  percore_quiescent_fn(slot_of(&called));
  assert_same();
  assert_int_equal(called.head.busy_cycles, 1000);
  percore_poll_fn(slot_of(&called), 0);
  assert_int_equal(called.head.polls, 2);
  assert_true(called.head.total_cycles <= percore_tsc_fn());
  called.head.long_round = 0x1p40; /* percore_wake checks no CPU time */
  uint64_t before = percore_tsc();
  percore_sleep_fn(slot_of(&called));
  assert_in_range(called.head.asleep_tsc, before, percore_tsc() | 1);
  percore_wake_fn(slot_of(&called));
  assert_int_equal(called.head.asleep_tsc, 0);
}

const struct unit_fixtures unit_fixtures = {.before_each = begin};
