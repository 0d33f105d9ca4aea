/* What a measurement says about each idle state. */
#include "wake.h"

#include <math.h>

/* The kernel's code up to the tracepoint takes some microseconds. A latency is
 * dearer than advertised if it is above by more than this and this share. */
#define DEARER_US 5
#define DEARER_SHARE 0.2

double wake_latency_us(const struct wake_point *point) {
  float user = point->us[WAKE_USER_LATENCY];
  return (double)(isnan(user) ? point->us[WAKE_INTR_LATENCY] : user);
}

struct wake_row wake_row_of(const struct wake_run *run, int number) {
  const struct wake_state *state = &run->states.list[number];
  struct wake_row row = {
      .latency =
          &run->stats.of[number][wake_stats_latency(&run->stats, number)],
      .verdict = "as advertised"};
  row.p50_us = wake_percentile(row.latency, 50);
  row.p99_us = wake_percentile(row.latency, 99);
  row.max_us = row.latency->count > 0 ? row.latency->max : NAN;
  double more_us = row.p50_us - state->latency_us;
  if (isnan(state->latency_us))
    row.verdict = "not advertised";
  else if (state->entries == 0 && row.latency->count == 0)
    row.verdict = "not reached";
  else if (isnan(row.p50_us))
    row.verdict = "too few";
  else if (more_us > fmax(DEARER_US, DEARER_SHARE * state->latency_us))
    row.verdict = "dearer";
  bool is_reached = state->entries > 0 || row.latency->count > 0;
  if (row.verdict[0] == 'd')
    snprintf(row.words, sizeof(row.words), "dearer: %.*f us, advertised %g",
             row.p50_us < 10 ? 1 : 0, row.p50_us, state->latency_us);
  else if (!is_reached && state->is_disabled)
    snprintf(row.words, sizeof(row.words), "%s: disabled", row.verdict);
  else if (!is_reached && state->latency_us > run->limit.us)
    snprintf(row.words, sizeof(row.words), "%s: above %g us", row.verdict,
             run->limit.us);
  else
    snprintf(row.words, sizeof(row.words), "%s", row.verdict);
  return row;
}

struct wake_advice wake_advise(const struct wake_run *run) {
  const struct wake_states *states = &run->states;
  struct wake_advice advice = {.deepest = -1, .dma_us = NAN};
  for (int i = 0; i < states->len; i++)
    if (wake_row_of(run, i).p99_us <= run->budget_us)
      advice.deepest = i;
  if (advice.deepest >= 0)
    advice.dma_us = states->list[advice.deepest].latency_us;
  for (int i = 0; i < states->len; i++) {
    double p99_us = wake_row_of(run, i).p99_us;
    if (isnan(states->list[i].latency_us) || states->list[i].is_disabled ||
        p99_us <= run->budget_us || (isnan(p99_us) && i < advice.deepest))
      continue;
    advice.avoid |= 1u << i;
    if (states->list[i].latency_us <= advice.dma_us)
      advice.dma_us = NAN;
  }
  return advice;
}
