/* Tests the handles that a program gets: of slots, tables and rows. */
#include "percore_config.h"

#include <pthread.h>
#include <sched.h>

#include "region/writer.h"
#include "region_unit.h"

#include "base/affinity.h"

/* ---------------------------------------------------------------------------
 * Rows
 */

REGION_TEST(objects_from_calloc_count_nowhere) {
  percore_slot_t slot = unit_attach(region, 0);
  uint64_t values[64];
  static const uint32_t tables[] = {PORT, SESSION, FLOW};
  (void)unit_row(region, PORT, "eth0");
  (void)unit_row_of_key(region, SESSION, 1);
  (void)unit_row_of_key(region, FLOW, 1);
  (void)unit_row(region, SLOW, "cli");
  for (size_t t = 0; t < COUNT_OF(tables); t++) {
    percore_row_t row = percore_row(percore_table(slot, tables[t]), 0);
    percore_begin(row);
    percore_add(row, BYTES, 5);
    percore_end(row);
  }
  percore_observe(percore_row(percore_table(slot, PORT), 0), LATENCY, 5);
  percore_shared_add(percore_shared_row(region, SLOW, 0), 0, 5);
  UNIT_READER(reader);
  for (uint32_t t = PORT; t < TABLES; t++) {
    assert_int_equal(region_reader_rows(reader, t + 1), 2);
    unit_totals(reader, t, 1, values);
    for (size_t c = 0; c < 2; c++)
      assert_int_equal(values[c], 0);
  }
  assert_fails(percore_row_remove(region, FLOW, 0, 0), ENOENT);
}

REGION_TEST(any_number_is_the_row_of_a_single_row_table) {
  percore_table_t table = percore_table(unit_attach(region, 0), GLOBALS);
  for (uint32_t number = 0; number < 3; number++)
    percore_add(percore_row(table, number), 0, 1);
  percore_shared_add(percore_shared_row(region, GLOBALS, 9), 0, 1);
  assert_int_equal(unit_read(GLOBALS, 0, 0), 4);
}

REGION_TEST(rows_are_numbered_from_1_and_found_again) {
  assert_int_equal(percore_row_add(region, PORT, "eth0", 0), 1);
  assert_int_equal(errno, 0);
  assert_int_equal(percore_row_add(region, PORT, "eth0", 0), 1);
  assert_int_equal(errno, EEXIST);
  assert_int_equal(percore_row_add(region, FLOW, NULL, 7), 1);
  assert_int_equal(percore_row_add(region, FLOW, NULL, 8), 2);
  assert_int_equal(percore_row_add(region, FLOW, NULL, 9), 0);
  assert_int_equal(errno, ENOSPC);
}

/* ---------------------------------------------------------------------------
 * Regions that are NULL
 */

TEST(a_null_region_is_a_sink_in_every_call) {
  struct percore_region_status status;
  percore_slot_t slot = percore_attach(NULL, "w", PERCORE_THIS_CORE);
  assert_int_equal(errno, ENODEV);
  percore_table_t table = percore_table(slot, 3);
  assert_int_equal(errno, ENODEV);
  percore_row_t row = percore_row(table, percore_row_add(NULL, 0, "a", 0));
  percore_begin(row);
  percore_add(row, 7, 1);
  percore_set(row, 7, -1);
  percore_observe(row, 7, 1000);
  percore_end(row);
  percore_shared_add(percore_shared_row(NULL, 0, 1), 0, 1);
  percore_sleep(percore_this_slot(NULL));
  percore_wake(slot);
  percore_poll(slot, 1, 0);
  percore_quiescent(slot);
  assert_fails(percore_row_remove(NULL, 0, 1, 0), ENODEV);
  assert_fails(percore_row_add_at(NULL, 0, 1, "a", 0), ENODEV);
  assert_fails(percore_reserve(NULL, 0, 1), ENODEV);
  assert_fails(percore_reset(NULL, 0, 1), ENODEV);
  assert_fails(percore_detach(slot), EINVAL);
  assert_return_code(percore_status(NULL, &status), errno);
  assert_int_equal(status.served, 0);
  assert_return_code(percore_destroy(NULL), errno);
}

/* ---------------------------------------------------------------------------
 * Slots
 */

REGION_TEST(a_thread_that_attaches_again_gets_the_slot_that_it_has) {
  percore_slot_t slot = percore_attach(region, "library", 1);
  for (int i = 0; i < 20; i++) {
    assert_ptr_equal(percore_attach(region, "library", 1).seat, slot.seat);
    assert_int_equal(errno, 0);
  }
  assert_ptr_not_equal(percore_attach(region, "library", 2).seat, slot.seat);
  assert_ptr_not_equal(percore_attach(region, "other", 1).seat, slot.seat);
  assert_int_equal(region_attached_slots(region), 3);
}

/* The highest core on which this process may run, and another; skips if there
 * is only one. */
static void two_cores(int *last, int *other) {
  cpu_set_t cpus;
  *last = *other = -1;
  assert_return_code(sched_getaffinity(0, sizeof(cpus), &cpus), errno);
  for (int core = 0; core < CPU_SETSIZE; core++)
    if (CPU_ISSET((size_t)core, &cpus)) {
      *other = *last;
      *last = core;
    }
  if (*other >= 0)
    return;
  print_message("skipped: the test needs two cores\n");
  skip();
}

/* What a thread counts before and after another pins it. */
static struct {
  struct percore_region *region;
  int from, to;
  bool polls;
} moved;

static void *attach_and_be_pinned(void *argument) {
  affinity_pin(moved.from);
  percore_slot_t slot = percore_attach(moved.region, "late", PERCORE_THIS_CORE);
  percore_sleep(slot);
  percore_wake(slot);
  affinity_pin(moved.to);
  if (moved.polls)
    percore_poll(slot, 1, 0);
  else
    percore_add(percore_row(percore_table(slot, 0), 0), 0, 1);
  assert_ptr_equal(slot.seat->head,
                   region_block(moved.region, (uint32_t)moved.to));
  return argument;
}

static const struct percore_field one_field[] = {{.name = "rounds"}};
static const struct percore_table one_table[] = {
    {.name = "one", .fields = one_field, .field_count = 1}};

static void pin_late(bool polls) {
  pthread_t thread;
  moved.polls = polls;
  two_cores(&moved.to, &moved.from);
  assert_return_code(create_region(&moved.region, "unit", one_table, 1, NULL),
                     errno);
  assert_int_equal(pthread_create(&thread, NULL, attach_and_be_pinned, NULL),
                   0);
  pthread_join(thread, NULL);
  assert_return_code(percore_destroy(moved.region), errno);
}

TEST(a_thread_that_is_pinned_after_it_attached_counts_for_that_core) {
  pin_late(false);
}

TEST(the_first_poll_of_a_thread_also_chooses_its_core) { pin_late(true); }

REGION_TEST(a_thread_that_has_not_counted_holds_no_slot) {
  percore_slot_t slot = percore_attach(region, "idle", PERCORE_THIS_CORE);
  assert_int_equal(region_attached_slots(region), 0);
  (void)percore_table(slot, FLOW);
  assert_int_equal(region_attached_slots(region), 1);
  assert_return_code(percore_detach(slot), errno);
}

const struct unit_fixtures unit_fixtures = {
    .before_each = unit_make_runtime_dir,
    .after_each = unit_remove_runtime_dir,
};
