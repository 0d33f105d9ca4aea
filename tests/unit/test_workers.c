#include "region_unit.h"
#include "unit.h"

#include "tool/workers.h"

enum { SECOND = 1000000000 };

struct fixture {
  struct percore_region *region;
  struct region_reader *reader;
  percore_slot_t slot;
  struct workers workers;
  uint64_t now_ns;
};

static void begin(struct fixture *fixture) {
  *fixture = (struct fixture){.now_ns = SECOND};
  fixture->region = unit_create(PERCORE_SERVE_THREAD);
  fixture->reader = unit_connect();
  assert_return_code(percore_attach(fixture->region, "rx", 2, &fixture->slot),
                     0);
  assert_int_equal(workers_open(&fixture->workers, fixture->reader), 0);
}

static void end(struct fixture *fixture) {
  workers_close(&fixture->workers);
  region_reader_close(fixture->reader);
  percore_detach(fixture->region, fixture->slot);
  assert_return_code(percore_destroy(fixture->region), 0);
}

/* Writes the cells that percore_poll writes after `total` cycles, of which
 * `busy` were busy. */
static void poll(struct fixture *fixture, uint64_t total, uint64_t busy) {
  fixture->slot.head->total_cycles += total;
  fixture->slot.head->busy_cycles += busy;
  fixture->slot.head->polls += 100;
  fixture->slot.head->empty_polls += 25;
  fixture->slot.head->items += 3200;
}

static const struct worker *look(struct fixture *fixture, double seconds) {
  fixture->now_ns += (uint64_t)(seconds * SECOND);
  workers_read(&fixture->workers, fixture->reader, fixture->now_ns);
  return fixture->workers.workers;
}

static void the_useful_load_is_the_busy_share_of_the_interval(void **state) {
  (void)state;
  struct fixture fixture;
  begin(&fixture);
  poll(&fixture, 1000, 1000);
  const struct worker *worker = look(&fixture, 1);
  assert_int_equal(fixture.workers.count, 1);
  assert_int_equal(worker->core, 2);
  assert_string_equal(worker->name, "rx");
  assert_nan(worker->useful);
  poll(&fixture, 1000, 200);
  look(&fixture, 2);
  assert_near(worker->useful, 0.2, 1e-9);
  assert_near(worker->slept, 0, 1e-9);
  assert_near(worker->empty, 0.25, 1e-9);
  assert_near(worker->polls_per_s, 50, 1e-9);
  assert_near(worker->items_per_s, 1600, 1e-9);
  assert_near(worker->stuck_s, 0, 1e-9);
  end(&fixture);
}

static void a_worker_that_is_awake_and_does_not_poll_is_stuck(void **state) {
  (void)state;
  struct fixture fixture;
  begin(&fixture);
  poll(&fixture, 1000, 1000);
  const struct worker *worker = look(&fixture, 1);
  poll(&fixture, 1000, 1000);
  look(&fixture, 1);
  assert_near(worker->stuck_s, 0, 1e-9);
  look(&fixture, 1);
  look(&fixture, 1.5);
  assert_near(worker->stuck_s, 2.5, 1e-9);
  assert_nan(worker->useful);
  poll(&fixture, 5000, 5000);
  look(&fixture, 1);
  assert_near(worker->stuck_s, 0, 1e-9);
  end(&fixture);
}

static void a_worker_that_sleeps_is_not_stuck_but_idle(void **state) {
  (void)state;
  struct fixture fixture;
  begin(&fixture);
  poll(&fixture, 1000, 1000);
  const struct worker *worker = look(&fixture, 1);
  percore_sleep(fixture.slot);
  look(&fixture, 1);
  look(&fixture, 10);
  assert_true(worker->asleep);
  assert_near(worker->stuck_s, 0, 1e-9);
  assert_near(worker->useful, 0, 1e-9);
  assert_near(worker->slept, 1, 1e-9);
  percore_wake(fixture.slot);
  end(&fixture);
}

static void a_thread_that_never_polls_is_not_judged(void **state) {
  (void)state;
  struct fixture fixture;
  begin(&fixture);
  look(&fixture, 1);
  const struct worker *worker = look(&fixture, 5);
  assert_int_equal(fixture.workers.count, 1);
  assert_false(worker->polls);
  assert_near(worker->stuck_s, 0, 1e-9);
  assert_nan(worker->useful);
  end(&fixture);
}

static void
a_thread_that_takes_over_a_slot_is_judged_on_its_own_polls(void **state) {
  (void)state;
  struct fixture fixture;
  begin(&fixture);
  poll(&fixture, 1000, 1000);
  look(&fixture, 1);
  look(&fixture, 5);
  assert_return_code(percore_detach(fixture.region, fixture.slot), 0);
  assert_return_code(percore_attach(fixture.region, "next", 2, &fixture.slot),
                     0);
  const struct worker *worker = look(&fixture, 5);
  assert_string_equal(worker->name, "next");
  assert_near(worker->stuck_s, 0, 1e-9);
  end(&fixture);
}

static void a_detached_slot_is_not_a_worker(void **state) {
  (void)state;
  struct fixture fixture;
  begin(&fixture);
  poll(&fixture, 1000, 1000);
  look(&fixture, 1);
  assert_return_code(percore_detach(fixture.region, fixture.slot), 0);
  look(&fixture, 1);
  assert_int_equal(fixture.workers.count, 0);
  end(&fixture);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_useful_load_is_the_busy_share_of_the_interval),
      cmocka_unit_test(a_worker_that_is_awake_and_does_not_poll_is_stuck),
      cmocka_unit_test(a_worker_that_sleeps_is_not_stuck_but_idle),
      cmocka_unit_test(a_thread_that_never_polls_is_not_judged),
      cmocka_unit_test(
          a_thread_that_takes_over_a_slot_is_judged_on_its_own_polls),
      cmocka_unit_test(a_detached_slot_is_not_a_worker),
  };
  return cmocka_run_group_tests(tests, unit_make_runtime_dir,
                                unit_remove_runtime_dir);
}
