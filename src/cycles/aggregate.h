/* aggregate: the mean, extremes and standard deviation of figures over sets of
 * cores. */
#ifndef PERCORE_AGGREGATE_H
#define PERCORE_AGGREGATE_H

#include "figures.h"

/* Computes an aggregate over those cores of the set that are in the snapshot,
 * and leaves its name unchanged. All four figures are NAN if no core has a
 * value. */
void aggregate_cores(struct aggregate_figures *aggregate,
                     const struct snapshot *snapshot,
                     const struct core_set *set);

/* `offset` selects a member of struct core_figures. Returns the mean of this
 * member over the online cores that have a value, or NAN if no core has one. */
double aggregate_mean(const struct snapshot *snapshot, size_t offset);

/* Fills snapshot->aggregates with: all; isolated and housekeeping, if any core
 * is isolated; node<N>; package<N>, unless it equals a node; and the groups.
 * Leaves out sets without a core in the snapshot. Returns 0 or -ENOMEM. */
int aggregate_all(struct snapshot *snapshot, const struct topology *topology,
                  const struct figures_group *groups, size_t groups_len);

#endif
