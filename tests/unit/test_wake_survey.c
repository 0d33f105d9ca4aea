/* Tests which cores a survey probes, and the figures that it computes. A
 * simulated collector and clock replace the kernel. */
#include "wake/collect.h"
#include "wake/core.h"
#include "wake/survey.h"

#include "unit.h"

#define CORES 4
#define PROBES WAKE_SURVEY_PROBES
#define ROUND_S 5
#define WINDOW_S WAKE_SURVEY_WINDOW_S
#define DISTANCE_NS UINT64_C(4000000)
#define NS UINT64_C(1000000000)

static struct wake_survey *survey;
static struct wake_survey_core cores[CORES];
static struct wake_survey_options options;

/* ---------------------------------------------------------------------------
 * A simulated collector
 */

static struct {
  int attached;
  int attaches;
  int probed[16], probed_len;
  int absent;       /* number of a core on which no thread may run; -1: none */
  bool interrupted; /* collectd is shutting down */
  bool is_gone;
  const char *why; /* what opening says */
  bool interrupts_on;
  int64_t usage;    /* according to cpuidle */
  int first_driver; /* no core before this one has an idle driver */
  int64_t unseen;   /* number of idle states that the programs miss */
  unsigned step;    /* position in the series of simulated latencies */
  unsigned factor;  /* of all simulated latencies */
  int deep; /* how many percent of the events are in C6, which takes ten times
               as long; the others are in C1 */
  uint64_t now_ns;
  uint64_t slow_ns; /* how much later than expected the probes are done */
  uint64_t done_ns; /* when the probes of this core are done */
  char said[512];
  int said_len;
} play;

void wake_core_states(const char *root, int core, struct wake_states *states) {
  (void)root;
  *states = (struct wake_states){
      .len = 3,
      .list = {{.name = "POLL"},
               {.name = "C1", .latency_us = play.usage < 0 ? NAN : 2},
               {.name = "C6", .latency_us = 133}}};
  if (play.usage < 0 || core < play.first_driver)
    states->list[0].latency_us = NAN;
}

int wake_collect_open(struct wake_collect **collect,
                      const struct wake_collect_options *options,
                      char why[WHY_SIZE]) {
  assert_int_equal(options->armed_max, PROBES);
  assert_int_equal(options->method, WAKE_ANY);
  assert_int_equal(options->pause_ns, 0);
  assert_int_equal(options->distance_ns, DISTANCE_NS);
  snprintf(why, WHY_SIZE, "%s", play.why);
  *collect = NULL;
  return 0;
}

void wake_collect_close(struct wake_collect *collect) { (void)collect; }

int wake_collect_attach(struct wake_collect *collect, char why[WHY_SIZE]) {
  (void)collect, (void)why;
  play.attached++;
  play.attaches++;
  play.probed_len = 0;
  return 0;
}

void wake_collect_detach(struct wake_collect *collect) {
  (void)collect;
  play.attached--;
}

int wake_collect_begin(struct wake_collect *collect, int core,
                       char why[WHY_SIZE]) {
  (void)collect;
  play.probed[play.probed_len++] = core;
  play.done_ns = play.now_ns + PROBES * DISTANCE_NS / 2 + play.slow_ns;
  if (core != play.absent)
    return 0;
  snprintf(why, WHY_SIZE, "cannot run on core %d", core);
  return -EINVAL;
}

bool wake_collect_is_done(const struct wake_collect *collect) {
  (void)collect;
  return play.now_ns >= play.done_ns;
}

const struct wake_collect_status *
wake_collect_status(struct wake_collect *collect) {
  static struct wake_collect_status status;
  (void)collect;
  status =
      (struct wake_collect_status){.core = play.probed[play.probed_len - 1],
                                   .armed = PROBES,
                                   .is_gone = play.is_gone,
                                   .idles = (uint64_t)(1000 - play.unseen),
                                   .usage = play.usage};
  wake_core_states("", status.core, &status.states);
  return &status;
}

/* Returns the next simulated event. The latencies of 10 000 events in
 * succession are a permutation of 10.000 us, 10.001 us ... */
static struct wake_event next_event(void) {
  bool deep = play.step * 37 % 100 < (unsigned)play.deep;
  uint64_t latency = play.factor * (10000 + play.step++ * 7919 % 10000);
  struct wake_event event = {.ltime = play.now_ns, .state = deep ? 2 : 1};
  latency *= deep ? 10 : 1;
  event.tbi = event.ltime - 2999000;
  event.tai = event.ltime + latency;
  event.tintr = event.tai + (play.interrupts_on ? UINT64_C(-5) : 5);
  event.interrupts_off = !play.interrupts_on;
  return event;
}

int wake_collect_poll(struct wake_collect *collect,
                      struct wake_points *points) {
  (void)collect;
  struct wake_states states;
  wake_core_states("", 0, &states);
  for (int i = 0; i < PROBES; i++) {
    struct wake_event event = next_event();
    assert_int_equal(wake_points_add(points, &states, &event), 1);
  }
  return 0;
}

