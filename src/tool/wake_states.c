/* What a measurement says about each idle state. */
#include "wake.h"

#include <math.h>

/* The kernel's code up to the tracepoint takes some microseconds. A latency is
 * dearer than advertised if it is above by more than this and this share. */
#define DEARER_US 5
#define DEARER_SHARE 0.2

double wake_latency_us(const struct wake_point *point) {
  return (double)fmaxf(point->us[WAKE_INTR_LATENCY],
                       point->us[WAKE_USER_LATENCY]); /* may be NAN */
}

const char *wake_verdict(const struct wake_run *run, int number) {
  const struct wake_state *state = &run->status.states.list[number];
  const struct histogram *latency = wake_stats_latency(&run->stats, number);
  double more_us = wake_percentile(latency, 50) - state->latency_us;
  return isnan(state->latency_us)                     ? "not advertised"
         : state->entries == 0 && latency->count == 0 ? "not reached"
         : isnan(more_us)                             ? "too few"
         : more_us > fmax(DEARER_US, DEARER_SHARE * state->latency_us)
             ? "dearer"
             : "as advertised";
}
