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

#include "steps.h"

#include <stddef.h>

#define WAKE_WHY_SIZE 512
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

/* Returns the name of a metric, such as "WakeLatency". */
const char *wake_metric_name(enum wake_metric metric);

struct wake_point {
  float us[WAKE_METRICS]; /* NAN if not measured */
  float distance_us;      /* LDist; NAN if unknown */
  uint8_t state;          /* the idle state: an index into wake_points.states */
  bool interrupts_off;    /* idle ended before the interrupt was taken */
};

enum {
  WAKE_DROP_ORDER = WAKE_DROPS_BY_STEPS, /* LTime is not after TBI, or not
                                            before TAI and TIntr */
  WAKE_DROPS
};

struct wake_points {
  struct wake_point *list;
  size_t len, capacity;
  char states[WAKE_STATES_MAX][WAKE_STATE_NAME_SIZE]; /* "POLL", "C6" */
  int states_len; /* at least 1; an event of a higher state is in the last */
  /* The number of datapoints of each state with interrupts on, and off. */
  size_t on[WAKE_STATES_MAX], off[WAKE_STATES_MAX];
  uint64_t drops[WAKE_DROPS];
};

/* Turns an event into a datapoint, or drops it if its times are in an
 * impossible order. user_us is the UserLatency of the event, or NAN. Returns 0
 * or -ENOMEM. */
int wake_points_add(struct wake_points *points, const struct wake_event *event,
                    float user_us);

/* Interrupts are either on or off in an idle state, which only the datapoints
 * tell: the order of the majority is the state's. A datapoint in the other
 * order does not count, because something other than its timer ended the idle
 * state.
 */
bool wake_point_counts(const struct wake_points *points,
                       const struct wake_point *point);

/* Returns how many datapoints count. */
size_t wake_points_counted(const struct wake_points *points);

/* Returns the value of a metric, or NAN if it is unknown. If interrupts are on
 * in the idle state, the interrupt runs before idle ends, so WakeLatency says
 * nothing about the latency and is unknown here. */
double wake_point_us(const struct wake_point *point, enum wake_metric metric);

/* Returns the name of a reason, such as "busy". */
const char *wake_drop_name(int reason);
/* Returns an explanation of a reason, such as "the core was not idle; ...".
 */
const char *wake_drop_help(int reason);

void wake_points_free(struct wake_points *points);

#endif
