/* Tests the thread of WakeLatency. A simulated survey replaces the kernel. */
#include "plugin_unit.h"

#include "base/clock.h"
#include "plugin/wake_sampler.h"
#include "wake/survey.h"

#include <stdatomic.h>

#define INTERVAL_NS UINT64_C(2000000)
#define TOLD_NS UINT64_C(1700000000000000000)

/* ---------------------------------------------------------------------------
 * A simulated survey
 */

/* The thread writes these members before a burst ends. Only then may the test
 * read them. */
static struct {
  int open_status, round_status;
  int closes, dispatches;
  uint64_t cpu_ns, burst_cpu_ns;      /* CPU time; what a burst takes of it */
  uint64_t before_ns[8], after_ns[8]; /* each dispatch of wake_cpu */
  atomic_int opens, rounds;
  char probed[64];
} play;

int wake_survey_open(struct wake_survey **survey,
                     const struct wake_survey_options *options,
                     char why[WHY_SIZE]) {
  static char played;
  (void)options;
  *survey =
      play.open_status == 0 ? (struct wake_survey *)(void *)&played : NULL;
  snprintf(why, WHY_SIZE, "this; do that");
  play.opens++;
  return play.open_status;
}

void wake_survey_close(struct wake_survey *survey) {
  play.closes += survey != NULL;
}

int wake_survey_round(struct wake_survey *survey,
                      const struct wake_survey_core *cores, size_t len,
                      uint64_t duration_ns, char why[WHY_SIZE]) {
  (void)survey;
  assert_int_equal(duration_ns, INTERVAL_NS / 2);
  play.probed[0] = '\0';
  for (size_t i = 0; i < len; i++) {
    size_t used = strlen(play.probed);
    snprintf(play.probed + used, sizeof(play.probed) - used, "%s%d:%g",
             i > 0 ? " " : "", cores[i].core, cores[i].load);
  }
  snprintf(why, WHY_SIZE, "of this");
  play.cpu_ns += play.burst_cpu_ns;
  play.rounds++;
  return play.round_status;
}

uint64_t wake_survey_figures(struct wake_survey *survey, int core,
                             wake_survey_put *put, void *context) {
  (void)survey;
  put(context, "first", 1e-6);
  put(context, "cstate_C6_p50", 2e-6);
  return 10 * (uint64_t)core;
}

void wake_survey_advertised(const struct wake_survey *survey,
                            wake_survey_put *put, void *context) {
  (void)survey;
  put(context, "cstate_C6_advertised", 133e-6);
  play.before_ns[play.dispatches] = clock_now_ns(CLOCK_MONOTONIC);
}

uint64_t wake_survey_probes(const struct wake_survey *survey) {
  (void)survey;
  play.after_ns[play.dispatches++] = clock_now_ns(CLOCK_MONOTONIC);
  return 100 * (uint64_t)play.rounds;
}

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
  if (clock != CLOCK_THREAD_CPUTIME_ID)
    return __real_clock_gettime(clock, now);
  *now = timespec_of_ns(play.cpu_ns);
  return 0;
}

/* ---------------------------------------------------------------------------
 * Tests
 */

static struct wake_sampler *sampler;
static struct core_figures cores[3];
static bool isolates;

static void set_up(void) {
  memset(&play, 0, sizeof(play));
  for (int i = 0; i < 3; i++)
    cores[i] =
        (struct core_figures){.core = 2 * i, .online = true, .load = 0.25 * i};
  isolates = false;
  sampler = NULL;
  return plugin_unit_set_up();
}

static void tear_down(void) {
  wake_sampler_stop(sampler);
  assert_int_equal(play.opens, play.closes + (play.open_status != 0));
  return plugin_unit_tear_down();
}

static void start(const char *lines) {
  assert_accepted(lines);
  assert_int_equal(wake_sampler_start(&sampler, &config, INTERVAL_NS), 0);
}

static void tell(void) {
  wake_sampler_tell(sampler, &(struct snapshot){.time_ns = TOLD_NS,
                                                .cores = cores,
                                                .cores_len = 3,
                                                .isolates = isolates});
}

/* Tells the thread to begin a burst, and waits for the burst. Its values have
 * come when the thread has ended. */
