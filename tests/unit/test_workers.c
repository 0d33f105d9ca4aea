/* Tests what is derived from the slots of a region (src/region/worker.c). The
 * test writes what percore_poll, _sleep and _wake write; one tick of the clock
 * is a nanosecond. */
#include "region_unit.h"
#include "unit.h"

#include "region/worker.h"

enum { SECOND = 1000000000 };

struct fixture {
  struct percore_region *region;
  struct region_reader *reader;
  percore_slot_t slot;
  struct region_workers workers;
  uint64_t now;
};
static struct fixture fixture;

static void polled_at(struct percore_slot_head *head, uint64_t tsc) {
  head->origin_tsc = tsc - head->total_cycles;
}

static void begin(void) {
  fixture = (struct fixture){.now = 100ull * SECOND};
  fixture.region = unit_create();
  fixture.reader = unit_connect();
  assert_return_code(attach_thread(fixture.region, "rx", 2, &fixture.slot), 0);
  polled_at(fixture.slot.seat->head, fixture.now);
}

static void end(void) {
  region_workers_forget(&fixture.workers);
  region_reader_close(fixture.reader);
  percore_detach(fixture.slot);
  assert_return_code(percore_destroy(fixture.region), 0);
}

/* The thread is awake for some seconds, busy for some of them, and polls. */
static void poll(struct fixture *fixture, double seconds, double busy) {
  struct percore_slot_head *head = fixture->slot.seat->head;
  uint64_t ticks = (uint64_t)(seconds * SECOND);
  fixture->now += ticks;
  head->total_cycles += ticks;
  head->busy_cycles += (uint64_t)(busy * SECOND);
  head->polls += 100;
  head->empty_polls += 25;
  head->items += 3200;
}

static void sleep_now(struct fixture *fixture) {
  fixture->slot.seat->head->asleep_tsc = fixture->now;
}

static void wake(struct fixture *fixture) {
  struct percore_slot_head *head = fixture->slot.seat->head;
  uint64_t slept = fixture->now - head->asleep_tsc;
  head->asleep_tsc = 0;
  head->total_cycles += slept;
  head->sleep_cycles += slept;
}

/* The library asks the kernel for the CPU time of the thread, which has had so
 * much more of it since the last check. */
static void check_cpu(struct fixture *fixture, double seconds) {
  struct percore_slot_head *head = fixture->slot.seat->head;
  uint64_t hz = region_reader_directory(fixture->reader)->header.tsc_hz;
  head->checked_tsc = fixture->now;
  head->checked_cpu_ns += (uint64_t)(seconds * SECOND * 1e9 / (double)hz);
  head->checked_sleep = head->sleep_cycles;
}

static const struct region_worker *look(struct fixture *fixture) {
  assert_int_equal(region_workers_read(&fixture->workers, fixture->reader,
                                       UINT32_MAX, fixture->now, fixture->now,
                                       0),
                   0);
  return &fixture->workers.list[2];
}

static double still_s(const struct region_worker *worker) {
  return (double)worker->still_ns / SECOND;
}

TEST(the_useful_load_is_the_busy_share_of_the_interval) {
  poll(&fixture, 1, 1);
  const struct region_worker *worker = look(&fixture);
  assert_int_equal(fixture.workers.attached, 1);
  assert_int_equal(worker->slot.core, 2);
  assert_string_equal(worker->slot.name, "rx");
  assert_nan(worker->useful);
  assert_nan(fixture.workers.interval_s);
  poll(&fixture, 2, 0.4);
  look(&fixture);
  assert_near(worker->useful, 0.2, 1e-9);
  assert_near(worker->slept, 0, 1e-9);
  assert_int_equal(worker->growth[REGION_CORE_POLLS], 100);
  assert_int_equal(worker->growth[REGION_CORE_ITEMS], 3200);
  assert_near(fixture.workers.interval_s, 2, 1e-9);
  assert_near(still_s(worker), 0, 1e-9);
}

