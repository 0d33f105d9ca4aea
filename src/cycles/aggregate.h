/* aggregate: mean, extremes and standard deviation of figures over sets of
 * cores. */
#ifndef PERCORE_AGGREGATE_H
#define PERCORE_AGGREGATE_H

#include "figures.h"

/* Computes an aggregate over the cores of the set that are in the snapshot;
 * *aggregate keeps its name. All four figures are NAN if no core has a value.
 */
void aggregate_cores(struct aggregate_figures *aggregate,
                     const struct snapshot *snapshot,
                     const struct core_set *set);

/* The mean of the figure at this offset in struct core_figures, over the online
 * cores that have it; NAN if no core has it. */
double aggregate_mean(const struct snapshot *snapshot, size_t offset);

/* Fills snapshot->aggregates: all; isolated and housekeeping if any core is
 * isolated; node<N>; package<N> unless it equals a node; the groups. Sets that
 * have no core in the snapshot are left out. Returns 0 or -ENOMEM. */
int aggregate_all(struct snapshot *snapshot, const struct topology *topology,
                  const struct figures_group *groups, size_t groups_len);

#endif
