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

#define EXACT 1e-6
#define PERCENTILE 1e-3 /* of its value */

static struct wake_stats stats;

static void begin(void) { stats = (struct wake_stats){0}; }

static void end(void) { wake_stats_free(&stats); }

/* Adds a datapoint with this UserLatency in microseconds. */
static void add(double user, int state) {
  struct wake_point point = {.us = {3, 2, (float)user, 1},
                             .state = (uint8_t)state,
                             .interrupts_off = true};
  assert_int_equal(wake_stats_add(&stats, &point), 0);
}

struct summary {
  uint64_t count;
  double us[WAKE_FIGURES];
};

static struct summary summarize(int state) {
  const struct histogram *histogram = &stats.of[state][WAKE_USER_LATENCY];
  struct summary summary = {.count = histogram->count};
  for (int figure = 0; figure < WAKE_FIGURES; figure++)
    summary.us[figure] = wake_figure(histogram, (enum wake_figure)figure);
  return summary;
}

#define assert_percentile(value, wanted)                                       \
  assert_near(value, wanted, PERCENTILE *(wanted))

static void add_series(int len) {
  for (int i = 0; i < len; i++)
    add((i * 7919 % 10007) / 8., 0);
}

TEST(statistics_agree_with_those_of_python) {
  add_series(10000);
  struct summary summary = summarize(WAKE_ALL_STATES);
  assert_int_equal(summary.count, 10000);
  assert_near(summary.us[WAKE_MIN], 0, 0);
  assert_near(summary.us[WAKE_MAX], 1250.75, 0);
  assert_near(summary.us[WAKE_MEAN], 625.457225, EXACT);
  assert_percentile(summary.us[WAKE_MEDIAN], 625.5625);
  assert_near(summary.us[WAKE_STDDEV], 361.13451857908893, EXACT);
  assert_percentile(summary.us[WAKE_P99], 1238.25125);
  assert_percentile(summary.us[WAKE_P99_9], 1249.500125);
  assert_nan(summary.us[WAKE_P99_99]);
}

TEST(a_percentile_needs_ten_datapoints_beyond_it) {
  add_series(1000);
  struct summary summary = summarize(WAKE_ALL_STATES);
  assert_percentile(summary.us[WAKE_P99], 1237.63625);
  assert_nan(summary.us[WAKE_P99_9]);
  end();
  begin();
  add_series(999);
  summary = summarize(WAKE_ALL_STATES);
  assert_nan(summary.us[WAKE_P99]);
}

TEST(one_datapoint_has_no_deviation_and_none_has_nothing) {
  struct summary summary = summarize(WAKE_ALL_STATES);
  assert_int_equal(summary.count, 0);
  assert_nan(summary.us[WAKE_MIN]);
  add(7, 0);
  summary = summarize(WAKE_ALL_STATES);
  assert_near(summary.us[WAKE_MEDIAN], 7, 0);
  assert_nan(summary.us[WAKE_STDDEV]);
}

TEST(percentiles_between_values_that_are_far_apart_are_interpolated) {
  for (int i = 0; i < 10; i++)
    add(10, 0);
  for (int i = 0; i < 10; i++)
    add(20, 0);
  assert_percentile(summarize(0).us[WAKE_MEDIAN], 15.);
}

TEST(every_size_of_value_has_a_bucket) {
  static const double sizes[] = {0, 0.0005, 0.9, 3, 4000, 1e6, 1e9};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    add(sizes[i], 0);
    assert_near(summarize(0).us[WAKE_MAX], sizes[i], 1e-7 * sizes[i]);
    assert_near(summarize(0).us[WAKE_MEDIAN], sizes[i], 1e-7 * sizes[i]);
    wake_stats_clear(&stats);
    assert_int_equal(summarize(0).count, 0);
  }
}

TEST(with_interrupts_on_the_wake_latency_is_left_out) {
  struct wake_point point = {.us = {3, 2, NAN, 1}};
  assert_int_equal(wake_stats_add(&stats, &point), 0);
  assert_int_equal(stats.of[0][WAKE_LATENCY].count, 0);
  assert_int_equal(stats.of[0][WAKE_INTR_LATENCY].count, 1);
  assert_ptr_equal(wake_stats_latency(&stats, 0),
                   &stats.of[0][WAKE_INTR_LATENCY]);
  point.interrupts_off = true;
  point.state = 1;
  assert_int_equal(wake_stats_add(&stats, &point), 0);
  assert_ptr_equal(wake_stats_latency(&stats, 1), &stats.of[1][WAKE_LATENCY]);
}

TEST(states_are_summed_up_one_by_one) {
  add(1, 0);
  add(5, 1);
  add(7, 1);
  struct summary summary = summarize(1);
  assert_int_equal(summary.count, 2);
  assert_near(summary.us[WAKE_MEAN], 6, 0);
}

const struct unit_fixtures unit_fixtures = {.before_each = begin,
                                            .after_each = end};