void wake_collect_end(struct wake_collect *collect) { (void)collect; }

int wake_collect_check(const struct wake_collect_status *status,
                       char why[WHY_SIZE]) {
  snprintf(why, WHY_SIZE, "the reason");
  return status->is_gone || status->usage < 0    ? WAKE_UNCHECKED
         : status->idles == (uint64_t)play.usage ? WAKE_AGREES
                                                 : WAKE_DIFFERS;
}

/* ---------------------------------------------------------------------------
 * Tests
 */

static uint64_t now_ns(void *context) {
  (void)context;
  return play.now_ns;
}

static bool wait_for(void *context, uint64_t ns) {
  (void)context;
  play.now_ns += ns;
  return !play.interrupted;
}

static void say(void *context, const char *line) {
  (void)context;
  snprintf(play.said, sizeof(play.said), "%s", line);
  play.said_len++;
}

static void begin(void) {
  char why[WHY_SIZE];
  memset(&play, 0, sizeof(play));
  play.absent = -1;
  play.usage = 1000;
  play.factor = 1;
  play.why = "";
  for (int i = 0; i < CORES; i++)
    cores[i] = (struct wake_survey_core){.core = 2 * i, .load = 0.1};
  options = (struct wake_survey_options){
      .now_ns = now_ns, .wait = wait_for, .say = say};
  assert_int_equal(wake_survey_open(&survey, &options, why), 0);
}

static void end(void) {
  assert_int_equal(play.attached, 0);
  wake_survey_close(survey);
}

static void run_rounds(int rounds, size_t len) {
  char why[WHY_SIZE];
  for (int i = 0; i < rounds; i++) {
    play.now_ns += ROUND_S * NS - play.now_ns % (ROUND_S * NS);
    assert_int_equal(wake_survey_round(survey, cores, len, NS, why), 0);
  }
}

struct wanted {
  const char *name;
  double value_s; /* NAN: not put */
};

static void note(void *context, const char *name, double value_s) {
  struct wanted *wanted = context;
  if (strcmp(name, wanted->name) == 0)
    wanted->value_s = value_s;
}

/* Returns a value of core 0. */
static double value(const char *name) {
  struct wanted wanted = {name, NAN};
  wake_survey_figures(survey, 0, note, &wanted);
  return wanted.value_s;
}

static uint64_t datapoints(int core) {
  struct wanted wanted = {"", NAN};
  return wake_survey_figures(survey, core, note, &wanted);
}

static void assert_probed(const char *wanted) {
  char text[64] = "";
  for (int i = 0; i < play.probed_len; i++)
    snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%d",
             i > 0 ? " " : "", play.probed[i]);
  assert_string_equal(text, wanted);
}

TEST(ten_datapoints_lie_above_every_percentile) {
  run_rounds(9, 2);
  assert_near(value("timer_wake_p50"), 15e-6, 1e-6);
  assert_nan(value("timer_wake_p99"));
  run_rounds(90, 1);
  assert_nan(value("timer_wake_p99_9"));
  run_rounds(1, 1);
  assert_near(value("timer_wake_p99_9"), 19.99e-6, 0.16e-6);
  assert_near(value("timer_silent_p50"), 2999e-6, 2999e-6 * 0.0079);
}

TEST(percentiles_cover_the_window) {
  run_rounds(3 * WINDOW_S / ROUND_S, 1);
  assert_int_equal(datapoints(0), (WINDOW_S / ROUND_S + 1) * PROBES);
  assert_int_equal(datapoints(2), 0);
  play.factor = 2;
  run_rounds(WINDOW_S / ROUND_S / 4, 1);
  assert_near(value("timer_wake_p50"), 16.7e-6, 0.5e-6);
  run_rounds(WINDOW_S / ROUND_S, 1);
  assert_near(value("timer_wake_p50"), 30e-6, 1e-6);
  assert_near(value("timer_wake_p99"), 39.8e-6, 1e-6);
}

TEST(each_state_that_was_met_has_its_own_percentiles) {
  play.deep = 50;
  run_rounds(30, 1);
  assert_near(value("cstate_C1_p50"), 15e-6, 0.3e-6);
  assert_near(value("cstate_C1_p99"), 19.9e-6, 0.3e-6);
  assert_near(value("cstate_C6_p50"), 150e-6, 3e-6);
  assert_near(value("cstate_C6_p99"), 199e-6, 3e-6);
  assert_nan(value("cstate_POLL_p50"));
}

TEST(a_mix_that_shifts_moves_the_median_of_no_state) {
  play.deep = 30;
  run_rounds(30, 1);
  double all = value("timer_wake_p50"), c1 = value("cstate_C1_p50"),
         c6 = value("cstate_C6_p50");
  play.deep = 70;
  play.now_ns += WINDOW_S * NS;
  run_rounds(30, 1);
  assert_true(value("timer_wake_p50") > 5 * all);
  assert_near(value("cstate_C1_p50") / c1, 1, 0.02);
  assert_near(value("cstate_C6_p50") / c6, 1, 0.02);
  play.factor = 2;
  play.now_ns += WINDOW_S * NS;
  run_rounds(30, 1);
  assert_near(value("cstate_C6_p50") / c6, 2, 0.04);
}

