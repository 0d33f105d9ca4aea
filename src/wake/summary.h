/* summary: statistics of one metric in one idle state. */
#ifndef PERCORE_WAKE_SUMMARY_H
#define PERCORE_WAKE_SUMMARY_H

#include "wake.h"

#define WAKE_PERCENTILES 4
#define WAKE_ALL_STATES (-1)

/* 99, 99.9, 99.99, 99.999. */
extern const double wake_percentiles[WAKE_PERCENTILES];

/* Microseconds; NAN: too few datapoints to tell. */
struct wake_summary {
  size_t count;
  double min, max, mean, median;
  double stddev;                       /* of a sample: by n - 1 */
  double percentile[WAKE_PERCENTILES]; /* linear interpolation; only where at
                                          least 10 datapoints lie beyond */
};

/* Sums up a metric of the datapoints of a state, or of all states. The wake
 * latency of a state with interrupts on is left out: the interrupt runs first
 * there, so that the time after idle says nothing. Returns 0 or -ENOMEM. */
int wake_summarize(struct wake_summary *summary,
                   const struct wake_points *points, int state,
                   enum wake_metric metric);

/* The same of plain numbers, which it sorts. */
void wake_summarize_numbers(struct wake_summary *summary, float *numbers,
                            size_t len);

/* Is of use for plots: the sorted numbers of a metric. *numbers is the caller's
 * to free. Returns 0 or -ENOMEM. */
int wake_numbers(float **numbers, size_t *len, const struct wake_points *points,
                 int state, enum wake_metric metric);

#endif