static void burst(void) {
  int rounds = play.rounds;
  tell();
  while (play.rounds == rounds)
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

static void end(void) {
  wake_sampler_stop(sampler);
  sampler = NULL;
}

TEST(without_the_option_there_is_no_thread) {
  start("WakeLatency true\nWakeLatency false");
  assert_null(sampler);
  forget_config();
  start("");
  assert_null(sampler);
  tell();
  assert_int_equal(play.opens, 0);
}

TEST(a_burst_gets_the_loads_of_online_cores) {
  cores[1].online = false;
  start("WakeLatency true");
  burst();
  end();
  assert_string_equal(play.probed, "0:0 4:0.5");
}

static void assert_gauge(const char *identifier, double gauge) {
  const struct fake_value *value = fake_find(identifier);
  assert_non_null(value);
  assert_near(value->values[0].gauge, gauge, 1e-12);
}

TEST(a_burst_dispatches_seconds_with_the_time_and_interval_of_the_loads) {
  cores[1].online = false;
  fake.interval = NS_TO_CDTIME_T(INTERVAL_NS);
  start("WakeLatency true");
  burst();
  end();
  assert_gauge("percore-4/gauge-timer_datapoints", 40);
  assert_gauge("percore-4/latency-first", 1e-6);
  assert_gauge("percore-0/latency-cstate_C6_p50", 2e-6);
  assert_gauge("percore_host-self/latency-cstate_C6_advertised", 133e-6);
  assert_null(fake_find("percore-2/gauge-timer_datapoints"));
  assert_int_equal(
      fake_find("percore_host-self/derive-wake_probes")->values[0].derive, 100);
  const struct fake_value *cpu =
      fake_find("percore_host-self/percent-wake_cpu");
  assert_true(cpu->values[0].gauge >= 0 && cpu->values[0].gauge <= 100);
  assert_int_equal(fake.values_len, 2 * 3 + 3);
  for (size_t i = 0; i < fake.values_len; i++) {
    assert_true(fake.values[i].list.time == NS_TO_CDTIME_T(TOLD_NS));
    assert_true(fake.values[i].list.interval == fake.interval);
  }
}

/* A burst of 0.1 us follows one of 10 us. */
TEST(wake_cpu_is_the_cpu_time_of_a_burst_in_the_time_since_the_last_one) {
  start("WakeLatency true");
  play.burst_cpu_ns = 10000;
  burst();
  play.burst_cpu_ns = 100;
  burst();
  end();
  uint64_t most_ns = play.after_ns[1] - play.before_ns[0];
  uint64_t least_ns = play.before_ns[1] - play.after_ns[0];
  double cpu = fake_find("percore_host-self/percent-wake_cpu")->values[0].gauge;
  assert_true(cpu >= 100 * 100 / (double)most_ns);
  assert_true(cpu <= 100 * 100 / (double)least_ns);
}

TEST(without_new_loads_there_is_no_burst) {
  start("WakeLatency true");
  burst();
  burst();
  nanosleep(&(struct timespec){.tv_nsec = 5 * INTERVAL_NS}, NULL);
  end();
  assert_int_equal(play.rounds, 2);
}

TEST(cores_that_are_named_in_vain_are_reported_once) {
  start("WakeLatency \"0-1,4,9\"");
  tell();
  tell();
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
  assert_non_null(fake_logged(LOG_WARNING, "not measured on cores 1,9: Wake"));
}

TEST(with_isolated_cores_nothing_runs_unless_cores_are_named) {
  isolates = true; /* a core is isolated, but perhaps not in the snapshot */
  start("WakeLatency true");
  tell();
  tell();
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
  assert_non_null(fake_logged(LOG_WARNING, "interrupts isolated cores"));
  nanosleep(&(struct timespec){.tv_nsec = 5 * INTERVAL_NS}, NULL);
  end();
  assert_int_equal(play.opens, 0);
  assert_int_equal(play.rounds, 0);
  start("WakeLatency \"0-1,4,9\"");
  burst();
  end();
  assert_string_equal(play.probed, "0:0 4:0.5");
}

TEST(a_failure_is_said_once_and_ends_the_thread) {
  play.open_status = -EPERM;
  start("WakeLatency true");
  for (tell(); play.opens == 0;)
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  end();
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
  assert_non_null(
      fake_logged(LOG_WARNING, "wake latency is not measured: this; do that."));
  fake_reset();
  play.open_status = play.opens = 0;
  play.round_status = -ENOMEM;
  start("WakeLatency true");
  for (tell(); play.rounds == 0;)
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  end();
  assert_int_equal(fake.values_len, 0);
  assert_int_equal(play.rounds, 1);
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
  assert_non_null(fake_logged(LOG_WARNING, "no longer measured: of this;"));
}

TEST(the_end_of_the_thread_moves_no_other_thread) {
  cpu_set_t before, one, after;
  assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  CPU_SET((size_t)sched_getcpu(), &one);
  assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
  play.open_status = -EPERM;
  start("WakeLatency true");
  for (tell(); play.opens == 0;)
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  nanosleep(&(struct timespec){.tv_nsec = 5 * INTERVAL_NS}, NULL);
  end();
  assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
  assert_true(CPU_EQUAL(&one, &after));
  assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST(a_simulated_machine_is_not_measured) {
  start("SysRoot \"/host\"\nWakeLatency true");
  assert_null(sampler);
  assert_non_null(fake_logged(LOG_WARNING, "not of this kernel"));
  start("SysRoot \"/proc/self/root\"");
  assert_non_null(sampler);
}

const struct unit_fixtures unit_fixtures = {.before_each = set_up,
                                            .after_each = tear_down};
