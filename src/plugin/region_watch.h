/* region_watch: the regions of this host over time: which producers they have,
 * what they have counted, and when they come and go. The caller decides
 * when a round begins and how to wait. */
#ifndef PERCORE_PLUGIN_REGION_WATCH_H
#define PERCORE_PLUGIN_REGION_WATCH_H

#include "config.h"

/* All pointers must stay valid as long as the watch exists. */
struct region_watch_options {
  const struct config *config;
  uint64_t interval_ns;
  struct empty_polls *empty_polls; /* where to tell empty polls */
  bool (*is_wanted)(void *argument);
  /* Returns the CLOCK_MONOTONIC time. If NULL, reading is assumed to take no
   * time. */
  uint64_t (*now_ns)(void *argument);
  /* Returns how long the calling thread has run. NULL: as now_ns. */
  uint64_t (*worked_ns)(void *argument);
  void *argument;
};

struct region_moment {
  uint64_t stamp_ns; /* CLOCK_REALTIME: timestamp of the values */
  uint64_t monotonic_ns, boottime_ns;
};

struct region_watch;

/* Creates a watch, which opens its first regions in the first round. Producers
 * that have started an interval before began_boottime_ns or earlier may have
 * been read before; what they have counted so far is not reported. The watch is
 * in use until the process ends. Returns NULL if out of memory. */
struct region_watch *
region_watch_new(const struct region_watch_options *options,
                 uint64_t began_boottime_ns);

/* Runs a round: finds the producers, reads all regions, and dispatches their
 * values with the interval of the thread's context, unless the clock was set
 * back to before the last values. */
void region_watch_round(struct region_watch *watch,
                        const struct region_moment *now);

/* If there is nothing to read or to dispatch unless the directory says that
 * something has changed, or REGION_LIST_NS have passed, returns the descriptor
 * of its notices; otherwise -1. */
#define REGION_LIST_NS UINT64_C(60000000000)
int region_watch_rests(const struct region_watch *watch);

#endif
