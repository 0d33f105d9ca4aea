/* Tests the thread that reads regions. It uses the real clock, but no result
 * depends on durations. */
#include "plugin_unit.h"

#include "plugin/region_sampler.h"
#include "region_unit.h"

#include <signal.h>
#include <time.h>

#define INTERVAL_NS UINT64_C(20000000)

static struct region_sampler *sampler;

static void start(void) {
  struct region_watch_options options = {.configs = &config.regions,
                                         .values_max = 10000,
                                         .memory_max = (size_t)1 << 30};
  assert_int_equal(region_sampler_start(&sampler, &options, INTERVAL_NS), 0);
}

static void stop(void) {
  region_sampler_stop(sampler);
  region_sampler_free(sampler);
}

/* Waits for the next snapshot and returns it. Fails the test after 20 s. */
static struct region_snapshot *await_snapshot(void) {
  for (int i = 0; i < 4000; i++) {
    struct region_snapshot *snapshot = region_sampler_take(sampler);
    if (snapshot != NULL)
      return snapshot;
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  }
  fail_msg("no snapshot came");
  return NULL;
}

static void each_snapshot_is_of_a_later_moment(void **state) {
  unit_need_receivers(state);
  uint64_t last_ns = 0;
  start();
  for (int i = 0; i < 5; i++) {
    struct region_snapshot *snapshot = await_snapshot();
    assert_true(snapshot->time_ns > last_ns);
    last_ns = snapshot->time_ns;
    region_snapshot_free(snapshot);
  }
  stop();
}

static void a_region_is_read_by_the_thread(void **state) {
  unit_need_receivers(state);
  struct percore_region *region = unit_create(PERCORE_SERVE_THREAD);
  start();
  int regions = 0;
  for (int i = 0; i < 1500 && regions == 0; i++) {
    struct region_snapshot *snapshot = await_snapshot();
    regions = snapshot->regions;
    region_snapshot_free(snapshot);
  }
  assert_int_equal(regions, 1);
  stop();
  assert_int_equal(percore_destroy(region), 0);
}

static void it_stops_while_a_producer_does_not_answer(void **state) {
  unit_need_receivers(state);
  struct percore_region *region = unit_create(PERCORE_SERVE_POLLED);
  start();
  region_snapshot_free(await_snapshot());
  stop();
  assert_int_equal(percore_destroy(region), 0);
}

static void it_stops_before_its_first_snapshot(void **state) {
  unit_need_receivers(state);
  start();
  stop();
}

int main(void) {
#define TEST(test)                                                             \
  cmocka_unit_test_setup_teardown(test, plugin_unit_set_up,                    \
                                  plugin_unit_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(each_snapshot_is_of_a_later_moment),
      TEST(a_region_is_read_by_the_thread),
      TEST(it_stops_while_a_producer_does_not_answer),
      TEST(it_stops_before_its_first_snapshot),
  };
  return cmocka_run_group_tests_name("plugin_region_sampler", tests,
                                     unit_make_runtime_dir,
                                     unit_remove_runtime_dir);
}
