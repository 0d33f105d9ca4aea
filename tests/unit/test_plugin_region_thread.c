/* Tests the thread that reads regions. It uses the real clock, which a test may
 * set forward, but no result depends on durations. */
#include "plugin_unit.h"

#include "base/clock.h"
#include "cycles/sampling_thread.h"
#include "plugin/region_thread.h"
#include "plugin/region_workers.h"
#include "region_unit.h"

#include <stdatomic.h>
#include <time.h>

#define INTERVAL_NS 20000000

static struct region_thread *thread;
static struct region_thread *all[8]; /* their memory is never freed */
static size_t started;

static void start_with(uint64_t interval_ns) {
  static struct empty_polls polls;
  const struct region_watch_options options = {
      .config = &config, .empty_polls = &polls, .interval_ns = interval_ns};
  thread = region_thread_new(&options, clock_now_ns(CLOCK_BOOTTIME));
  assert_non_null(thread);
  all[started++] = thread;
  assert_int_equal(region_thread_keep(thread), 0);
}

static void start(void) { start_with(INTERVAL_NS); }

/* CLOCK_REALTIME is set forward in each sleep by step_ns. When the first sleeps
 * ended, and how many there were. */
static uint64_t step_ns, woke_ns[8];
static atomic_uint_least64_t ahead_ns;
static atomic_size_t sleeps;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
  int status = __real_clock_gettime(clock, now);
  uint64_t ns = (uint64_t)now->tv_sec * NS_PER_S + (uint64_t)now->tv_nsec;
  if (clock == CLOCK_REALTIME)
    *now = timespec_of_ns(ns + ahead_ns);
  return status;
}

bool __real_sampling_thread_sleep(struct sampling_thread *thread,
                                  uint64_t until_ns);
bool __wrap_sampling_thread_sleep(struct sampling_thread *thread,
                                  uint64_t until_ns);
bool __wrap_sampling_thread_sleep(struct sampling_thread *thread,
                                  uint64_t until_ns) {
  bool goes_on = __real_sampling_thread_sleep(thread, until_ns);
  ahead_ns += step_ns;
  if (sleeps < 8)
    woke_ns[sleeps] = clock_now_ns(CLOCK_REALTIME);
  sleeps++;
  return goes_on;
}

static void wait_a_while(void) {
  nanosleep(&(struct timespec){.tv_nsec = 400000000}, NULL);
}

TEST(while_there_is_no_region_it_sleeps_until_there_may_be_one) {
  sleeps = 0;
  start();
  wait_a_while();
  assert_int_equal(region_thread_keep(thread), 0);
  wait_a_while();
  assert_int_equal(sleeps, 0);
  UNIT_REGION(region);
  assert_int_equal(region_thread_keep(thread), 0);
  wait_a_while();
  assert_true(sleeps > 2);
  assert_true(fake.values_len > 0);
  region_thread_stop(thread);
}

TEST(each_value_is_of_a_later_moment_and_has_the_interval_of_the_plugin) {
  fake.interval = NS_TO_CDTIME_T(INTERVAL_NS);
  UNIT_REGION(region);
  start();
  wait_a_while();
  region_thread_stop(thread);
  size_t rounds = 0, read = 0;
  cdtime_t last = 0;
  for (size_t i = 0; i < fake.values_len; i++) {
    const value_list_t *list = &fake.values[i].list;
    if (strcmp(list->type_instance, "regions") != 0)
      continue;
    rounds++;
    read += fake.values[i].values[0].gauge == 1;
    assert_true(list->time > last);
    assert_true(list->interval == fake.interval);
    last = list->time;
  }
  assert_true(rounds > 2);
  assert_true(read > 1);
}

TEST(a_round_that_is_late_has_the_time_when_it_begins) {
  assert_accepted("<Region \"unit\">\n</Region>");
  step_ns = 10 * INTERVAL_NS + INTERVAL_NS / 2;
  sleeps = 0;
  start();
  while (sleeps < 4)
    wait_a_while();
  region_thread_stop(thread);
  step_ns = ahead_ns = 0;
  size_t rounds = 0;
  for (size_t i = 0; i < fake.values_len && rounds < 4; i++) {
    const value_list_t *list = &fake.values[i].list;
    if (strcmp(list->type_instance, "regions") == 0 && rounds++ > 0)
      assert_true(list->time >= NS_TO_CDTIME_T(woke_ns[rounds - 2]));
  }
  assert_int_equal(rounds, 4);
}

TEST(it_stops_while_a_producer_does_not_answer) {
  UNIT_REGION(region);
  start();
  wait_a_while();
  region_thread_stop(thread);
}

TEST(it_stops_as_soon_as_it_has_started) {
  start();
  region_thread_stop(thread);
}

static atomic_bool is_blocked = true;

static void block(const notification_t *note) {
  (void)note;
  while (atomic_load(&is_blocked))
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* A notification plugin or a kernel that never returns. */
TEST(a_thread_that_is_blocked_does_not_delay_the_end) {
  struct percore_region *region = unit_create();
  fake.notified = block;
  start();
  wait_a_while();
  assert_int_equal(region_thread_keep(thread), 0); /* does not hang yet */
  assert_int_equal(percore_destroy(region), 0);
  wait_a_while(); /* its end is a notification */
  assert_false(region_thread_stop(thread));
  atomic_store(&is_blocked, false);
  assert_true(region_thread_stop(thread));
}

const struct unit_fixtures unit_fixtures = {
    .before_all = unit_make_runtime_dir,
    .after_all = unit_remove_runtime_dir,
    .before_each = plugin_unit_set_up,
    .after_each = plugin_unit_tear_down,
};
