/* classify: decides which events are datapoints. An idle state has interrupts
 * on if most of its events say so; the other events are dropped. */
#ifndef PERCORE_WAKE_CLASSIFY_H
#define PERCORE_WAKE_CLASSIFY_H

#include "steps.h"
#include "wake.h"

/* One order of wake and interrupt must be this many times as frequent as the
 * other, as in wult. Until then, the state's datapoints are held back. */
#define WAKE_MAJORITY 100

enum {
  WAKE_DROP_ORDER = WAKE_DROPS_BY_STEPS, /* not TBI < LTime < TAI and TIntr */
  WAKE_DROP_MINORITY, /* interrupts on in a state with interrupts off, or the
                         reverse */
  WAKE_DROPS
};

/* Such as "busy". */
const char *wake_drop_name(int reason);
/* Such as "the core was not idle when the timer expired; ...". */
const char *wake_drop_help(int reason);

struct wake_classifier {
  struct wake_points *points; /* owned by the caller */
  struct wake_points held;
  size_t on[WAKE_STATES_MAX], off[WAKE_STATES_MAX];
  uint64_t drops[WAKE_DROPS];
};

/* Takes an event; `state` is the number of its idle state in points->states.
 * user_us: NAN if unknown. Returns 0 or -ENOMEM. */
int wake_classify(struct wake_classifier *classifier,
                  const struct wake_event *event, int state, float user_us);

/* The number of datapoints held back, because it is not yet clear whether their
 * state has interrupts on. */
size_t wake_classifier_held(const struct wake_classifier *classifier);

void wake_classifier_free(struct wake_classifier *classifier);

#endif