TEST(what_is_advertised_is_that_of_the_first_core) {
  struct wanted wanted = {"cstate_C6_advertised", NAN};
  run_rounds(1, 2);
  wake_survey_advertised(survey, note, &wanted);
  assert_near(wanted.value_s, 133e-6, 1e-12);
}

TEST(why_a_thread_replaces_the_bpf_timer_is_said) {
  char why[WHY_SIZE];
  play.why = "no timers here";
  wake_survey_close(survey);
  assert_int_equal(wake_survey_open(&survey, &options, why), 0);
  assert_string_equal(play.said, "no timers here");
}

TEST(cores_are_probed_although_the_first_is_offline_or_has_no_driver) {
  char why[WHY_SIZE];
  play.first_driver = 2;
  wake_survey_close(survey);
  assert_int_equal(wake_survey_open(&survey, &options, why), 0);
  run_rounds(1, CORES);
  assert_int_equal(datapoints(2), PROBES);
}

TEST(a_core_that_is_no_longer_probed_loses_its_percentiles) {
  run_rounds(10, 1);
  assert_false(isnan(value("timer_wake_p50")));
  cores[0].load = 1;
  run_rounds(1, 1);
  assert_false(isnan(value("timer_wake_p50")));
  play.now_ns += WINDOW_S * NS;
  run_rounds(1, 1);
  assert_nan(value("timer_wake_p50"));
  assert_int_equal(datapoints(0), 0);
}

TEST(states_with_interrupts_on_have_no_wake_latency) {
  play.interrupts_on = true;
  run_rounds(10, 1);
  assert_nan(value("timer_wake_p50"));
  assert_near(value("timer_intr_p50"), 15e-6, 1e-6);
}

TEST(busy_cores_and_cores_of_unknown_load_are_not_probed) {
  cores[0].load = 0.51;
  cores[1].load = 0.5;
  cores[2].load = NAN;
  run_rounds(1, CORES);
  assert_probed("2 6");
  assert_int_equal(wake_survey_probes(survey), 2 * PROBES);
}

TEST(without_a_core_to_probe_nothing_is_attached) {
  run_rounds(1, 0);
  cores[0].load = 0.9;
  run_rounds(1, 1);
  assert_int_equal(play.attaches, 0);
}

TEST(a_round_begins_where_the_time_of_the_last_was_over) {
  play.slow_ns = NS / 5; /* three cores take more than the second of a round */
  run_rounds(1, CORES);
  assert_probed("0 2 4");
  run_rounds(1, CORES);
  assert_probed("6 0 2");
  /* The core with which the next round would begin may no longer exist. */
  cores[2].core = 5;
  run_rounds(1, CORES);
  assert_probed("5 6 0");
}

TEST(probes_that_are_late_are_not_waited_for) {
  play.slow_ns = 10 * NS;
  run_rounds(1, 1);
  assert_near((double)(play.now_ns % (ROUND_S * NS)) / NS, 0.5, 0.021);
  assert_int_equal(datapoints(0), PROBES);
}

TEST(why_a_core_is_not_measured_is_said_once_and_others_are_measured) {
  play.absent = 2;
  run_rounds(10, CORES);
  assert_probed("0 2 4 6");
  assert_int_equal(play.said_len, 1);
  assert_string_equal(play.said,
                      "a burst of probes on core 2 gave no wake latencies: "
                      "cannot run on core 2");
  assert_false(isnan(value("timer_wake_p50")));
}

TEST(bursts_count_only_if_cpuidle_saw_the_same) {
  play.unseen = 8;
  run_rounds(20, 1);
  assert_nan(value("timer_intr_p50"));
  assert_int_equal(play.said_len, 1);
  assert_string_equal(play.said,
                      "a burst of probes on core 0 gave no wake latencies: "
                      "the reason");
  play.unseen = 0;
  run_rounds(10, 1);
  assert_false(isnan(value("timer_intr_p50")));
}

TEST(a_core_without_cpuidle_is_unchecked_and_has_no_figures) {
  char why[WHY_SIZE];
  play.usage = -1;
  run_rounds(10, 1);
  assert_nan(value("timer_intr_p50"));
  assert_int_equal(play.said_len, 1);
  struct wake_survey *other;
  assert_int_equal(wake_survey_open(&other, &options, why), -ENODEV);
  assert_non_null(strstr(why, "cpuidle has no driver here"));
}

TEST(a_core_that_goes_offline_gives_no_datapoints) {
  play.is_gone = true;
  run_rounds(1, 1);
  assert_int_equal(datapoints(0), 0);
  assert_int_equal(play.said_len, 1);
}

TEST(the_end_of_collectd_ends_a_round) {
  play.interrupted = true;
  run_rounds(1, CORES);
  assert_probed("0");
  assert_int_equal(play.attaches, 1);
}

const struct unit_fixtures unit_fixtures = {.before_each = begin,
                                            .after_each = end};
