/* Tests which cores a survey probes, and the percentiles that it computes.
 * Simulated bursts replace the kernel and the clock. */
#include "wake/core.h"
#include "wake/distribution.h"
#include "wake/survey.h"

#include "unit.h"

#include <errno.h>
#include <string.h>

#define CORES 4
#define PROBES 100
#define ROUND_S 10
#define WINDOW_S 10000
#define NS UINT64_C(1000000000)

/* ---------------------------------------------------------------------------
 * A simulated burst
 */

static struct {
  int begins, ends;
  int probed[16], probed_len;
  int budget;       /* largest number of cores that a burst can probe */
  int absent;       /* number of a core on which no thread may run; -1: none */
  bool interrupted; /* collectd is shutting down */
  bool interrupts_on;
  int64_t usage;   /* according to cpuidle */
  int64_t unseen;  /* number of idle states that the programs miss */
  unsigned step;   /* position in the series of simulated latencies */
  unsigned factor; /* of all simulated latencies */
  uint64_t now_s;
  struct wake_event events[PROBES];
  char said[512];
  int said_len;
} play;

void wake_core_states(int core, struct wake_points *points) {
  (void)core;
  strcpy(points->states[0], "C1");
  points->states_len = 1;
}

int wake_burst_open(struct wake_burst **burst,
                    const struct wake_burst_options *options,
                    char why[WAKE_WHY_SIZE]) {
  (void)why;
  assert_int_equal(options->probes, PROBES);
  *burst = NULL;
  return 0;
}

void wake_burst_close(struct wake_burst *burst) { (void)burst; }

int wake_burst_begin(struct wake_burst *burst, uint64_t duration_ns,
                     char why[WAKE_WHY_SIZE]) {
  (void)burst, (void)duration_ns, (void)why;
  play.begins++;
  play.probed_len = 0;
  return 0;
}

void wake_burst_end(struct wake_burst *burst) {
  (void)burst;
  play.ends++;
}

/* Returns the next simulated event. The latencies of 10 000 events in
 * succession are a permutation of 10.000 us, 10.001 us ... */
static struct wake_event next_event(void) {
  uint64_t latency = play.factor * (10000 + play.step++ * 7919 % 10000);
  struct wake_event event = {.tbi = 1000, .ltime = 3000000};
  event.tai = event.ltime + latency;
  event.tintr = event.tai + (play.interrupts_on ? UINT64_C(-5) : 5);
  event.interrupts_off = !play.interrupts_on;
  return event;
}

int wake_burst_probe(struct wake_burst *burst, int core,
                     struct wake_burst_result *result,
                     char why[WAKE_WHY_SIZE]) {
  (void)burst;
  if (play.probed_len == play.budget)
    return -ETIME;
  if (play.interrupted)
    return -EINTR;
  play.probed[play.probed_len++] = core;
  if (core == play.absent) {
    snprintf(why, WAKE_WHY_SIZE, "cannot run on core %d", core);
    return -EINVAL;
  }
  for (int i = 0; i < PROBES; i++)
    play.events[i] = next_event();
  *result = (struct wake_burst_result){.armed = PROBES,
                                       .events = play.events,
                                       .events_len = PROBES,
                                       .idles = (uint64_t)(1000 - play.unseen),
                                       .usage = play.usage};
  return 0;
}

/* ---------------------------------------------------------------------------
 * Tests
 */

static struct wake_survey *survey;
static struct wake_survey_core cores[CORES];

static void say(void *context, const char *line) {
  (void)context;
  snprintf(play.said, sizeof(play.said), "%s", line);
  play.said_len++;
}

static int begin(void **state) {
  (void)state;
  char why[WAKE_WHY_SIZE];
  memset(&play, 0, sizeof(play));
  play.budget = CORES + 1;
  play.absent = -1;
  play.usage = 1000;
  play.factor = 1;
  for (int i = 0; i < CORES; i++)
    cores[i] = (struct wake_survey_core){.core = 2 * i, .load = 0.1};
  const struct wake_survey_options options = {.burst.probes = PROBES,
                                              .window_ns = WINDOW_S * NS,
                                              .load_max = 0.5,
                                              .say = say};
  return wake_survey_open(&survey, &options, why);
}

