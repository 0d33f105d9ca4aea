/* summary: statistics of one metric. */
#ifndef PERCORE_WAKE_SUMMARY_H
#define PERCORE_WAKE_SUMMARY_H

#include "wake.h"

/* True if at least 10 of `count` datapoints are above the percentile. */
bool wake_percentile_is_known(size_t count, double percent);

/* Writes the values of a metric, as wake_point_us returns them, that are known
 * to numbers[], which has room for points->len, and sorts them. Returns how
 * many there are. */
size_t wake_numbers(float *numbers, const struct wake_points *points, int state,
                    enum wake_metric metric);

/* Returns a quantile of at least one number, in ascending order, by linear
 * interpolation between the two closest numbers, as numpy and pandas do. */
double wake_quantile(const float *numbers, size_t len, double fraction);

enum wake_figure {
  WAKE_MIN,
  WAKE_MEAN,
  WAKE_MEDIAN,
  WAKE_STDDEV, /* of a sample, divided by n - 1 */
  WAKE_P99,    /* percentiles, by linear interpolation */
  WAKE_P99_9,
  WAKE_P99_99,
  WAKE_P99_999,
  WAKE_MAX,
  WAKE_FIGURES
};

/* The names of the figures in text and in JSON. */
extern const struct wake_figure_name {
  const char *text, *key;
} wake_figure_names[WAKE_FIGURES];

struct wake_summary {
  size_t count;
  double us[WAKE_FIGURES]; /* NAN if there are too few datapoints */
};

/* Summarizes each metric over the datapoints of a state that count, or of all
 * states if `state` is WAKE_ALL_STATES. Returns 0 or -ENOMEM. */
int wake_summarize(struct wake_summary summaries[WAKE_METRICS],
                   const struct wake_points *points, int state);

#endif
