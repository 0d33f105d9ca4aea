/* Tests statistics of datapoints. The expected numbers come from
 *
 *   python3 -c "import statistics as s
 *   v = [(i * 7919 % 10007) / 8 for i in range(10000)]
 *   q = s.quantiles(v, n=100000, method='inclusive')
 *   print(min(v), max(v), s.mean(v), s.median(v), s.stdev(v),
 *         q[98999], q[99899], q[99989])"
 *
 * and from the same code with range(1000). */
#include "wake/summary.h"

#include "unit.h"

static struct wake_points points;

static void begin(void) {
  points = (struct wake_points){.states = {"C1", "C6"}, .states_len = 2};
}

static void end(void) { wake_points_free(&points); }

/* Adds a datapoint with this UserLatency in microseconds. */
static void add(double user, int state) {
  struct wake_event event = {.tbi = 1,
                             .ltime = 2,
                             .tai = 4,
                             .tintr = 3,
                             .end = 2 + (uint64_t)(user * 1000),
                             .state = (uint32_t)state};
  assert_int_equal(wake_points_add(&points, &event), 0);
}

static struct wake_summary summarize(int state) {
  struct wake_summary summaries[WAKE_METRICS];
  assert_int_equal(wake_summarize(summaries, &points, state), 0);
  return summaries[WAKE_USER_LATENCY];
}

static void add_series(int len) {
  for (int i = 0; i < len; i++)
    add((i * 7919 % 10007) / 8., 0);
}

TEST(statistics_agree_with_those_of_python) {
  add_series(10000);
  struct wake_summary summary = summarize(WAKE_ALL_STATES);
  assert_int_equal(summary.count, 10000);
  assert_near(summary.us[WAKE_MIN], 0, 0);
  assert_near(summary.us[WAKE_MAX], 1250.75, 0);
  assert_near(summary.us[WAKE_MEAN], 625.457225, 1e-9);
  assert_near(summary.us[WAKE_MEDIAN], 625.5625, 1e-9);
  assert_near(summary.us[WAKE_STDDEV], 361.13451857908893, 1e-9);
  assert_near(summary.us[WAKE_P99], 1238.25125, 1e-9);
  assert_near(summary.us[WAKE_P99_9], 1249.500125, 1e-9);
  assert_nan(summary.us[WAKE_P99_99]);
}

TEST(a_percentile_needs_ten_datapoints_beyond_it) {
  add_series(1000);
  struct wake_summary summary = summarize(WAKE_ALL_STATES);
  assert_near(summary.us[WAKE_P99], 1237.63625, 1e-9);
  assert_nan(summary.us[WAKE_P99_9]);
  end();
  begin();
  add_series(999);
  summary = summarize(WAKE_ALL_STATES);
  assert_nan(summary.us[WAKE_P99]);
}

TEST(one_datapoint_has_no_deviation_and_none_has_nothing) {
  struct wake_summary summary = summarize(WAKE_ALL_STATES);
  assert_int_equal(summary.count, 0);
  assert_nan(summary.us[WAKE_MIN]);
  add(7, 0);
  summary = summarize(WAKE_ALL_STATES);
  assert_near(summary.us[WAKE_MEDIAN], 7, 0);
  assert_nan(summary.us[WAKE_STDDEV]);
}

TEST(states_are_summed_up_one_by_one) {
  add(1, 0);
  add(5, 1);
  add(7, 1);
  struct wake_summary summary = summarize(1);
  assert_int_equal(summary.count, 2);
  assert_near(summary.us[WAKE_MEAN], 6, 0);
}

const struct unit_fixtures unit_fixtures = {.before_each = begin,
                                            .after_each = end};
