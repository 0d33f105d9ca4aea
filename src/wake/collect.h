/* collect: measures how fast one core wakes. */
#ifndef PERCORE_WAKE_COLLECT_H
#define PERCORE_WAKE_COLLECT_H

#include "classify.h"

enum wake_method {
  WAKE_BPF_TIMER, /* arms a BPF timer; no task runs on the core */
  WAKE_THREAD,    /* a thread pinned to the core waits for the timer */
  WAKE_PASSIVE,   /* arms nothing; uses the timers that wake the core anyway */
  WAKE_USER       /* a thread without BPF; measures UserLatency only */
};

/* "bpf-timer". */
const char *wake_method_name(enum wake_method method);

struct wake_collect_options {
  int core;
  enum wake_method method;
  uint64_t distance_min_ns, distance_max_ns; /* from arming to LTime */
  uint64_t pause_ns;                         /* between two events */
};

struct wake_collect;

/* Loads and attaches the BPF programs and starts measuring. WAKE_USER needs no
 * rights; the other methods need CAP_BPF and CAP_PERFMON. -EINVAL for
 * WAKE_BPF_TIMER: the kernel has no BPF timers. */
int wake_collect_open(struct wake_collect **collect,
                      const struct wake_collect_options *options,
                      char why[WAKE_WHY_SIZE]);

/* Collects the events since the last call. Call it at least ten times a second.
 * Returns 0, or a negative errno with `why`. */
int wake_collect_poll(struct wake_collect *collect, char why[WAKE_WHY_SIZE]);

struct wake_collect_status {
  uint64_t armed; /* events */
  uint64_t drops[WAKE_DROPS];
  uint64_t overrun; /* events lost because they were collected too late */
  size_t held;      /* datapoints held back, see classify.h */
  bool has_idles;   /* false with WAKE_USER */
  uint64_t idles;   /* idle states entered, counted by the BPF programs */
  int64_t usage;    /* the same, counted by cpuidle; -1: no cpuidle driver */
};

/* The datapoints so far, owned by the collector. */
const struct wake_points *
wake_collect_points(const struct wake_collect *collect);
void wake_collect_status(const struct wake_collect *collect,
                         struct wake_collect_status *status);

/* Ends the measurement and frees everything. NULL is ignored. */
void wake_collect_close(struct wake_collect *collect);

#endif
