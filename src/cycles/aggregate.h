/* aggregate: the mean, extremes and standard deviation of figures over sets of
 * cores. */
#ifndef PERCORE_AGGREGATE_H
#define PERCORE_AGGREGATE_H

#include "figures.h"

/* Computes the statistics of the online cores in `set` that are in the
 * snapshot. Leaves aggregate->name unchanged. Its figures are NAN if the load
 * is unknown on all of these cores. */
void aggregate_cores(struct aggregate_figures *aggregate,
                     const struct snapshot *snapshot,
                     const struct core_set *set);

/* Returns the mean, over all online cores, of the member at `offset` in struct
 * core_figures. Leaves out cores where the member is NAN. Returns NAN if it is
 * NAN on every core. */
double aggregate_mean(const struct snapshot *snapshot, size_t offset);

/* Fills snapshot->aggregates, anew if they were filled before, with these sets
 * of cores: "all"; if an online core is isolated, "isolated" and
 * "housekeeping"; "node<N>" for each NUMA node; and the configured groups. A
 * set without an online core in the snapshot is left out, and so is one that
 * has all of them, unless it is a group, which somebody asked for by name.
 * Returns 0 or -ENOMEM. */
int aggregate_all(struct snapshot *snapshot, const struct topology *topology,
                  const struct figures_group *groups, size_t groups_len);

#endif
