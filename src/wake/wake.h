/* wake: measures how fast an idle core wakes. A timer that expires while the
 * core is idle produces a datapoint; this folder collects datapoints,
 * summarizes them, and writes them as a result of wult.
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

#define WAKE_STATES_MAX 32
#define WAKE_STATE_NAME_SIZE 32

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
  float distance_us;      /* LDist; 0 if not armed by percore */
  uint8_t state;          /* the idle state: an index into wake_points.states */
  bool interrupts_off;    /* idle ended before the interrupt was taken */
};

struct wake_points {
  struct wake_point *list;
  size_t len, capacity;
  char states[WAKE_STATES_MAX][WAKE_STATE_NAME_SIZE]; /* "POLL", "C6" */
  int states_len; /* at least 1; an event of a higher state is in the last */
  /* The number of datapoints of each state with interrupts on, and off. */
  size_t len_of[WAKE_STATES_MAX][2];
};

/* Turns an event into a datapoint. Returns 0 or -ENOMEM. */
int wake_points_add(struct wake_points *points, const struct wake_event *event);

/* Forgets the datapoints before the first whose LTime is at least since_ns. */
void wake_points_forget(struct wake_points *points, uint64_t since_ns);

/* Interrupts are either on or off in an idle state, which only the datapoints
 * tell: the order of the majority is the state's. A datapoint in the other
 * order does not count, because something other than its timer ended the idle
 * state.
 */
bool wake_point_counts(const struct wake_points *points,
                       const struct wake_point *point);

/* Returns how many datapoints of all states count. */
size_t wake_points_counted(const struct wake_points *points);

#define WAKE_ALL_STATES (-1)

/* Returns the value of a metric of a datapoint that counts and is of this
 * state; otherwise, or if the value is unknown, returns NAN. If interrupts are
 * on in the idle state, the interrupt runs before idle ends, so WakeLatency
 * says nothing about the latency and is unknown here. */
double wake_point_us(const struct wake_points *points,
                     const struct wake_point *point, int state,
                     enum wake_metric metric);

/* The names and explanations of reasons: "busy", "the core was not idle; ..."
 */
extern const struct wake_drop_text {
  const char *name, *help;
} wake_drop_texts[WAKE_DROPS];

void wake_points_free(struct wake_points *points);

#endif
