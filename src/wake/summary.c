#include "summary.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define BEYOND 10 /* minimum number of datapoints above a known percentile */
#define HISTOGRAMS ((WAKE_STATES_MAX + 1) * WAKE_METRICS)

const struct wake_figure_name wake_figure_names[WAKE_FIGURES] = {
    [WAKE_MIN] = {"min", "min_us", 0},
    [WAKE_MEAN] = {"mean", "mean_us", 0},
    [WAKE_MEDIAN] = {"median", "median_us", 0},
    [WAKE_STDDEV] = {"stddev", "stddev_us", 0},
    [WAKE_P99] = {"99 %", "p99_us", 99},
    [WAKE_P99_9] = {"99.9 %", "p99_9_us", 99.9},
    [WAKE_P99_99] = {"99.99 %", "p99_99_us", 99.99},
    [WAKE_P99_999] = {"99.999 %", "p99_999_us", 99.999},
    [WAKE_MAX] = {"max", "max_us", 0},
};

int wake_stats_add(struct wake_stats *stats, const struct wake_point *point) {
  int status = 0;
  for (int metric = 0; metric < WAKE_METRICS; metric++) {
    float us = point->us[metric];
    if (isnan(us) || (metric == WAKE_LATENCY && !point->interrupts_off))
      continue;
    status |= histogram_add(&stats->of[point->state][metric], us);
    status |= histogram_add(&stats->of[WAKE_ALL_STATES][metric], us);
  }
  return status != 0 ? -ENOMEM : 0;
}

void wake_stats_clear(struct wake_stats *stats) {
  struct histogram *histogram = &stats->of[0][0];
  for (int i = 0; i < HISTOGRAMS; i++)
    histogram_clear(&histogram[i]);
}

void wake_stats_free(struct wake_stats *stats) {
  struct histogram *histogram = &stats->of[0][0];
  for (int i = 0; i < HISTOGRAMS; i++)
    free(histogram[i].buckets);
  *stats = (struct wake_stats){0};
}

const struct histogram *wake_stats_latency(const struct wake_stats *stats,
                                           int state) {
  const struct histogram *histograms = stats->of[state];
  return &histograms[histograms[WAKE_LATENCY].count > 0 ? WAKE_LATENCY
                                                        : WAKE_INTR_LATENCY];
}

double wake_percentile(const struct histogram *histogram, double percent) {
  double fraction = percent / 100;
  return (double)histogram->count * (1 - fraction) >= BEYOND - 1e-6
             ? histogram_quantile(histogram, fraction)
             : NAN;
}

double wake_figure(const struct histogram *histogram, enum wake_figure figure) {
  double percent = wake_figure_names[figure].percent;
  uint64_t count = histogram->count;
  if (count == 0 || percent > 0)
    return wake_percentile(histogram, percent);
  const double values[WAKE_FIGURES] = {
      [WAKE_MIN] = histogram->min,
      [WAKE_MEAN] = histogram->mean,
      [WAKE_MEDIAN] = histogram_quantile(histogram, 0.5),
      [WAKE_STDDEV] =
          count > 1 ? sqrt(histogram->squares / (double)(count - 1)) : NAN,
      [WAKE_MAX] = histogram->max};
  return values[figure];
}
