/* Tests the public calls for schedulers, first on this machine and then on a
 * fake machine. On this machine, other work determines the loads, so the tests
 * do not check them. */
#include "calls.h"
#include "unit.h"

#include "board/load.h"
#include "cycles/engine_private.h"
#include "fake_machine.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void work_for(uint64_t ns) {
  for (uint64_t end_ns = now_ns() + ns; now_ns() < end_ns;)
    ;
}

static bool is_load(double load) {
  return load == -1 || (load >= 0 && load <= 1);
}

/* All tests share one handle, because opening one runs a proof of each
 * source. */
static struct percore_load *shared;
static cpu_set_t affinity_before;

static void open_shared(void) {
  sched_getaffinity(0, sizeof affinity_before, &affinity_before);
  if (percore_load_open(&shared, NULL) == 0)
    return;
  print_message("percore_load_open: %s; all tests of it are skipped\n",
                strerror(errno));
}

static void close_shared(void) {
  if (shared != NULL)
    percore_load_close(shared);
}

static void need_a_source(void) {
  if (shared == NULL)
    skip(); /* open_shared has printed the reason */
}

TEST(every_online_core_gets_a_load_with_a_source) {
  need_a_source();
  work_for(250000000);
  assert_true(percore_load_update(shared) >= 0);
  int with_value = 0;
  for (int core = 0; core < (int)sysconf(_SC_NPROCESSORS_CONF); core++) {
    double load = percore_load_get(shared, core, NULL);
    const char *source = load_details(shared, core).source;
    assert_true(is_load(load));
    if (load >= 0) {
      assert_string_not_equal(source, "none");
      with_value++;
    }
  }
  assert_true(with_value > 0);
}

TEST(cores_that_do_not_exist_have_no_load) {
  need_a_source();
  static const int cores[] = {-1, -1000, 8192, INT32_MAX, INT32_MIN};
  for (size_t i = 0; i < sizeof cores / sizeof cores[0]; i++) {
    assert_near(percore_load_get(shared, cores[i], NULL), -1, 0);
    assert_near(load_details(shared, cores[i]).sibling, -1, 0);
    assert_string_equal(load_details(shared, cores[i]).source, "none");
  }
  int count = (int)sysconf(_SC_NPROCESSORS_CONF);
  assert_near(percore_load_get(shared, count, NULL), -1, 0);
}

TEST(the_load_of_a_sibling_is_that_of_another_core_or_unknown) {
  need_a_source();
  work_for(50000000);
  assert_true(percore_load_update(shared) >= 0);
  int count = (int)sysconf(_SC_NPROCESSORS_CONF);
  for (int core = 0; core < count; core++) {
    double sibling = load_details(shared, core).sibling;
    bool found = sibling == -1;
    for (int other = 0; other < count; other++)
      found = found || (other != core &&
                        percore_load_get(shared, other, NULL) == sibling);
    assert_true(found);
  }
}

TEST(before_its_first_window_ends_no_core_has_a_load) {
  need_a_source();
  struct percore_load *load = NULL;
  assert_int_equal(percore_load_open(&load, NULL), 0);
  for (int core = 0; core < (int)sysconf(_SC_NPROCESSORS_CONF); core++)
    assert_near(percore_load_get(load, core, NULL), -1, 0);
  percore_load_close(load);
}

TEST(the_affinity_of_the_caller_does_not_change) {
  need_a_source();
  cpu_set_t now;
  percore_load_update(shared);
  assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
  assert_true(CPU_EQUAL(&now, &affinity_before));
}

static int open_descriptors(void) {
  int count = 0;
  for (int fd = 0; fd < 4096; fd++)
    count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

TEST(closing_frees_all_descriptors) {
  need_a_source();
  int before = open_descriptors();
  struct percore_load *load = NULL;
  assert_int_equal(percore_load_open(&load, NULL), 0);
  percore_load_update(load);
  percore_load_close(load);
  assert_int_equal(open_descriptors(), before);
}

static void *update_often(void *argument) {
  for (int i = 0; i < 50; i++)
    percore_load_update(argument);
  return NULL;
}

static void *get_often(void *argument) {
  long bad = 0;
  for (int i = 0; i < 20000; i++) {
    int core = i % (int)sysconf(_SC_NPROCESSORS_CONF);
    bad += !is_load(percore_load_get(argument, core, NULL));
    bad += !is_load(load_details(argument, core).sibling);
    bad += load_details(argument, core).source[0] == 0;
  }
  return (void *)bad;
}

TEST(many_threads_may_update_and_get_at_once) {
  need_a_source();
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&threads[i], NULL,
                                    i < 2 ? update_often : get_often, shared),
                     0);
  for (int i = 0; i < 4; i++) {
    void *bad;
    assert_int_equal(pthread_join(threads[i], &bad), 0);
    assert_null(bad);
  }
}

TEST(every_core_with_a_load_has_a_proof) {
  need_a_source();
  for (int core = 0; core < (int)sysconf(_SC_NPROCESSORS_CONF); core++)
    assert_string_not_equal(load_details(shared, core).proof, "refuted");
  assert_string_equal(load_details(shared, -1).proof, "pending");
}

