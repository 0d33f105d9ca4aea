/* summary: statistics of one metric. */
#ifndef PERCORE_WAKE_SUMMARY_H
#define PERCORE_WAKE_SUMMARY_H

#include "wake.h"

#define WAKE_PERCENTILES 4

/* True if at least 10 of `count` datapoints are above the percentile. */
bool wake_percentile_is_known(size_t count, double percent);

/* Figures in microseconds. A figure is NAN if there are too few datapoints for
 * it. */
struct wake_summary {
  size_t count;
  double min, max, mean, median;
  double stddev; /* sample standard deviation, divided by n - 1 */
  /* The 99th, 99.9th, 99.99th and 99.999th percentiles, by linear
   * interpolation. */
  double percentile[WAKE_PERCENTILES];
};

/* The figures of a summary, with their names in text and in JSON. */
#define WAKE_FIGURES (5 + WAKE_PERCENTILES)
extern const struct wake_figure {
  const char *name, *key;
  size_t offset; /* of a double in struct wake_summary */
} wake_figures[WAKE_FIGURES];
double wake_figure(const struct wake_summary *summary, size_t figure);

/* Summarizes each metric over the datapoints of a state that count, or of all
 * states if `state` is WAKE_ALL_STATES. Returns 0 or -ENOMEM. */
int wake_summarize(struct wake_summary summaries[WAKE_METRICS],
                   const struct wake_points *points, int state);

#endif