TEST(a_round_counts_in_the_interval_in_which_it_ends) {
  poll(&fixture, 1, 1);
  const struct region_worker *worker = look(&fixture);
  poll(&fixture, 0.9, 0.9);
  fixture.now += SECOND / 10;
  look(&fixture);
  assert_near(worker->useful, 1, 1e-9);
  fixture.now -= SECOND / 10; /* the round that has begun takes 1.1 s */
  poll(&fixture, 1.1, 0.55);
  look(&fixture);
  assert_near(worker->useful, 0.5, 1e-9);
}

TEST(a_worker_that_is_awake_and_does_not_poll_is_stuck) {
  poll(&fixture, 1, 1);
  const struct region_worker *worker = look(&fixture);
  poll(&fixture, 1, 1);
  look(&fixture);
  assert_near(still_s(worker), 0, 1e-9);
  fixture.now += SECOND;
  look(&fixture);
  fixture.now += 3ull * SECOND / 2;
  look(&fixture);
  assert_near(still_s(worker), 2.5, 1e-9);
  assert_nan(worker->useful);
  fixture.now -= 5ull * SECOND / 2;
  poll(&fixture, 5, 5);
  look(&fixture);
  assert_near(still_s(worker), 0, 1e-9);
  assert_near(worker->useful, 1, 1e-9);
}

TEST(
    a_worker_that_was_stuck_before_the_first_reading_is_stuck_since_its_last_poll) {
  uint64_t hz = region_reader_directory(fixture.reader)->header.tsc_hz;
  poll(&fixture, 1, 1);
  fixture.now +=
      80 * hz; /* the clock of cycles; now_ns has moved less or more */
  region_workers_read(&fixture.workers, fixture.reader, UINT32_MAX,
                      100ull * SECOND, fixture.now, 0);
  assert_near(still_s(&fixture.workers.list[2]), 80, 1e-6);
}

TEST(sleep_counts_in_the_intervals_in_which_a_worker_sleeps) {
  poll(&fixture, 1, 1);
  const struct region_worker *worker = look(&fixture);
  poll(&fixture, 0.25, 0.25);
  sleep_now(&fixture);
  static const double useful[] = {0.25, 0, 0}, slept[] = {0.75, 1, 1};
  for (int i = 0; i < 3; i++) {
    fixture.now = (102ull + (uint64_t)i) * SECOND;
    look(&fixture);
    assert_near(worker->useful, useful[i], 1e-9);
    assert_near(worker->slept, slept[i], 1e-9);
    assert_near(still_s(worker), 0, 1e-9);
  }
  fixture.now += SECOND / 2;
  wake(&fixture);
  poll(&fixture, 0.5, 0.5);
  look(&fixture);
  assert_near(worker->useful, 0.5, 1e-9);
  assert_near(worker->slept, 0.5, 1e-9);
}

TEST(work_before_a_sleep_counts_when_its_round_ends) {
  poll(&fixture, 1, 1);
  const struct region_worker *worker = look(&fixture);
  fixture.now += SECOND / 2; /* works, and sleeps in the middle of its round */
  sleep_now(&fixture);
  fixture.now += SECOND / 2;
  look(&fixture);
  assert_near(worker->useful, 0, 1e-9);
  fixture.now += SECOND / 4;
  wake(&fixture);
  fixture.now -= SECOND / 2; /* the time before the sleep is part of the poll */
  poll(&fixture, 1.25, 1.25);
  look(&fixture);
  assert_near(worker->useful, 1.25 / 1.5, 1e-9);
}

/* Begins to measure a worker that has polled and was checked. */
static const struct region_worker *look_first(void) {
  poll(&fixture, 1, 1);
  check_cpu(&fixture, 1);
  return look(&fixture);
}