static int end(void **state) {
  (void)state;
  assert_int_equal(play.begins, play.ends);
  wake_survey_close(survey);
  return 0;
}

static void run_rounds(int rounds, size_t len) {
  char why[WAKE_WHY_SIZE];
  for (int i = 0; i < rounds; i++)
    assert_int_equal(wake_survey_round(survey, cores, len,
                                       (play.now_s += ROUND_S) * NS, 0, why),
                     0);
}

static double percentile(enum wake_metric metric, double percent) {
  return wake_survey_percentile(survey, 0, metric, percent);
}

static void assert_probed(const char *wanted) {
  char text[64] = "";
  for (int i = 0; i < play.probed_len; i++)
    snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%d",
             i > 0 ? " " : "", play.probed[i]);
  assert_string_equal(text, wanted);
}

static void ten_datapoints_lie_above_every_percentile(void **state) {
  (void)state;
  run_rounds(9, 1);
  assert_near(percentile(WAKE_LATENCY, 50), 15e-6, 1e-6);
  assert_nan(percentile(WAKE_LATENCY, 99));
  run_rounds(90, 1);
  assert_nan(percentile(WAKE_LATENCY, 99.9));
  run_rounds(1, 1);
  assert_near(percentile(WAKE_LATENCY, 99.9), 19.99e-6, 0.16e-6);
  assert_nan(wake_survey_percentile(survey, 2, WAKE_LATENCY, 50));
}

static void percentiles_cover_the_window(void **state) {
  (void)state;
  run_rounds(3 * WINDOW_S / ROUND_S, 1);
  assert_int_equal(wake_survey_datapoints(survey, 0),
                   (WINDOW_S / ROUND_S + 1) * PROBES);
  assert_int_equal(wake_survey_datapoints(survey, 2), 0);
  play.factor = 2;
  run_rounds(WINDOW_S / ROUND_S / 4, 1);
  assert_near(percentile(WAKE_LATENCY, 50), 16.7e-6, 0.5e-6);
  run_rounds(WINDOW_S / ROUND_S, 1);
  assert_near(percentile(WAKE_LATENCY, 50), 30e-6, 1e-6);
  assert_near(percentile(WAKE_LATENCY, 1), 20e-6, 1e-6);
}

static void
a_core_that_is_no_longer_probed_loses_its_percentiles(void **state) {
  (void)state;
  run_rounds(10, 1);
  assert_false(isnan(percentile(WAKE_LATENCY, 50)));
  cores[0].load = 1;
  play.now_s += WINDOW_S;
  run_rounds(1, 1);
  assert_nan(percentile(WAKE_LATENCY, 50));
  assert_int_equal(wake_survey_datapoints(survey, 0), 0);
}

static void percentiles_are_right_to_less_than_1_percent(void **state) {
  (void)state;
  run_rounds(100, 1);
  for (int percent = 1; percent < 100; percent++) {
    double wanted = (10 + percent / 10.) * 1e-6;
    assert_near(percentile(WAKE_LATENCY, percent), wanted, wanted * 0.0079);
  }
  assert_near(percentile(WAKE_SILENT_TIME, 50), 2999e-6, 2999e-6 * 0.0079);
}

static void distributions_take_every_latency(void **state) {
  (void)state;
  static const uint64_t latencies[] = {0,
                                       1,
                                       63,
                                       64,
                                       127,
                                       128,
                                       1000,
                                       999999,
                                       1 << 29,
                                       1 << 30,
                                       UINT64_C(1) << 40,
                                       UINT64_MAX};
  for (size_t i = 0; i < sizeof(latencies) / sizeof(latencies[0]); i++) {
    struct wake_distribution distribution = {.total = 0};
    distribution.total = 20;
    distribution.count[wake_distribution_bucket(latencies[i])] = 20;
    double wanted = fmin((double)latencies[i], 1 << 30);
    assert_near(wake_distribution_percentile(&distribution, 50), wanted,
                wanted * 0.0079);
  }
}

