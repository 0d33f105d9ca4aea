/* wake: measures how fast an idle core wakes. A timer that expires while the
 * core is idle produces a datapoint; this folder collects datapoints,
 * summarizes them, and reads and writes them as CSV files.
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
 *   WakeLatency  TAI - LTime, if interrupts are off in the idle state
 *   IntrLatency  TIntr - LTime
 *   UserLatency  from LTime until the waiting thread runs
 */
#ifndef PERCORE_WAKE_WAKE_H
#define PERCORE_WAKE_WAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
  /* The metrics; NAN if not measured. If interrupts are on in the idle state,
   * the interrupt runs before the core leaves that state, so there is no wake
   * latency. */
  float us[WAKE_METRICS];
  float distance_us;   /* LDist: time from arming to LTime; NAN if unknown */
  uint8_t state;       /* the idle state: an index into wake_points.states */
  bool interrupts_off; /* interrupts are off in the idle state */
};

struct wake_points {
  struct wake_point *list;
  size_t len, capacity;
  char states[WAKE_STATES_MAX][WAKE_STATE_NAME_SIZE]; /* "C6", "POLL" */
  size_t states_len;
};

/* Returns 0 or -ENOMEM. */
int wake_points_add(struct wake_points *points, const struct wake_point *point);

/* Returns the index of the idle state with this name, or -1. */
int wake_points_find_state(const struct wake_points *points, const char *name);

/* Like wake_points_find_state, but adds the state if it is new. Returns -1 if
 * there are too many states or the name is too long. */
int wake_points_state(struct wake_points *points, const char *name);

void wake_points_free(struct wake_points *points);

#endif