TEST(cpu_time_of_a_call_that_blocks_is_useful_and_not_sleep) {
  const struct region_worker *worker = look_first();
  poll(&fixture, 0.125, 0.125);
  sleep_now(&fixture);
  fixture.now += 7ull * SECOND / 8;
  wake(&fixture);
  check_cpu(&fixture, 0.25);
  look(&fixture);
  assert_near(worker->useful, 0.25, 1e-6);
  assert_near(worker->slept, 0.75, 1e-6);
  assert_near(worker->polled_empty, 0, 1e-6);
}

TEST(a_worker_that_blocks_without_percore_sleep_is_useful_for_its_cpu_time) {
  const struct region_worker *worker = look_first();
  poll(&fixture, 1, 1);
  check_cpu(&fixture, 0.25);
  look(&fixture);
  assert_near(worker->useful, 0.25, 1e-6);
  assert_near(worker->slept, 0, 1e-6);
}

TEST(time_off_the_cpu_in_short_rounds_is_no_empty_poll) {
  const struct region_worker *worker = look_first();
  poll(&fixture, 1, 0);
  check_cpu(&fixture, 0.375);
  look(&fixture);
  assert_near(worker->useful, 0, 1e-6);
  assert_near(worker->polled_empty, 0.375, 1e-6);
}

TEST(busy_time_is_useful_within_what_the_cpu_time_allows) {
  static const struct {
    double busy, cpu, useful;
  } cases[] = {
      {0.25, 1, 0.25}, {0.25, 0.5, 0.25},   {0.25, 0.125, 0.125},
      {0.75, 1, 0.75}, {0.75, 0.875, 0.75}, {0.75, 0.5, 0.5},
      {0.75, 0, 0},
  };
  const struct region_worker *worker = look_first();
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    poll(&fixture, 1, cases[i].busy);
    check_cpu(&fixture, cases[i].cpu);
    look(&fixture);
    assert_near(worker->useful, cases[i].useful, 1e-6);
    assert_near(worker->polled_empty, cases[i].cpu - cases[i].useful, 1e-6);
  }
}

TEST(a_check_counts_up_to_when_it_was_made) {
  const struct region_worker *worker = look_first();
  poll(&fixture, 0.25, 0.25);
  check_cpu(&fixture, 0.25);
  sleep_now(&fixture);
  fixture.now += 3ull * SECOND / 4;
  look(&fixture);
  assert_near(worker->useful, 0.25, 1e-6);
  assert_near(worker->slept, 0.75, 1e-6);
  fixture.now += SECOND / 2;
  wake(&fixture);
  check_cpu(&fixture, 0.125);
  poll(&fixture, 0.5, 0.125);
  look(&fixture);
  assert_near(worker->useful, 0.25, 1e-6);
  assert_near(worker->slept, 0.375, 1e-6);
  assert_near(worker->polled_empty, 0.375, 1e-6);
}

TEST(the_cpu_time_of_another_thread_is_not_compared) {
  const struct region_worker *worker = look_first();
  assert_return_code(percore_detach(fixture.slot), 0);
  assert_return_code(attach_thread(fixture.region, "next", 2, &fixture.slot),
                     0);
  fixture.now += SECOND / 2;
  polled_at(fixture.slot.seat->head, fixture.now);
  fixture.slot.seat->head->checked_tsc = fixture.now;
  fixture.slot.seat->head->checked_cpu_ns = 1;
  poll(&fixture, 0.5, 0.25);
  look(&fixture);
  assert_string_equal(worker->slot.name, "next");
  assert_near(worker->useful, 0.25, 1e-6);
  assert_near(worker->polled_empty, 0.25, 1e-6);
}

