/* wake: what `percore wake` prints. */
#ifndef PERCORE_TOOL_WAKE_H
#define PERCORE_TOOL_WAKE_H

#include "wake/collect.h"
#include "wake/summary.h"

#include <stdio.h>

/* A set of datapoints and where they come from. */
struct wake_run {
  const struct wake_points *points;
  /* The members below describe the measurement. They are unused if the
   * datapoints come from a file. */
  int core;
  const char *method;
  double seconds;
  struct wake_collect_status status;
};

/* True if any datapoint belongs to this idle state. */
bool wake_state_has(const struct wake_points *points, int state);

/* Returns the first of WakeLatency, IntrLatency and UserLatency that was
 * measured. */
enum wake_metric wake_main_metric(const struct wake_points *points);

/* Prints where the datapoints come from, what was dropped and why, and a table
 * for each idle state. Returns 0 or -ENOMEM. */
int wake_write_text(FILE *out, const struct wake_run *run);

/* Prints a histogram with a bar for each range of latencies. The limits of the
 * ranges are 1, 1.4, 2, 2.8, 4 ... microseconds. `width` is the width of the
 * terminal in characters; 0 means 80. */
void wake_write_histogram(FILE *out, const struct wake_points *points,
                          int width);

/* Returns 0 or -ENOMEM. */
int wake_write_json(FILE *out, const struct wake_run *run);

#endif
