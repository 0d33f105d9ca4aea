#include "aggregate.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void aggregate_cores(struct aggregate_figures *aggregate,
                     const struct snapshot *snapshot,
                     const struct core_set *set) {
  double mean = 0, squares = 0, least = INFINITY, most = -INFINITY;
  int len = 0;
  aggregate->cores_without_value = 0;
  for (size_t i = 0; i < snapshot->cores_len; i++) {
    const struct core_figures *core = &snapshot->cores[i];
    if (!core->online || !core_set_has(set, core->core))
      continue;
    if (isnan(core->busy)) {
      aggregate->cores_without_value++;
      continue;
    }
    /* Welford: no difference of large squares. */
    double off = core->busy - mean;
    mean += off / ++len;
    squares += off * (core->busy - mean);
    least = fmin(least, core->busy);
    most = fmax(most, core->busy);
  }
  aggregate->cores_len = len;
  aggregate->mean = len > 0 ? mean : NAN;
  aggregate->stddev = len > 0 ? sqrt(fmax(squares / len, 0)) : NAN;
  aggregate->least = len > 0 ? least : NAN;
  aggregate->most = len > 0 ? most : NAN;
}

static int add(struct snapshot *snapshot, const char *name,
               const struct core_set *set) {
  struct aggregate_figures *aggregates =
      realloc(snapshot->aggregates,
              (snapshot->aggregates_len + 1) * sizeof(*aggregates));
  if (aggregates == NULL)
    return -ENOMEM;
  snapshot->aggregates = aggregates;
  struct aggregate_figures *aggregate = &aggregates[snapshot->aggregates_len];
  snprintf(aggregate->name, sizeof(aggregate->name), "%s", name);
  aggregate_cores(aggregate, snapshot, set);
  if (aggregate->cores_len + aggregate->cores_without_value > 0)
    snapshot->aggregates_len++;
  return 0;
}

static int add_numbered(struct snapshot *snapshot, const char *kind, int number,
                        const struct core_set *set) {
  char name[FIGURES_NAME_MAX];
  snprintf(name, sizeof(name), "%s%d", kind, number);
  return add(snapshot, name, set);
}

/* The cores that have this number in a map of the topology. */
static void members(struct core_set *set, const struct topology *topology,
                    const int *number_of, int number) {
  core_set_clear(set);
  for (int core = 0; core < topology->cores_len; core++)
    if (number_of[core] == number && core_set_has(&topology->online, core))
      core_set_add(set, core);
}

/* The smallest number in the map above `after`, or -1. */
static int next_number(const struct topology *topology, const int *number_of,
                       int after) {
  int next = -1;
  for (int core = 0; core < topology->cores_len; core++)
    if (number_of[core] > after && (next < 0 || number_of[core] < next))
      next = number_of[core];
  return next;
}

static bool is_a_node(const struct topology *topology,
                      const struct core_set *package) {
  int core = core_set_next(package, -1);
  struct core_set node;
  if (core < 0 || topology->node[core] < 0)
    return false;
  members(&node, topology, topology->node, topology->node[core]);
  return core_set_equal(&node, package);
}

static int add_nodes_and_packages(struct snapshot *snapshot,
                                  const struct topology *topology) {
  struct core_set set;
  int status = 0;
  for (int node = next_number(topology, topology->node, -1);
       node >= 0 && status == 0;
       node = next_number(topology, topology->node, node)) {
    members(&set, topology, topology->node, node);
    status = add_numbered(snapshot, "node", node, &set);
  }
  for (int package = next_number(topology, topology->package, -1);
       package >= 0 && status == 0;
       package = next_number(topology, topology->package, package)) {
    members(&set, topology, topology->package, package);
    if (!is_a_node(topology, &set))
      status = add_numbered(snapshot, "package", package, &set);
  }
  return status;
}

int aggregate_all(struct snapshot *snapshot, const struct topology *topology,
                  const struct figures_group *groups, size_t groups_len) {
  int status = add(snapshot, "all", &topology->possible);
  if (status == 0 && core_set_next(&topology->isolated, -1) >= 0) {
    struct core_set housekeeping = topology->possible;
    core_set_subtract(&housekeeping, &topology->isolated);
    status = add(snapshot, "isolated", &topology->isolated);
    if (status == 0)
      status = add(snapshot, "housekeeping", &housekeeping);
  }
  if (status == 0)
    status = add_nodes_and_packages(snapshot, topology);
  for (size_t i = 0; i < groups_len && status == 0; i++)
    status = add(snapshot, groups[i].name, &groups[i].cores);
  return status;
}
