/* wake: what `percore wake` shows. */
#ifndef PERCORE_TOOL_WAKE_H
#define PERCORE_TOOL_WAKE_H

#include "wake/collect.h"
#include "wake/summary.h"

#include <stdio.h>

/* A set of datapoints and where it comes from. */
struct wake_run {
  const struct wake_points *points;
  const char *file; /* NULL: measured now */
  int core;         /* of a file: -1 */
  const char *method;
  double seconds;
  struct wake_collect_status status;
};

/* The metric to look at first: the wake latency, if there is one. */
enum wake_metric wake_main_metric(const struct wake_points *points);

/* Where the datapoints come from, what was dropped and why, and a table for
 * each idle state. Returns 0 or -ENOMEM. */
int wake_write_text(FILE *out, const struct wake_run *run);

/* One bar for each range of latencies, every second range twice as wide as the
 * one before the last. width: of the terminal, 0: 80. Returns 0 or -ENOMEM. */
int wake_write_histogram(FILE *out, const struct wake_points *points,
                         int width);

/* Two runs side by side, and the change of each figure. */
int wake_write_comparison(FILE *out, const struct wake_run *a,
                          const struct wake_run *b);

int wake_write_json(FILE *out, const struct wake_run *run);

/* Draws histogram, cumulative histogram and latency over SilentTime into an SVG
 * file, by gnuplot. Returns the exit status, having said what is wrong. */
int wake_plot(const char *path, const struct wake_points *points);

#endif
