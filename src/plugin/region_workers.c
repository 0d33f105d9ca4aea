#include "region_workers.h"

#include "put.h"
#include "regions.h"

#include "cycles/aggregate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------
 * Stuck workers
 */

static bool is_stuck(const struct region_worker *worker) {
  return worker->still_ns >= REGION_STUCK_NS;
}

void region_workers_count(const struct region_workers *workers, int *polling,
                          int *stuck) {
  for (uint32_t s = 0; s < workers->len; s++) {
    const struct region_worker *worker = &workers->list[s];
    *polling += worker->slot.state == REGION_LIVE && worker->polls &&
                worker->slot.asleep_tsc == 0;
    *stuck += is_stuck(worker);
  }
}

bool region_workers_changed(const struct region_workers *workers, bool were,
                            struct core_set *cores) {
  bool changed = false;
  core_set_clear(cores);
  for (uint32_t s = 0; s < workers->len; s++) {
    const struct region_worker *worker = &workers->list[s];
    bool was_stuck = worker->was_still_ns >= REGION_STUCK_NS;
    if (is_stuck(worker) == was_stuck || was_stuck != were)
      continue;
    changed = true;
    core_set_add(cores, worker->slot.core); /* unless it counts for no core */
  }
  return changed;
}

/* ---------------------------------------------------------------------------
 * Useful load
 */

void region_useful_begin(struct region_useful *useful,
                         const struct core_set *cores) {
  memset(useful->core, 0, (size_t)useful->end * sizeof(useful->core[0]));
  useful->cores = cores;
  useful->since_tsc = useful->now_tsc;
  useful->now_tsc = percore_tsc();
  useful->end = 0;
  useful->host = false;
}

void region_useful_add(struct region_useful *useful,
                       const struct region_workers *workers, bool per_core) {
  for (uint32_t s = 0; s < workers->len; s++) {
    const struct region_worker *worker = &workers->list[s];
    int core = worker->slot.core;
    if (worker->slot.state == REGION_FREE || isnan(worker->useful) ||
        core < 0 || core >= CORES_MAX ||
        (useful->cores != NULL && !core_set_has(useful->cores, core)))
      continue;
    useful->core[core].load += worker->useful;
    useful->core[core].polled_empty += worker->polled_empty;
    useful->core[core].known = true;
    useful->core[core].per_core |= per_core;
    useful->end = core >= useful->end ? core + 1 : useful->end;
  }
}

void region_useful_tell(const struct region_useful *useful, uint64_t stamp_ns,
                        struct empty_polls *polls) {
  pthread_mutex_lock(&polls->lock);
  polls->stamp_ns = useful->end > 0 ? stamp_ns : 0;
  polls->end = useful->end;
  for (int core = 0; core < useful->end; core++)
    polls->polled_empty[core] = useful->core[core].polled_empty;
  pthread_mutex_unlock(&polls->lock);
}

bool empty_polls_add(struct empty_polls *polls, struct snapshot *snapshot) {
  enum { MAX_AGE_INTERVALS = 3 };
  uint64_t max_age_ns = MAX_AGE_INTERVALS * snapshot->interval_ns;
  pthread_mutex_lock(&polls->lock);
  uint64_t age_ns = snapshot->time_ns - polls->stamp_ns;
  bool is_known =
      polls->stamp_ns != 0 && (age_ns <= max_age_ns || -age_ns <= max_age_ns);
  for (size_t i = 0; is_known && i < snapshot->cores_len; i++) {
    struct core_figures *core = &snapshot->cores[i];
    if (core->core < polls->end)
      core->room = more_room(core->room, polls->polled_empty[core->core]);
  }
  pthread_mutex_unlock(&polls->lock);
  return is_known;
}

/* Workers may claim any core. */
static bool has_core(struct region_watch *watch, int core) {
  bool exists = core_set_has(&watch->topology.possible, core);
  if (!exists)
    region_warn(region_about_host(watch),
                "this host does not have core %d, for which a worker of a "
                "region counts: it has no useful load. `percore top REGION -t "
                "core` shows the workers.",
                core);
  return exists;
}

/* The sum of honest shares exceeds 1 a little if rounds end late. */
static double at_most_one(double load, int core, struct region_watch *watch) {
  enum { TOLERANCE_PERCENT = 110 };
  if (load * 100 > TOLERANCE_PERCENT)
    region_warn(region_about_host(watch),
                "the workers of core %d were useful for %.0f %% of its time; "
                "100 %% is reported. A thread that counts for a core must be "
                "pinned to it, and pass times of percore_tsc to "
                "percore_poll. `percore top REGION -t core` shows the "
                "workers.",
                core, load * 100);
  return load < 1 ? load : 1;
}

/* Collects the useful loads of all measured cores, so that a set is left out
 * that equals the set of all cores, not of those that poll. */
static void collect_useful(struct snapshot *loads,
                           const struct region_useful *useful,
                           struct region_watch *watch) {
  struct core_set cores = watch->topology.online;
  if (useful->cores != NULL)
    core_set_intersect(&cores, useful->cores);
  for (int core = 0; core < useful->end; core++)
    if (useful->core[core].known && has_core(watch, core))
      core_set_add(&cores, core);
  core_set_for_each(core, &cores) loads->cores[loads->cores_len++] =
      (struct core_figures){
          .core = core,
          .online = true,
          .load = core < useful->end && useful->core[core].known
                      ? at_most_one(useful->core[core].load, core, watch)
                      : NAN};
}

void region_useful_put(const struct region_useful *useful,
                       struct region_watch *watch) {
  value_list_t list = {.time = NS_TO_CDTIME_T(watch->now.stamp_ns)};
  struct snapshot loads = {
      .cores = calloc((size_t)watch->topology.cores_len, sizeof(*loads.cores))};
  if (loads.cores == NULL)
    return;
  collect_useful(&loads, useful, watch);
  for (size_t i = 0; i < loads.cores_len; i++) {
    int core = loads.cores[i].core;
    char number[16];
    snprintf(number, sizeof(number), "%d", core);
    put_subject(&list, PLUGIN_CORE, number);
    if (core < useful->end && useful->core[core].per_core)
      put_gauge(&list, "percent", "useful", loads.cores[i].load * 100);
  }
  if (useful->host)
    (void)aggregate_all(&loads, &watch->topology, watch->options.config->groups,
                        watch->options.config->groups_len);
  for (size_t i = 0; i < loads.aggregates_len; i++) {
    const struct aggregate_figures *aggregate = &loads.aggregates[i];
    put_subject(&list, PLUGIN_HOST, aggregate->name);
    put_gauge(&list, "percent", "useful_mean", aggregate->load.mean * 100);
  }
  free(loads.aggregates);
  free(loads.cores);
}
