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

struct wake_advice wake_advise(const struct wake_run *run) {
  const struct wake_states *states = &run->status.states;
  struct wake_advice advice = {.deepest = -1, .dma_us = NAN};
  double p99_us[WAKE_STATES_MAX];
  for (int i = 0; i < states->len; i++) {
    p99_us[i] = wake_percentile(wake_stats_latency(&run->stats, i), 99);
    if (p99_us[i] <= run->budget_us)
      advice.deepest = i;
  }
  if (advice.deepest < 0)
    return advice;
  advice.dma_us = states->list[advice.deepest].latency_us;
  for (int i = 0; i < states->len; i++) {
    const struct wake_state *state = &states->list[i];
    if (state->is_disabled ||
        (i <= advice.deepest && !(p99_us[i] > run->budget_us)))
      continue;
    advice.disable |= 1u << i;
    if (state->latency_us <= advice.dma_us)
      advice.dma_us = NAN;
  }
  return advice;
}
