/* summary: statistics of datapoints, in microseconds. */
#ifndef PERCORE_WAKE_SUMMARY_H
#define PERCORE_WAKE_SUMMARY_H

#include "base/histogram.h"
#include "wake.h"

#define WAKE_ALL_STATES WAKE_STATES_MAX

struct wake_stats {
  struct histogram of[WAKE_STATES_MAX + 1][WAKE_METRICS];
};

/* Adds a datapoint to its state and to all states. If interrupts are on in the
 * state, the interrupt runs before idle ends, so WakeLatency says nothing about
 * the latency and is left out. Returns 0 or -ENOMEM. */
int wake_stats_add(struct wake_stats *stats, const struct wake_point *point);
void wake_stats_clear(struct wake_stats *stats); /* keeps the memory */
void wake_stats_free(struct wake_stats *stats);

/* Returns the first latency that is known of a state, as an entry of
 * stats->of[state]: WakeLatency or, with interrupts on, IntrLatency. It is
 * empty without datapoints. */
const struct histogram *wake_stats_latency(const struct wake_stats *stats,
                                           int state);

/* Returns a percentile, by linear interpolation between the two closest values,
 * as numpy and pandas do, within 0.1 %. NAN if fewer than 10 values
 * lie above the percentile. */
double wake_percentile(const struct histogram *histogram, double percent);

enum wake_figure {
  WAKE_MIN,
  WAKE_MEAN,
  WAKE_MEDIAN, /* also of fewer than 20 values */
  WAKE_STDDEV, /* of a sample, divided by n - 1 */
  WAKE_P99,
  WAKE_P99_9,
  WAKE_P99_99,
  WAKE_P99_999,
  WAKE_MAX,
  WAKE_FIGURES
};

/* The names of the figures in text and in JSON, and percentiles. */
extern const struct wake_figure_name {
  const char *text, *key;
  double percent;
} wake_figure_names[WAKE_FIGURES];

/* Returns a figure in microseconds; NAN if there are too few values. */
double wake_figure(const struct histogram *histogram, enum wake_figure figure);

#endif
