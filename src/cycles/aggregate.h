/* aggregate: mean, extremes and spread of loads over sets of cores. */
#ifndef PERCORE_AGGREGATE_H
#define PERCORE_AGGREGATE_H

#include "figures.h"

/* Over the cores of the set that the snapshot has; *aggregate keeps its name.
 * Without any value all four figures are NAN. */
void aggregate_cores(struct aggregate_figures *aggregate,
                     const struct snapshot *snapshot,
                     const struct core_set *set);

/* Fills snapshot->aggregates: all; isolated and housekeeping where any core is
 * isolated; node<N>; package<N> unless it is just a node; the groups. Sets with
 * none of the snapshot's cores are left out. Returns 0 or -ENOMEM. */
int aggregate_all(struct snapshot *snapshot, const struct topology *topology,
                  const struct figures_group *groups, size_t groups_len);

#endif
