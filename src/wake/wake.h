/* wake: measures how fast an idle core wakes. A timer that expires while the
 * core is idle produces a datapoint; this folder collects datapoints and
 * summarizes them.
 *
 * This folder depends on neither collectd nor regions, maps or cycles.
 * Functions that can fail return 0 or a negative errno. On failure, functions
 * with a parameter `why` write a line to `why`, which says what failed and what
 * to do.
 *
 * The names are those of wult (https://github.com/intel/wult):
 *
 *   LTime        when the timer was programmed to expire
 *   TBI, TAI     before and after idle: the last and first moment at which the
 *                core is known to run
 *   TIntr        entry of the interrupt that ended the idle state
 *   SilentTime   LTime - TBI
 *   WakeLatency  TAI - LTime
 *   IntrLatency  TIntr - LTime
 *   UserLatency  from LTime until the waiting thread runs
 *   LDist        from arming the timer to LTime
 */
#ifndef PERCORE_WAKE_WAKE_H
#define PERCORE_WAKE_WAKE_H

#include "base/why.h"
#include "steps.h"

#include <stddef.h>

#define WAKE_STATES_MAX 16 /* CPUIDLE_STATE_MAX of the kernel is 10 */
#define WAKE_STATE_NAME_SIZE 32

/* What cpuidle says about an idle state of a core. */
struct wake_state {
  char name[WAKE_STATE_NAME_SIZE]; /* "POLL", "C6"; only letters, digits, '-',
                                      '_' and '.' */
  double latency_us, residency_us; /* advertised: the latency of its exit, and
                                      how long it must last to save energy; NAN:
                                      cpuidle has no driver for the core */
  bool is_disabled;
  uint64_t entries, time_us; /* how often and how long the core was in it */
};

struct wake_states {
  int len; /* at least 1; an event of a higher state is in the last */
  struct wake_state list[WAKE_STATES_MAX];
};

/* The metrics of a datapoint, in microseconds. */
enum wake_metric {
  WAKE_LATENCY,
  WAKE_INTR_LATENCY,
  WAKE_USER_LATENCY,
  WAKE_SILENT_TIME,
  WAKE_METRICS
};

extern const char *const wake_metric_names[WAKE_METRICS]; /* "WakeLatency" */

struct wake_point {
  uint64_t ltime_ns;
  float us[WAKE_METRICS]; /* NAN if not measured */
  float distance_us;      /* LDist */
  uint32_t interrupt;     /* number of the interrupt */
  uint8_t state;          /* the idle state: an index into wake_states.list */
  bool interrupts_off;    /* idle ended before the interrupt was taken */
};

struct wake_points {
  struct wake_point *list;
  size_t len, capacity;
  /* Of each state, how many of the recent events had interrupts on, and off. */
  uint32_t orders[WAKE_STATES_MAX][2];
};

/* Turns an event into a datapoint, and returns 1. Or returns 0, because the
 * event is one of a minority: interrupts are either on or off in an idle state,
 * which only the events tell, by the order of most events so far. In an event
 * in the other order, something other than its timer ended the idle state. Or
 * returns -ENOMEM. */
int wake_points_add(struct wake_points *points,
                    const struct wake_states *states,
                    const struct wake_event *event);

/* Forgets the datapoints before the first whose LTime is at least since_ns. */
void wake_points_forget(struct wake_points *points, uint64_t since_ns);

void wake_points_free(struct wake_points *points);

/* The names and explanations of reasons, in the order of enum wake_drop:
 * "busy", "the core was not idle; ..." */
extern const struct wake_drop_text {
  const char *name, *help;
} wake_drop_texts[WAKE_DROPS];

#endif
