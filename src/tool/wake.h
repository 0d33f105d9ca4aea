/* wake: what `percore wake` prints. */
#ifndef PERCORE_TOOL_WAKE_H
#define PERCORE_TOOL_WAKE_H

#include "wake/collect.h"
#include "wake/summary.h"

#include <stdio.h>

/* The datapoints of a measurement. */
struct wake_run {
  struct wake_points points;
  int core;
  const char *method;
  double seconds;
  struct wake_collect_status status;
};

/* Prints what was measured, what was dropped and why. Then prints, for all idle
 * states together if there are several and for each of them, a table of
 * statistics and a histogram of the first latency that is known: WakeLatency,
 * else IntrLatency. The histogram has a bar for each range, with the limits 1,
 * 1.4, 2, 2.8, 4 ... microseconds. `width` is the width of the terminal in
 * characters; 0 means 80. Returns 0 or -ENOMEM. */
int wake_write_text(FILE *out, const struct wake_run *run, int width);

/* Returns 0 or -ENOMEM. */
int wake_write_json(FILE *out, const struct wake_run *run);

#endif
