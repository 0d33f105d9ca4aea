/* summary: statistics of one metric in one idle state. */
#ifndef PERCORE_WAKE_SUMMARY_H
#define PERCORE_WAKE_SUMMARY_H

#include "wake.h"

#define WAKE_PERCENTILES 4
#define WAKE_ALL_STATES (-1)

/* 99, 99.9, 99.99, 99.999. */
extern const double wake_percentiles[WAKE_PERCENTILES];

/* True if at least 10 of this many datapoints are above the percentile. */
bool wake_percentile_is_known(size_t count, double percent);

/* Microseconds; NAN: too few datapoints. */
struct wake_summary {
  size_t count;
  double min, max, mean, median;
  double stddev; /* sample standard deviation, divided by n - 1 */
  double percentile[WAKE_PERCENTILES]; /* linear interpolation; NAN unless at
                                          least 10 datapoints are above */
};

/* Summarizes a metric over the datapoints of a state, or of all states. Returns
 * 0 or -ENOMEM. */
int wake_summarize(struct wake_summary *summary,
                   const struct wake_points *points, int state,
                   enum wake_metric metric);

/* Summarizes plain numbers, which it sorts. */
void wake_summarize_numbers(struct wake_summary *summary, float *numbers,
                            size_t len);

/* Returns the sorted numbers of a metric, for plots. The caller frees *numbers.
 * Returns 0 or -ENOMEM. */
int wake_numbers(float **numbers, size_t *len, const struct wake_points *points,
                 int state, enum wake_metric metric);

#endif
