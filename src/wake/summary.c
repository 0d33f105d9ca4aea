#include "summary.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define BEYOND 10 /* minimum number of datapoints above a known percentile */

static const double percentiles[WAKE_PERCENTILES] = {99, 99.9, 99.99, 99.999};

#define FIGURE(member) offsetof(struct wake_summary, member)
const struct wake_figure wake_figures[WAKE_FIGURES] = {
    {"min", "min_us", FIGURE(min)},
    {"mean", "mean_us", FIGURE(mean)},
    {"median", "median_us", FIGURE(median)},
    {"stddev", "stddev_us", FIGURE(stddev)},
    {"99 %", "p99_us", FIGURE(percentile[0])},
    {"99.9 %", "p99_9_us", FIGURE(percentile[1])},
    {"99.99 %", "p99_99_us", FIGURE(percentile[2])},
    {"99.999 %", "p99_999_us", FIGURE(percentile[3])},
    {"max", "max_us", FIGURE(max)},
};

double wake_figure(const struct wake_summary *summary, size_t figure) {
  return *(const double *)((const char *)summary + wake_figures[figure].offset);
}

static int compare(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

bool wake_percentile_is_known(size_t count, double percent) {
  return (double)count * (1 - percent / 100) >= BEYOND - 1e-6;
}

/* Returns a quantile by linear interpolation between the two closest values, as
 * numpy and pandas do. */
static double quantile(const float *sorted, size_t len, double fraction) {
  double position = fraction * (double)(len - 1);
  size_t below = (size_t)position;
  if (below + 1 >= len)
    return (double)sorted[len - 1];
  double share = position - (double)below;
  return (double)sorted[below] +
         share * ((double)sorted[below + 1] - (double)sorted[below]);
}

static void summarize(struct wake_summary *summary, float *numbers,
                      size_t len) {
  *summary =
      (struct wake_summary){len, NAN, NAN, NAN, NAN, NAN, {NAN, NAN, NAN, NAN}};
  if (len == 0)
    return;
  qsort(numbers, len, sizeof(*numbers), compare);
  summary->min = (double)numbers[0];
  summary->max = (double)numbers[len - 1];
  summary->median = quantile(numbers, len, 0.5);
  double sum = 0, squares = 0;
  for (size_t i = 0; i < len; i++)
    sum += (double)numbers[i];
  summary->mean = sum / (double)len;
  for (size_t i = 0; i < len; i++)
    squares += pow((double)numbers[i] - summary->mean, 2);
  if (len > 1)
    summary->stddev = sqrt(squares / (double)(len - 1));
  for (size_t i = 0; i < WAKE_PERCENTILES; i++)
    if (wake_percentile_is_known(len, percentiles[i]))
      summary->percentile[i] = quantile(numbers, len, percentiles[i] / 100);
}

int wake_summarize(struct wake_summary summaries[WAKE_METRICS],
                   const struct wake_points *points, int state) {
  float *numbers = malloc((points->len + 1) * sizeof(*numbers));
  if (numbers == NULL)
    return -ENOMEM;
  for (int metric = 0; metric < WAKE_METRICS; metric++) {
    size_t len = 0;
    for (size_t i = 0; i < points->len; i++) {
      const struct wake_point *point = &points->list[i];
      double us = wake_point_us(points, point, state, (enum wake_metric)metric);
      if (!isnan(us))
        numbers[len++] = (float)us;
    }
    summarize(&summaries[metric], numbers, len);
  }
  free(numbers);
  return 0;
}