TEST(time_in_which_no_thread_has_the_slot_is_not_useful) {
  poll(&fixture, 1, 1);
  const struct region_worker *worker = look(&fixture);
  poll(&fixture, 0.5, 0.5);
  assert_return_code(percore_detach(fixture.slot), 0);
  fixture.now += SECOND / 2;
  look(&fixture);
  assert_int_equal(fixture.workers.attached, 0);
  assert_near(worker->useful, 0.5, 1e-9);
  fixture.now += SECOND;
  look(&fixture);
  assert_nan(worker->useful);
  assert_return_code(attach_thread(fixture.region, "next", 2, &fixture.slot),
                     0);
  fixture.now += SECOND / 2;
  polled_at(fixture.slot.seat->head, fixture.now);
  poll(&fixture, 0.5, 0.5);
  look(&fixture);
  assert_string_equal(worker->slot.name, "next");
  assert_near(worker->useful, 0.5, 1e-9);
  assert_near(still_s(worker), 0, 1e-9);
}

TEST(a_thread_that_attached_after_the_last_reading_is_measured_since_then) {
  look(&fixture);
  assert_return_code(percore_detach(fixture.slot), 0);
  assert_return_code(attach_thread(fixture.region, "late", 1, &fixture.slot),
                     0);
  fixture.now += SECOND;
  polled_at(fixture.slot.seat->head, fixture.now);
  poll(&fixture, 1, 0.5);
  const struct region_worker *worker = look(&fixture) - 1;
  assert_string_equal(worker->slot.name, "late");
  assert_near(worker->useful, 0.25, 1e-9);
  assert_near(fixture.workers.interval_s, 2, 1e-9);
}

TEST(the_first_reading_measures_since_a_time_when_no_slot_was_used) {
  poll(&fixture, 1, 0.5);
  assert_int_equal(region_workers_read(&fixture.workers, fixture.reader,
                                       UINT32_MAX, fixture.now, fixture.now,
                                       fixture.now - 2ull * SECOND),
                   0);
  assert_near(fixture.workers.list[2].useful, 0.25, 1e-9);
  assert_nan(fixture.workers.interval_s);
}

TEST(slots_that_are_read_in_several_calls_are_those_of_one_reading) {
  struct region_workers *workers = &fixture.workers;
  poll(&fixture, 1, 1);
  const struct region_worker *worker = look(&fixture);
  poll(&fixture, 2, 0.4);
  for (uint32_t s = 1; s < workers->len; s++)
    assert_int_equal(region_workers_read(workers, fixture.reader, 1,
                                         fixture.now, fixture.now, 0),
                     1);
  assert_int_equal(region_workers_read(workers, fixture.reader, 1, fixture.now,
                                       fixture.now, 0),
                   0);
  assert_int_equal(workers->attached, 1);
  assert_near(worker->useful, 0.2, 1e-9);
  assert_near(workers->interval_s, 2, 1e-9);
}

TEST(a_worker_that_polls_while_it_is_first_read_is_not_stuck) {
  poll(&fixture, 1, 1);
  fixture.now -= 5;
  assert_near(still_s(look(&fixture)), 0, 1e-9);
}

TEST(a_thread_that_never_polls_is_not_judged) {
  const struct region_worker *worker = look(&fixture);
  fixture.now += 5ull * SECOND;
  look(&fixture);
  assert_int_equal(fixture.workers.attached, 1);
  assert_false(worker->polls);
  assert_near(still_s(worker), 0, 1e-9);
  assert_nan(worker->useful);
}

TEST(forged_cycles_are_at_most_all_of_the_time) {
  poll(&fixture, 1, 1);
  const struct region_worker *worker = look(&fixture);
  poll(&fixture, 1, 1e9);
  look(&fixture);
  assert_near(worker->useful, 1, 1e-9);
  poll(&fixture, 1, 0);
  fixture.slot.seat->head->busy_cycles -= 5;
  look(&fixture);
  assert_nan(worker->useful);
  poll(&fixture, 1, 0);
  polled_at(fixture.slot.seat->head, 0);
  look(&fixture);
  assert_nan(worker->useful);
  polled_at(fixture.slot.seat->head, UINT64_MAX);
  look(&fixture);
  assert_nan(worker->useful);
}

const struct unit_fixtures unit_fixtures = {
    .before_all = unit_make_runtime_dir,
    .after_all = unit_remove_runtime_dir,
    .before_each = begin,
    .after_each = end,
};
