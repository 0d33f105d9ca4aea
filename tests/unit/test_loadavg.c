#include "unit.h"

#include "cycles/loadavg.h"

/* The length of the load averages' window: 60/13 s. */
static const double window_s = 60.0 / 13;

/* Returns the load average over period_s after `windows` windows with the same
 * length and the same load. */
static double after(int windows, double load, double period_s) {
  struct loadavg average = {0, 0};
  for (int i = 0; i < windows; i++)
    loadavg_update(&average, load, window_s, period_s);
  return loadavg_get(&average);
}

TEST(the_interval_is_a_thirteenth_of_a_minute) {
  assert_near((double)LOADAVG_INTERVAL_NS / 1e9, window_s, 1e-9);
}

TEST(before_the_first_window_the_average_is_unknown) {
  struct loadavg average = {0, 0};
  assert_nan(loadavg_get(&average));
}

TEST(a_steady_load_is_the_average_from_the_first_window_on) {
  static const double period_s[] = {1, 10, 60, 300, 900, 3600};
  for (size_t i = 0; i < sizeof period_s / sizeof period_s[0]; i++)
    for (int windows = 1; windows < 100; windows++)
      assert_near(after(windows, 0.8, period_s[i]), 0.8, 1e-12);
}

/* A window of length dt moves an average by 1 - exp(-dt/period) of its
 * difference to the load, so the average keeps a share of exp(-dt/period). In
 * fixed point with 11 bits, this share is a factor known from the kernel. */
TEST(one_window_keeps_1896_2017_and_2038_of_2048) {
  static const struct {
    double period_s;
    long factor;
  } known[] = {{60, 1896}, {300, 2017}, {900, 2038}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    struct loadavg average;
    loadavg_start(&average, 1);
    loadavg_update(&average, 0, (double)LOADAVG_INTERVAL_NS / 1e9,
                   known[i].period_s);
    assert_int_equal(lround(loadavg_get(&average) * 2048), known[i].factor);
  }
}

TEST(a_step_is_followed_exponentially) {
  struct loadavg average;
  loadavg_start(&average, 0);
  for (int window = 1; window <= 13 * 15; window++) {
    loadavg_update(&average, 1, window_s, 300);
    assert_near(loadavg_get(&average), 1 - exp(-window * window_s / 300),
                1e-12);
  }
}

/* With a limited history, the average is the integral of the load weighted by
 * exp(-age/period), divided by the integral of that weight. */
TEST(a_short_history_is_weighted_by_its_length) {
  const double period_s = 900, first_s = 40, second_s = 70;
  struct loadavg average = {0, 0};
  loadavg_update(&average, 0.2, first_s, period_s);
  loadavg_update(&average, 0.9, second_s, period_s);
  double old =
      exp(-second_s / period_s) - exp(-(first_s + second_s) / period_s);
  double young = 1 - exp(-second_s / period_s);
  assert_near(loadavg_get(&average), (0.2 * old + 0.9 * young) / (old + young),
              1e-12);
}

TEST(the_division_of_time_into_windows_does_not_matter) {
  struct loadavg whole, cut;
  loadavg_start(&whole, 0.1);
  loadavg_start(&cut, 0.1);
  loadavg_update(&whole, 0.7, 100, 60);
  for (int i = 0; i < 1000; i++)
    loadavg_update(&cut, 0.7, 0.1, 60);
  assert_near(loadavg_get(&cut), loadavg_get(&whole), 1e-12);
}

TEST(a_gap_enters_once_with_its_own_length) {
  struct loadavg average;
  loadavg_start(&average, 0);
  loadavg_update(&average, 1, 600, 60);
  assert_near(loadavg_get(&average), 1 - exp(-10), 1e-12);
}

TEST(after_a_very_long_gap_only_its_value_counts) {
  struct loadavg average;
  loadavg_start(&average, 0.3);
  loadavg_update(&average, 0.6, 1e9, 60);
  assert_near(loadavg_get(&average), 0.6, 1e-12);
}

TEST(a_very_short_window_is_not_lost_in_rounding) {
  struct loadavg average = {0, 0};
  loadavg_update(&average, 0.4, 1e-9, 3600);
  assert_near(loadavg_get(&average), 0.4, 1e-12);
}

TEST(windows_without_length_or_value_are_ignored) {
  struct loadavg average = {0, 0};
  loadavg_update(&average, 0.5, window_s, 60);
  static const struct {
    double value, dt_s;
  } nothing[] = {{1, 0},        {1, -1},        {NAN, 5},
                 {INFINITY, 5}, {-INFINITY, 5}, {1, NAN}};
  for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++) {
    loadavg_update(&average, nothing[i].value, nothing[i].dt_s, 60);
    assert_near(loadavg_get(&average), 0.5, 1e-12);
  }
  average = (struct loadavg){0, 0};
  loadavg_update(&average, 1, 0, 60);
  assert_nan(loadavg_get(&average));
}

TEST(a_start_value_counts_as_if_it_had_never_changed) {
  struct loadavg average;
  loadavg_start(&average, 3);
  assert_near(loadavg_get(&average), 3, 0);
  loadavg_update(&average, 1, 60, 60);
  assert_near(loadavg_get(&average), 1 + 2 * exp(-1), 1e-12);
}
