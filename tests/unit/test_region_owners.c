/* Tests which thread holds a slot, and who may take a slot that its thread has
 * given back or left behind. */
#include "percore_config.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region/writer.h"
#include "region_unit.h"

/* Calls a function in a thread of its own, and waits for its end. */
static void in_thread(void *(*call)(void *), void *argument) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, call, argument), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
}

static void *attach_and_end(void *region) {
  percore_slot_t slot;
  attach_thread(region, "ended", 0, &slot);
  percore_poll(slot, 1, 0);
  begin_section(slot);
  return NULL;
}

static enum region_state state_of(struct region_reader *reader, uint32_t s) {
  struct region_slot_view view;
  region_reader_slot(reader, s, &view);
  return view.state;
}

/* ---------------------------------------------------------------------------
 * Slots that were given back
 */

/* A region `unit` has 4 cores and 2 extra slots. */
REGION_TEST(a_slot_that_was_given_back_serves_threads_of_any_core) {
  percore_slot_t slots[2];
  for (int core = 0; core < 4; core++) {
    assert_return_code(attach_thread(region, "a", core, &slots[0]), errno);
    assert_return_code(attach_thread(region, "b", core, &slots[1]), errno);
    assert_return_code(percore_detach(slots[0]), errno);
    assert_return_code(percore_detach(slots[1]), errno);
  }
  assert_return_code(attach_thread(region, "pool", PERCORE_NO_CORE, &slots[0]),
                     errno);
  assert_int_equal(region->shared->attach_refused, 0);
}

REGION_TEST(a_slot_keeps_the_core_for_which_it_has_counted) {
  percore_slot_t own = unit_attach(region, 1), extra = unit_attach(region, 1);
  struct percore_slot_head *head = extra.seat->head;
  assert_return_code(percore_detach(extra), errno);
  (void)unit_attach(region, PERCORE_NO_CORE); /* takes an unused slot */
  (void)own;
  percore_slot_t taken = unit_attach(region, PERCORE_NO_CORE);
  assert_ptr_equal(taken.seat->head, head);
  UNIT_READER(reader);
  struct region_slot_view view;
  region_reader_slot(reader, 4, &view);
  assert_int_equal(view.core, 1);
}

/* ---------------------------------------------------------------------------
 * Gauges
 */

enum { QUEUE = 1 }; /* a gauge of GLOBALS, whose maximum readers show */

static uint64_t core_queue(struct region_reader *reader, size_t core) {
  struct region_tile tile;
  assert_return_code(
      region_tile_init(&tile, reader, GLOBALS + 1, 1, REGION_WANT_CORES),
      errno);
  region_tile_read(reader, &tile, 0);
  uint64_t value = tile.cores[core * tile.columns + QUEUE];
  region_tile_free(&tile);
  return value;
}

REGION_TEST(a_gauge_counts_while_a_thread_holds_its_slot) {
  uint32_t globals = GLOBALS;
  percore_slot_t slots[3];
  UNIT_READER(reader);
  for (int i = 0; i < 3; i++) {
    slots[i] = unit_attach(region, 1);
    percore_set(percore_row(percore_table(slots[i], globals), 0), QUEUE,
                90 - 10 * i);
  }
  assert_int_equal(unit_read(GLOBALS, 0, QUEUE), 90);
  assert_return_code(percore_detach(slots[0]), errno);
  assert_int_equal(unit_read(GLOBALS, 0, QUEUE), 80);
  assert_int_equal(core_queue(reader, 1), 80);
  assert_return_code(percore_detach(slots[1]), errno);
  assert_int_equal(core_queue(reader, 1), 70);
  assert_return_code(percore_detach(slots[2]), errno);
  assert_int_equal(unit_read(GLOBALS, 0, QUEUE), 0);
}

REGION_TEST(a_thread_does_not_inherit_the_gauges_of_its_slot) {
  uint32_t globals = GLOBALS;
  percore_slot_t slot = unit_attach(region, 1);
  percore_set(percore_row(percore_table(slot, globals), 0), QUEUE, 90);
  percore_add(percore_row(percore_table(slot, globals), 0), 0, 5);
  assert_return_code(percore_detach(slot), errno);
  slot = unit_attach(region, 1);
  assert_int_equal(unit_read(GLOBALS, 0, QUEUE), 0);
  assert_int_equal(unit_read(GLOBALS, 0, 0), 5);
  percore_set(percore_row(percore_table(slot, globals), 0), QUEUE, 3);
  assert_int_equal(unit_read(GLOBALS, 0, QUEUE), 3);
}

