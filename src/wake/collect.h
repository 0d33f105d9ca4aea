/* collect: measures how fast cores wake, one core at a time. The BPF programs
 * are loaded once; between wake_collect_attach and wake_collect_detach, any
 * number of cores can be measured. */
#ifndef PERCORE_WAKE_COLLECT_H
#define PERCORE_WAKE_COLLECT_H

#include "wake.h"

#define WAKE_DISTANCE_MAX_NS UINT64_C(4000000) /* the default */
#define WAKE_DISTANCE_MIN_NS UINT64_C(1000)

enum wake_method {
  WAKE_BPF_TIMER, /* arms a BPF timer; no task runs on the core */
  WAKE_THREAD,    /* a thread pinned to the core waits for the timer */
  WAKE_PASSIVE,   /* arms nothing; uses the timers that wake the core anyway */
  WAKE_METHODS
};

extern const char *const wake_method_names[WAKE_METHODS]; /* "bpf-timer" */

struct wake_collect_options {
  enum wake_method method;
  uint64_t distance_max_ns; /* from arming to LTime; 0: the default */
  uint64_t pause_ns;        /* from one event until the next event is armed */
  uint64_t armed_max;       /* BPF timer: events of each core; 0: no limit */
  /* Asked while a core is too busy to start on; if it returns false,
   * wake_collect_begin gives up. May be NULL. */
  bool (*goes_on)(void *context);
  void *context;
};

struct wake_collect;

/* Loads the programs, which needs CAP_BPF and CAP_PERFMON. */
int wake_collect_open(struct wake_collect **collect,
                      const struct wake_collect_options *options,
                      char why[WHY_SIZE]);

/* Detaches, and frees everything. NULL is ignored. */
void wake_collect_close(struct wake_collect *collect);

/* Attaches the programs to their tracepoints, which interrupts every core about
 * 15 times for each tracepoint. */
int wake_collect_attach(struct wake_collect *collect, char why[WHY_SIZE]);
void wake_collect_detach(struct wake_collect *collect);

/* Begins to measure a core. A thread runs there for a moment to start the
 * timer. Returns -EINTR if goes_on returned false. Call wake_collect_end
 * afterwards, even after an error. */
int wake_collect_begin(struct wake_collect *collect, int core,
                       char why[WHY_SIZE]);

/* Adds the events since the last call to the datapoints. Call it at least ten
 * times a second, or once after at most WAKE_EVENTS_KEPT events. Returns 0 or
 * -ENOMEM. */
#define WAKE_EVENTS_KEPT 2000
int wake_collect_poll(struct wake_collect *collect, struct wake_points *points);

struct wake_collect_status {
  uint64_t armed; /* events */
  uint64_t drops[WAKE_DROPS];
  uint64_t overrun; /* events lost because they were collected too late */
  bool is_offline;  /* the core has gone offline */
  bool is_done;     /* all armed_max events are over */
  uint64_t idles;   /* how many idle states the programs saw the core enter */
  int64_t usage; /* number of idle states that cpuidle counted; -1: unknown */
};

/* Says what has happened since wake_collect_begin. */
void wake_collect_status(const struct wake_collect *collect,
                         struct wake_collect_status *status);

/* Ends the measurement of the core. The timer may still be armed afterwards,
 * but is not armed again. */
void wake_collect_end(struct wake_collect *collect);

#endif
