#include "aggregate.h"

#include "base/array.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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

/* Sets *set to the online cores whose entry in number_of[] is `number`.
 * number_of[] is topology->node or topology->package. */
static void members(struct core_set *set, const struct topology *topology,
                    const int *number_of, int number) {
  core_set_clear(set);
  for (int core = 0; core < topology->cores_len; core++)
    if (number_of[core] == number && core_set_has(&topology->online, core))
      core_set_add(set, core);
}

/* Returns the smallest node or package number in number_of[] that is greater
 * than `after`, or -1 if no number is greater. */
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

/* Adds an aggregate for each node or package in number_of[], except for
 * packages that consist of the same cores as a node. */
static int add_each(struct snapshot *snapshot, const struct topology *topology,
                    const int *number_of, const char *kind) {
  char name[FIGURES_NAME_MAX];
  struct core_set set;
  int number = -1, status = 0;
  while (status == 0 &&
         (number = next_number(topology, number_of, number)) >= 0) {
    members(&set, topology, number_of, number);
    snprintf(name, sizeof(name), "%s%d", kind, number);
    if (number_of == topology->node || !is_a_node(topology, &set))
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
    status = add_each(snapshot, topology, topology->node, "node");
  if (status == 0)
    status = add_each(snapshot, topology, topology->package, "package");
  for (size_t i = 0; i < groups_len && status == 0; i++)
    status = add(snapshot, groups[i].name, &groups[i].cores, true);
  return status;
}
