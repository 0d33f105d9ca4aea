#include "aggregate.h"

#include "base/array.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

/* Computes the statistics of the member at `offset` in struct core_figures over
 * the online cores in `set` (NULL: all) where the member is not NAN. Returns
 * how many cores the statistics cover. */
static int spread(struct spread_figures *figures,
                  const struct snapshot *snapshot, const struct core_set *set,
                  size_t offset) {
  double mean = 0, squares = 0, min = INFINITY, max = -INFINITY;
  int len = 0;
  for (size_t i = 0; i < snapshot->cores_len; i++) {
    const struct core_figures *core = &snapshot->cores[i];
    double value = *(const double *)((const char *)core + offset);
    if (!core->online || isnan(value) ||
        (set != NULL && !core_set_has(set, core->core)))
      continue;
    /* Welford's method avoids the rounding error that would arise if large
     * squares were subtracted. */
    double off = value - mean;
    mean += off / ++len;
    squares += off * (value - mean);
    min = fmin(min, value);
    max = fmax(max, value);
  }
  *figures = (struct spread_figures){NAN, NAN, NAN, NAN};
  if (len > 0)
    *figures =
        (struct spread_figures){mean, min, max, sqrt(fmax(squares / len, 0))};
  return len;
}

static int online_cores(const struct snapshot *snapshot,
                        const struct core_set *set) {
  int online = 0;
  for (size_t i = 0; i < snapshot->cores_len; i++)
    online +=
        snapshot->cores[i].online && core_set_has(set, snapshot->cores[i].core);
  return online;
}

void aggregate_cores(struct aggregate_figures *aggregate,
                     const struct snapshot *snapshot,
                     const struct core_set *set) {
  aggregate->cores_len = spread(&aggregate->load, snapshot, set,
                                offsetof(struct core_figures, load));
  aggregate->cores_without_value =
      online_cores(snapshot, set) - aggregate->cores_len;
  spread(&aggregate->room, snapshot, set, offsetof(struct core_figures, room));
  for (int i = 0; i < TIMES; i++)
    spread(&aggregate->time[i], snapshot, set,
           offsetof(struct core_figures, time) + (size_t)i * sizeof(double));
}

double aggregate_mean(const struct snapshot *snapshot, size_t offset) {
  struct spread_figures figures;
  spread(&figures, snapshot, NULL, offset);
  return figures.mean;
}

/* A set that has the same cores as the first, "all", is left out unless it is
 * `asked_for`. Returns 0 or -ENOMEM. */
static int add(struct snapshot *snapshot, const char *name,
               const struct core_set *set, bool asked_for) {
  const struct aggregate_figures *all = snapshot->aggregates;
  size_t len = snapshot->aggregates_len;
  int online = online_cores(snapshot, set);
  if (online == 0 ||
      (!asked_for && online == all->cores_len + all->cores_without_value))
    return 0;
  if (!array_resize(&snapshot->aggregates, len + 1,
                    sizeof(*snapshot->aggregates)))
    return -ENOMEM;
  struct aggregate_figures *aggregate = &snapshot->aggregates[len];
  snprintf(aggregate->name, sizeof(aggregate->name), "%s", name);
  aggregate_cores(aggregate, snapshot, set);
  snapshot->aggregates_len++;
  return 0;
}

/* Returns the smallest node that is greater than `after`, or -1 if no node is
 * greater. */
static int next_node(const struct topology *topology, int after) {
  int next = -1;
  for (int core = 0; core < topology->cores_len; core++) {
    int node = topology->node[core];
    if (node > after && (next < 0 || node < next))
      next = node;
  }
  return next;
}

static int add_nodes(struct snapshot *snapshot,
                     const struct topology *topology) {
  int node = -1, status = 0;
  while (status == 0 && (node = next_node(topology, node)) >= 0) {
    char name[FIGURES_NAME_MAX];
    struct core_set set = {0};
    for (int core = 0; core < topology->cores_len; core++)
      if (topology->node[core] == node)
        core_set_add(&set, core);
    snprintf(name, sizeof(name), "node%d", node);
    status = add(snapshot, name, &set, false);
  }
  return status;
}

int aggregate_all(struct snapshot *snapshot, const struct topology *topology,
                  const struct figures_group *groups, size_t groups_len) {
  snapshot->aggregates_len = 0;
  int status = add(snapshot, "all", &topology->possible, true);
  if (status == 0 && topology_any_isolated(topology)) {
    struct core_set housekeeping = topology->possible;
    core_set_subtract(&housekeeping, &topology->isolated);
    status = add(snapshot, "isolated", &topology->isolated, false);
    if (status == 0)
      status = add(snapshot, "housekeeping", &housekeeping, false);
  }
  if (status == 0)
    status = add_nodes(snapshot, topology);
  for (size_t i = 0; i < groups_len && status == 0; i++)
    status = add(snapshot, groups[i].name, &groups[i].cores, true);
  return status;
}
