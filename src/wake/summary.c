#include "summary.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define BEYOND 10 /* minimum number of datapoints above a known percentile */

const struct wake_figure_name wake_figure_names[WAKE_FIGURES] = {
    [WAKE_MIN] = {"min", "min_us"},
    [WAKE_MEAN] = {"mean", "mean_us"},
    [WAKE_MEDIAN] = {"median", "median_us"},
    [WAKE_STDDEV] = {"stddev", "stddev_us"},
    [WAKE_P99] = {"99 %", "p99_us"},
    [WAKE_P99_9] = {"99.9 %", "p99_9_us"},
    [WAKE_P99_99] = {"99.99 %", "p99_99_us"},
    [WAKE_P99_999] = {"99.999 %", "p99_999_us"},
    [WAKE_MAX] = {"max", "max_us"},
};

bool wake_percentile_is_known(size_t count, double percent) {
  return (double)count * (1 - percent / 100) >= BEYOND - 1e-6;
}

double wake_quantile(const float *numbers, size_t len, double fraction) {
  double position = fraction * (double)(len - 1);
  size_t below = (size_t)position;
  double value = (double)numbers[below];
  if (below + 1 < len)
    value += (position - (double)below) * ((double)numbers[below + 1] - value);
  return value;
}

static int by_size(const void *left, const void *right) {
  float a = *(const float *)left, b = *(const float *)right;
  return a < b ? -1 : a > b;
}

size_t wake_numbers(float *numbers, const struct wake_points *points, int state,
                    enum wake_metric metric) {
  size_t len = 0;
  for (size_t i = 0; i < points->len; i++) {
    double us = wake_point_us(points, &points->list[i], state, metric);
    if (!isnan(us))
      numbers[len++] = (float)us;
  }
  qsort(numbers, len, sizeof(*numbers), by_size);
  return len;
}

static void summarize(struct wake_summary *summary, const float *numbers,
                      size_t len) {
  static const double percents[] = {99, 99.9, 99.99, 99.999};
  double *us = summary->us, sum = 0, squares = 0;
  summary->count = len;
  for (int figure = 0; figure < WAKE_FIGURES; figure++)
    us[figure] = NAN;
  if (len == 0)
    return;
  us[WAKE_MIN] = (double)numbers[0];
  us[WAKE_MEDIAN] = wake_quantile(numbers, len, 0.5);
  us[WAKE_MAX] = (double)numbers[len - 1];
  for (size_t i = 0; i < len; i++)
    sum += (double)numbers[i];
  us[WAKE_MEAN] = sum / (double)len;
  for (size_t i = 0; i < len; i++)
    squares += pow((double)numbers[i] - us[WAKE_MEAN], 2);
  if (len > 1)
    us[WAKE_STDDEV] = sqrt(squares / (double)(len - 1));
  for (int p = 0; p <= WAKE_P99_999 - WAKE_P99; p++)
    if (wake_percentile_is_known(len, percents[p]))
      us[WAKE_P99 + p] = wake_quantile(numbers, len, percents[p] / 100);
}

int wake_summarize(struct wake_summary summaries[WAKE_METRICS],
                   const struct wake_points *points, int state) {
  float *numbers = malloc((points->len + 1) * sizeof(*numbers));
  if (numbers == NULL)
    return -ENOMEM;
  for (int metric = 0; metric < WAKE_METRICS; metric++) {
    size_t len = wake_numbers(numbers, points, state, (enum wake_metric)metric);
    summarize(&summaries[metric], numbers, len);
  }
  free(numbers);
  return 0;
}
