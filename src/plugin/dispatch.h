/* dispatch: turns a snapshot of the cores into value lists. dispatch.c defines
 * the identifiers of all values except those of regions and wake latency. */
#ifndef PERCORE_PLUGIN_DISPATCH_H
#define PERCORE_PLUGIN_DISPATCH_H

#include "config.h"

#include "utils_complain.h"

/* Before the first call, set `config`, and set all other members to 0. */
struct dispatch {
  const struct config *config;
  cdtime_t last;               /* timestamp of the last dispatched snapshot */
  uint64_t snapshots_withheld; /* withheld since start, because not newer than
                                  `last` */
  bool source_seen[SOURCES]; /* sources that have measured a core since start */
  c_complain_t backwards;
};

/* Dispatches the figures that are known and enabled, with the interval of the
 * thread's context. Withholds a snapshot that is not newer than the previous
 * snapshot, because collectd's cache would refuse its values but some writers
 * would not; returns false. */
bool dispatch_snapshot(struct dispatch *dispatch,
                       const struct snapshot *snapshot);

#endif
