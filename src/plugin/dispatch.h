/* dispatch: turns a snapshot of the cores into value lists. dispatch.c defines
 * the identifiers of all values except those of regions. */
#ifndef PERCORE_PLUGIN_DISPATCH_H
#define PERCORE_PLUGIN_DISPATCH_H

#include "region_workers.h"
#include "wake_sampler.h"

#include "utils_complain.h"

/* Before the first call, set `config` and `interval`, and set all other members
 * to 0. */
struct dispatch {
  const struct config *config;
  cdtime_t interval;           /* of every value */
  cdtime_t last;               /* timestamp of the last dispatched snapshot */
  uint64_t snapshots_withheld; /* withheld since start, because not newer than
                                  `last` */
  bool source_seen[SOURCES]; /* sources that have measured a core since start */
  /* Wake latencies to dispatch with the next snapshot, or NULL. */
  const struct wake_figures *wake;
  c_complain_t backwards;
};

/* Dispatches the figures that are known and enabled. Withholds a snapshot that
 * is not newer than the previous snapshot, because collectd's cache would
 * refuse its values but some writers would not. */
void dispatch_snapshot(struct dispatch *dispatch,
                       const struct snapshot *snapshot);

#endif
