/* classify: which events are datapoints. Whether interrupts are on in an idle
 * state is learned from most of its events; the others are dropped. */
#ifndef PERCORE_WAKE_CLASSIFY_H
#define PERCORE_WAKE_CLASSIFY_H

#include "steps.h"
#include "wake.h"

/* One kind of order must be this many times as frequent as the other, as in
 * wult. Until then datapoints of the state are held back. */
#define WAKE_MAJORITY 100

enum {
  WAKE_DROP_ORDER = WAKE_DROPS_BY_STEPS, /* not TBI < LTime < TAI, TIntr */
  WAKE_DROP_MINORITY,                    /* interrupts on and off contradict */
  WAKE_DROPS
};

/* "busy". */
const char *wake_drop_name(int reason);
/* "the core was not idle when the timer expired". */
const char *wake_drop_help(int reason);

struct wake_classifier {
  struct wake_points *points; /* the caller's */
  struct wake_points held;
  size_t on[WAKE_STATES_MAX], off[WAKE_STATES_MAX];
  uint64_t drops[WAKE_DROPS];
};

/* Takes an event whose idle state has a number in points->states. user_us: NAN
 * if it is not known. Returns 0 or -ENOMEM. */
int wake_classify(struct wake_classifier *classifier,
                  const struct wake_event *event, int state, float user_us);

/* How many datapoints are held back because it is not yet clear whether
 * interrupts are on in their state. */
size_t wake_classifier_held(const struct wake_classifier *classifier);

void wake_classifier_free(struct wake_classifier *classifier);

#endif