/* ---------------------------------------------------------------------------
 * Threads that have ended
 */

REGION_TEST(a_thread_with_the_tid_of_an_ended_thread_does_not_hold_its_slot) {
  uint32_t row;
  in_thread(attach_and_end, region);
  region->slots[0].tid = (int32_t)syscall(SYS_gettid);
  assert_ptr_equal(percore_this_slot(region).seat->head, region_sink_head);
  struct percore_slot_head *head = region_block(region, 0);
  assert_fails(percore_detach(percore_this_slot(region)), EINVAL);
  assert_int_equal(region_attached_slots(region), 0);
  row = unit_row_of_key(region, FLOW, 1);
  (void)unit_row_of_key(region, FLOW, 2);
  assert_return_code(percore_row_remove(region, FLOW, row, 0), errno);
  (void)unit_row_of_key(region, FLOW, 3);
  assert_ptr_equal(unit_attach(region, 0).seat->head, head);
}

static void *attach_and_end_asleep(void *region) {
  percore_slot_t slot;
  attach_thread(region, "asleep", 0, &slot);
  percore_sleep(slot);
  return NULL;
}

REGION_TEST(a_thread_that_takes_the_slot_of_one_that_ended_asleep_is_awake) {
  in_thread(attach_and_end_asleep, region);
  percore_slot_t slot = unit_attach(region, 0);
  uint32_t row = unit_row_of_key(region, FLOW, 1);
  (void)unit_row_of_key(region, FLOW, 2);
  assert_return_code(percore_row_remove(region, FLOW, row, 0), errno);
  assert_fails(make_row_key(region, FLOW, 3, &row), EAGAIN);
  percore_quiescent(slot);
  (void)unit_row_of_key(region, FLOW, 3);
}

static struct percore_region *left_behind;

/* Ends the process with the number of what is wrong. */
static void *check_slot_left_behind(void *argument) {
  uint32_t row, other;
  percore_slot_t slot;
  while (syscall(SYS_tgkill, getpid(), getpid(), 0) == 0 &&
         region_attached_slots(left_behind) > 0)
    usleep(1000);
  if (make_row_key(left_behind, FLOW, 1, &row) != 0 ||
      make_row_key(left_behind, FLOW, 2, &other) != 0 ||
      percore_row_remove(left_behind, FLOW, row, 0) != 0 ||
      make_row_key(left_behind, FLOW, 3, &row) != 0)
    _exit(1);
  if (attach_thread(left_behind, "heir", 0, &slot) != 0 ||
      slot.seat->head != region_block(left_behind, 0) ||
      percore_detach(slot) != 0)
    _exit(2);
  _exit(percore_destroy(left_behind) == 0 ? 0 : 3);
  return argument;
}

TEST(a_main_thread_that_has_ended_leaves_its_slot) {
  int status;
  pid_t child = fork();
  assert_return_code(child, errno);
  if (child == 0) {
    pthread_t thread;
    alarm(60);
    left_behind = unit_create();
    attach_and_end(left_behind);
    pthread_create(&thread, NULL, check_slot_left_behind, NULL);
    pthread_exit(NULL);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

TEST(a_worker_that_has_ended_does_not_stay_attached_for_readers) {
  UNIT_REGION(region);
  struct percore_reader *own;
  assert_return_code(percore_open(&own, "unit", NULL), errno);
  assert_int_equal(percore_refresh(own), 1);
  in_thread(attach_and_end, region);
  assert_int_equal(region_state(region->slots[0].generation), REGION_GONE);
  assert_int_equal(region->slots[0].tid, 0);
  assert_int_equal(region_block(region, 0)->sequence % 2, 0);
  assert_int_equal(percore_reader_slot_core(own, 0), 0);
  percore_close(own);
}

REGION_TEST(a_worker_that_lives_stays_attached_for_readers) {
  (void)unit_attach(region, 0);
  UNIT_READER(reader);
  assert_int_equal(state_of(reader, 0), REGION_LIVE);
}

const struct unit_fixtures unit_fixtures = {
    .before_all = unit_make_runtime_dir, .after_all = unit_remove_runtime_dir};