static void states_with_interrupts_on_have_no_wake_latency(void **state) {
  (void)state;
  play.interrupts_on = true;
  run_rounds(10, 1);
  assert_nan(percentile(WAKE_LATENCY, 50));
  assert_near(percentile(WAKE_INTR_LATENCY, 50), 15e-6, 1e-6);
}

static void busy_cores_and_cores_of_unknown_load_are_not_probed(void **state) {
  (void)state;
  cores[0].load = 0.51;
  cores[1].load = 0.5;
  cores[2].load = NAN;
  run_rounds(1, CORES);
  assert_probed("2 6");
  assert_int_equal(wake_survey_probes(survey), 2 * PROBES);
}

static void without_a_core_to_probe_nothing_is_attached(void **state) {
  (void)state;
  run_rounds(1, 0);
  cores[0].load = 0.9;
  run_rounds(1, 1);
  assert_int_equal(play.begins, 0);
}

static void a_round_begins_where_the_time_of_the_last_was_over(void **state) {
  (void)state;
  play.budget = 3;
  run_rounds(1, CORES);
  assert_probed("0 2 4");
  run_rounds(1, CORES);
  assert_probed("6 0 2");
  /* The core with which the next round would begin may no longer exist. */
  cores[2].core = 5;
  run_rounds(1, CORES);
  assert_probed("5 6 0");
}

static void
why_a_core_is_not_measured_is_said_once_and_others_are_measured(void **state) {
  (void)state;
  play.absent = 2;
  run_rounds(10, CORES);
  assert_probed("0 2 4 6");
  assert_int_equal(play.said_len, 1);
  assert_string_equal(play.said, "wake latency of core 2 is not measured: "
                                 "cannot run on core 2");
  assert_false(isnan(percentile(WAKE_LATENCY, 50)));
}

static void bursts_count_only_if_cpuidle_saw_the_same(void **state) {
  (void)state;
  play.unseen = 13;
  run_rounds(20, 1);
  assert_nan(percentile(WAKE_INTR_LATENCY, 50));
  assert_int_equal(play.said_len, 1);
  assert_non_null(strstr(play.said, "987 idle states, cpuidle counted 1000"));
  play.unseen = 12;
  run_rounds(10, 1);
  assert_false(isnan(percentile(WAKE_INTR_LATENCY, 50)));
}

static void
a_core_without_cpuidle_is_unchecked_and_has_no_figures(void **state) {
  (void)state;
  play.usage = -1;
  run_rounds(10, 1);
  assert_nan(percentile(WAKE_INTR_LATENCY, 50));
  assert_int_equal(play.said_len, 1);
  assert_non_null(strstr(play.said, "cpuidle has no driver"));
}

static void the_end_of_collectd_ends_a_round(void **state) {
  (void)state;
  play.interrupted = true;
  run_rounds(1, CORES);
  assert_probed("");
  assert_int_equal(play.ends, 1);
}

int main(void) {
#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)
  const struct CMUnitTest tests[] = {
      TEST(ten_datapoints_lie_above_every_percentile),
      TEST(percentiles_cover_the_window),
      TEST(a_core_that_is_no_longer_probed_loses_its_percentiles),
      TEST(percentiles_are_right_to_less_than_1_percent),
      TEST(distributions_take_every_latency),
      TEST(states_with_interrupts_on_have_no_wake_latency),
      TEST(busy_cores_and_cores_of_unknown_load_are_not_probed),
      TEST(without_a_core_to_probe_nothing_is_attached),
      TEST(a_round_begins_where_the_time_of_the_last_was_over),
      TEST(why_a_core_is_not_measured_is_said_once_and_others_are_measured),
      TEST(bursts_count_only_if_cpuidle_saw_the_same),
      TEST(a_core_without_cpuidle_is_unchecked_and_has_no_figures),
      TEST(the_end_of_collectd_ends_a_round),
  };
  return cmocka_run_group_tests_name("wake_survey", tests, NULL, NULL);
}
