/* region_dispatch: dispatches a snapshot of the regions as value lists and
 * notifications. */
#ifndef PERCORE_PLUGIN_REGION_DISPATCH_H
#define PERCORE_PLUGIN_REGION_DISPATCH_H

#include "config.h"
#include "region_snapshot.h"

#include "utils_complain.h"

/* Before the first snapshot, config and interval must be set, and all other
 * members must be zero. */
struct region_dispatch {
  const struct config *config;
  cdtime_t interval;       /* of all values */
  cdtime_t last;           /* timestamp of the last dispatched snapshot */
  uint64_t last_number;    /* number of the last dispatched snapshot */
  uint64_t before_it;      /* see struct region_outlet */
  uint64_t values_dropped; /* left out by the last call because of MaxValues */
  c_complain_t too_many;
  c_complain_t memory_short;
};

/* Logs a snapshot's events and sends them as notifications. Then dispatches its
 * values, unless the snapshot is not newer than the last dispatched snapshot.
 * Dispatches at most `values_max` values: those of single cores are cut first,
 * then those of the host, then useful loads, then percore's own. */
void region_dispatch_snapshot(struct region_dispatch *dispatch,
                              const struct region_snapshot *snapshot,
                              size_t values_max);

#endif
