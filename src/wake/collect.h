/* collect: measures how fast one core wakes. */
#ifndef PERCORE_WAKE_COLLECT_H
#define PERCORE_WAKE_COLLECT_H

#include "wake.h"

enum wake_method {
  WAKE_BPF_TIMER, /* arms a BPF timer; no task runs on the core */
  WAKE_THREAD,    /* a thread pinned to the core waits for the timer */
  WAKE_PASSIVE,   /* arms nothing; uses the timers that wake the core anyway */
  WAKE_METHODS
};

/* Returns the name of a method, such as "bpf-timer". */
const char *wake_method_name(enum wake_method method);

struct wake_collect_options {
  int core;
  enum wake_method method;
  uint64_t distance_min_ns, distance_max_ns; /* from arming to LTime */
  uint64_t pause_ns; /* from one event until the next event is armed */
};

struct wake_collect;

/* Starts measuring. Needs CAP_BPF and CAP_PERFMON. */
int wake_collect_open(struct wake_collect **collect,
                      const struct wake_collect_options *options,
                      char why[WAKE_WHY_SIZE]);

/* Collects the events since the last call. Call it at least ten times a second.
 */
int wake_collect_poll(struct wake_collect *collect, char why[WAKE_WHY_SIZE]);

struct wake_collect_status {
  uint64_t armed; /* events */
  uint64_t drops[WAKE_DROPS];
  uint64_t overrun; /* events lost because they were collected too late */
  bool is_offline;  /* the core has gone offline */
  uint64_t idles;   /* how many idle states the programs saw the core enter */
  int64_t usage; /* number of idle states that cpuidle counted; -1: unknown */
};

/* Returns the datapoints collected so far. The collector owns them. */
const struct wake_points *
wake_collect_points(const struct wake_collect *collect);
void wake_collect_status(const struct wake_collect *collect,
                         struct wake_collect_status *status);

/* Ends the measurement and frees everything. NULL is ignored. */
void wake_collect_close(struct wake_collect *collect);

#endif
