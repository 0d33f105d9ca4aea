/* classify: turns events into datapoints. The majority of an idle state's
 * events decides whether interrupts are on or off in that state; the other
 * events are dropped. */
#ifndef PERCORE_WAKE_CLASSIFY_H
#define PERCORE_WAKE_CLASSIFY_H

#include "steps.h"
#include "wake.h"

/* The factor by which a majority must exceed the minority, as in wult. Until an
 * idle state has a majority, its datapoints are held back. */
#define WAKE_MAJORITY 100

enum {
  WAKE_DROP_ORDER = WAKE_DROPS_BY_STEPS, /* LTime is not after TBI, or not
                                            before TAI and TIntr */
  WAKE_DROP_MINORITY, /* interrupts on in a state with interrupts off, or the
                         reverse */
  WAKE_DROPS
};

/* Returns the name of a reason, such as "busy". */
const char *wake_drop_name(int reason);
/* Returns an explanation of a reason, such as "the core was not idle when the
 * timer expired; ...". */
const char *wake_drop_help(int reason);

/* Zero this struct before use, and call wake_core_states to fill in the idle
 * states. */
struct wake_classifier {
  struct wake_points points; /* the datapoints */
  struct wake_points held;   /* datapoints held back */
  /* Indexes into points.states, in the kernel's order. */
  int states[WAKE_STATES_MAX];
  int states_len; /* at least 1 */
  /* The number of events in each state with interrupts on, and with interrupts
   * off. */
  size_t on[WAKE_STATES_MAX], off[WAKE_STATES_MAX];
  uint64_t drops[WAKE_DROPS];
};

/* Turns an event into a datapoint, which is added, held back or dropped.
 * user_us is the UserLatency of the event, or NAN. Returns 0 or -ENOMEM. */
int wake_classify(struct wake_classifier *classifier,
                  const struct wake_event *event, float user_us);

#endif
