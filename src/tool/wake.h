/* wake: what `percore wake` prints. */
#ifndef PERCORE_TOOL_WAKE_H
#define PERCORE_TOOL_WAKE_H

#include "latency_limit.h"
#include "wake/collect.h"
#include "wake/summary.h"

#include <stdio.h>

/* A measurement. */
struct wake_run {
  struct wake_collect_status status;
  struct wake_stats stats;
  struct latency_limit limit; /* before the measurement */
  /* The first datapoint whose latency, as wake_latency_us returns it, is above
   * the threshold. If no latency was, its ltime_ns is 0. */
  struct wake_point above;
};

/* Returns the time from LTime until the waiting thread runs or, if no thread
 * waited, until the interrupt. */
double wake_latency_us(const struct wake_point *point);

/* Returns what a measurement says about an idle state: "as advertised",
 * "dearer", "not reached", "too few" or, without a cpuidle driver, "not
 * advertised". It compares the median of the first latency that is known with
 * the exit latency that is advertised. */
const char *wake_verdict(const struct wake_run *run, int state);

/* Prints what was measured, what was dropped and why. Then prints, for all idle
 * states together if there are several and for each of them, a table of
 * statistics, and at the end a table of the states. */
void wake_write_text(FILE *out, const struct wake_run *run);

void wake_write_json(FILE *out, const struct wake_run *run);

#endif
