/* region_dispatch: a snapshot of the regions becomes value lists and
 * notifications. */
#ifndef PERCORE_PLUGIN_REGION_DISPATCH_H
#define PERCORE_PLUGIN_REGION_DISPATCH_H

#include "config.h"
#include "region_snapshot.h"

#include "utils_complain.h"

/* Zeroed, but for config and interval, before the first snapshot. */
struct region_dispatch {
  const struct config *config;
  cdtime_t interval;       /* of every value */
  cdtime_t last;           /* time of the newest snapshot dispatched */
  uint64_t last_number;    /* the same of the snapshot's number */
  uint64_t before_it;      /* see struct region_outlet */
  uint64_t values_dropped; /* by the last call, beyond MaxValues */
  c_complain_t too_many;
  c_complain_t memory_short;
};

/* Dispatches and tells everything, once; nothing whose time is not after that
 * of the snapshot before. At most values_max values: beyond them those of
 * single cores are left out first, then those of the host, then useful loads,
 * then percore's own. */
void region_dispatch_snapshot(struct region_dispatch *dispatch,
                              const struct region_snapshot *snapshot,
                              size_t values_max);

#endif
