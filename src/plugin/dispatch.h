/* dispatch: a snapshot becomes value lists. Every identifier of percore is in
 * the tables of dispatch.c and nowhere else. */
#ifndef PERCORE_PLUGIN_DISPATCH_H
#define PERCORE_PLUGIN_DISPATCH_H

#include "config.h"

#include "utils_complain.h"

/* Zeroed, but for config and interval, before the first snapshot. */
struct dispatch {
  const struct config *config;
  cdtime_t interval;           /* of every value */
  cdtime_t last;               /* time of the newest snapshot dispatched */
  uint64_t values_dropped;     /* beyond MaxValues, since start */
  uint64_t snapshots_withheld; /* not newer than `last`, since start */
  bool source_seen[SOURCES];   /* served a core since start */
  c_complain_t too_many;
  c_complain_t backwards;
};

/* Dispatches all that is known and asked for, once. What is not known is left
 * out; nothing is dispatched whose time is not after that of the snapshot
 * before, because collectd would refuse it and writers would not.
 *
 * Beyond MaxValues the least important go first: the loads of the cores are
 * the last to be left out. Returns how many more values the caller may
 * dispatch in this interval. */
size_t dispatch_snapshot(struct dispatch *dispatch,
                         const struct snapshot *snapshot);

#endif