TEST(invalid_options_are_refused) {
  static const struct percore_load_options bad[] = {
      {.size = 0},
      {.size = sizeof bad[0], .source = "cpuacct"},
      {.size = sizeof bad[0], .cores = ""},
      {.size = sizeof bad[0], .cores = "all"},
      {.size = sizeof bad[0], .isolated_cores = "never"},
      {.size = sizeof bad[0], .also_isolated = "x"},
      {.size = sizeof bad[0], .board_interval_max = -1},
      {.size = sizeof bad[0], .board_interval_max = 3601},
      {.size = sizeof bad[0], .board_interval_max = INFINITY},
      {.size = sizeof bad[0], .from_board = 1, .source = "idle"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct percore_load *load = NULL;
    errno = 0;
    assert_int_equal(percore_load_open(&load, &bad[i]), -1);
    assert_int_equal(errno, EINVAL);
    assert_null(load);
  }
}

TEST(options_choose_source_and_cores) {
  need_a_source();
  const struct percore_load_options options = {
      .size = sizeof options, .source = "idle", .cores = "0"};
  struct percore_load *load = NULL;
  if (percore_load_open(&load, &options) != 0)
    skip();
  work_for(50000000);
  assert_true(percore_load_update(load) >= 0);
  assert_string_equal(load_details(load, 0).source, "idle");
  for (int core = 1; core < (int)sysconf(_SC_NPROCESSORS_CONF); core++)
    assert_string_equal(load_details(load, core).source, "none");
  percore_load_close(load);
}

/* ---------------------------------------------------------------------------
 * A fake machine
 */

static struct percore_load *open_fake(struct fake_machine *fake,
                                      bool frequency) {
  struct percore_load_options options = {.frequency = frequency, .bounds = 1};
  struct percore_load *load = NULL;
  assert_int_equal(load_open(&load, &fake->machine, &options), 0);
  return load;
}

TEST(the_frequency_is_that_of_unhalted_time) {
  for (int frequency = 0; frequency < 2; frequency++) {
    struct fake_machine *fake = fake_machine_new(1);
    fake_machine_msr(fake, 2e9, true);
    fake_machine_load(fake, 0.25);
    struct percore_load *load = open_fake(fake, frequency);
    fake_machine_run(fake, FAKE_SECOND);
    assert_true(percore_load_update(load) >= 0);
    assert_string_equal(load_details(load, 0).source, "mperf");
    assert_near(percore_load_get(load, 0, NULL), 0.25, 1e-6);
    assert_near(load_details(load, 0).frequency, frequency ? 2.5e9 : -1, 1e4);
    percore_load_close(load);
    fake_machine_free(fake);
  }
}

TEST(without_a_source_opening_says_so) {
  for (int i = 0; i < 2; i++) {
    struct fake_machine *fake = fake_machine_new(1);
    const struct percore_load_options options = {.size = 0};
    struct percore_load *load = NULL;
    if (i == 0)
      fake_machine_file(fake, "/proc/stat", "");
    else
      fake_machine_fail(fake, "/proc/stat", EACCES);
    assert_int_equal(load_open(&load, &fake->machine, &options), -ENOTSUP);
    fake_machine_free(fake);
  }
}

TEST(the_clock_is_found_at_once_where_proc_stat_cannot_be_used) {
  struct fake_machine *fake = fake_machine_new(2);
  fake->lxcfs = fake->lxcfs_stat_only = true;
  fake_machine_idle_clock(fake);
  fake_machine_load(fake, 0.4);
  struct percore_load *load = open_fake(fake, false);
  fake_machine_run(fake, FAKE_SECOND);
  assert_true(percore_load_update(load) >= 0);
  assert_string_equal(load_details(load, 0).source, "bpf");
  assert_near(percore_load_get(load, 0, NULL), 0.4, 1e-6);
  assert_int_equal(fake->clock.loads, 1);
  percore_load_close(load);
  fake_machine_free(fake);
}

/* Lets time pass and updates until a proof has failed and so many counters were
 * opened. How the proof fails depends on when the time passes: a source whose
 * counters stand still while a thread is spinning is refuted. */
static void update_until(struct percore_load *load, struct fake_machine *fake,
                         int opens) {
  while (load->engine->sources[0].proof == PROOF_PENDING ||
         fake->perf_opens < opens) {
    usleep(1000);
    fake_machine_run(fake, FAKE_SECOND);
    percore_load_update(load);
  }
}

TEST(opening_waits_for_no_proof) {
  struct fake_machine *fake = fake_machine_new(1);
  fake_machine_load(fake, 0.25);
  struct percore_load *load = open_fake(fake, false);
  assert_string_equal(load_details(load, 0).proof, "pending");
  fake_machine_run(fake, 200 * FAKE_MS);
  assert_int_equal(percore_load_update(load), 1);
  assert_near(percore_load_get(load, 0, NULL), 0.25, 0.101);
  percore_load_close(load);
  fake_machine_free(fake);
}

/* The time of the fake machine passes in leaps, so no proof succeeds. */
TEST(a_proof_that_failed_is_repeated_by_updates) {
  struct fake_machine *fake = fake_machine_new(1);
  fake_machine_msr(fake, 2e9, true);
  struct percore_load *load = open_fake(fake, false);
  update_until(load, fake, 0);
  assert_int_not_equal(load->engine->sources[0].proof, PROOF_PROVEN);
  update_until(load, fake, fake->perf_opens + 2);
  percore_load_close(load);
  assert_int_equal(fake_machine_descriptors(fake, -1), 0);
  fake_machine_free(fake);
}

const struct unit_fixtures unit_fixtures = {.before_all = open_shared,
                                            .after_all = close_shared};
