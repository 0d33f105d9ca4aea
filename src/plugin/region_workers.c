#include "region_workers.h"

#include "region_instance.h"

#include "cycles/aggregate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void region_workers_reset(struct region_workers *workers) {
  free(workers->list);
  *workers = (struct region_workers){0};
}

/* ---------------------------------------------------------------------------
 * Reading slots
 */

static void count_cycles(struct region_worker *worker, const uint64_t *values,
                         bool count, struct region_useful *useful) {
  uint64_t total = values[REGION_CORE_TOTAL] - worker->total_cycles;
  uint64_t busy = values[REGION_CORE_BUSY] - worker->busy_cycles;
  bool sane = (int64_t)total >= 0 && (int64_t)busy >= 0;
  if ((worker->known || count) && sane) {
    useful->total[worker->core] += total;
    useful->busy[worker->core] += busy < total ? busy : total;
  }
  worker->known = true;
  worker->total_cycles = values[REGION_CORE_TOTAL];
  worker->busy_cycles = values[REGION_CORE_BUSY];
}

static void judge(struct region_worker *worker,
                  const struct region_slot_view *slot, const uint64_t *values,
                  uint64_t now_ns, struct region_workers *workers) {
  uint64_t still_ns =
      region_worker_still_ns(&worker->pulse, slot, values, now_ns);
  worker->was_stuck = worker->stuck;
  worker->stuck = still_ns >= REGION_STUCK_NS;
  workers->polling += region_worker_polls(slot, values) && !slot->asleep;
  workers->stuck += worker->stuck;
}

static void look_at(struct region_workers *workers, uint32_t s,
                    struct region_reader *reader, uint64_t now_ns, bool count,
                    bool per_core, struct region_useful *useful) {
  struct region_worker *worker = &workers->list[s];
  struct region_slot_view slot;
  uint64_t values[REGION_CORE_MAX_COLUMNS];
  region_reader_slot(reader, s, &slot);
  if (slot.state == REGION_FREE || slot.core < 0 || slot.core >= CORES_MAX ||
      region_reader_slot_row(reader, 0, 0, s, values) < 0) {
    *worker = (struct region_worker){0};
    return;
  }
  if (worker->core != slot.core)
    *worker = (struct region_worker){.core = slot.core};
  bool polls = values[REGION_CORE_POLLS] != 0;
  count_cycles(worker, values, count, useful);
  judge(worker, &slot, values, now_ns, workers);
  if (slot.state == REGION_LIVE && polls && slot.asleep)
    useful->asleep[slot.core] = true;
  if (polls && per_core)
    useful->per_core[slot.core] = true;
}

int region_workers_look(struct region_workers *workers,
                        struct region_reader *reader, uint64_t now_ns,
                        bool count, bool ended, bool per_core,
                        struct region_useful *useful) {
  uint32_t slots = region_reader_slots(reader);
  if (workers->len != slots) {
    region_workers_reset(workers);
    workers->list = calloc(slots, sizeof(*workers->list));
    if (workers->list == NULL)
      return -ENOMEM;
    workers->len = slots;
  }
  workers->polling = workers->stuck = 0;
  for (uint32_t s = 0; s < slots; s++)
    look_at(workers, s, reader, now_ns, count, per_core, useful);
  if (ended)
    workers->polling = workers->stuck = 0;
  return 0;
}

bool region_workers_changed(const struct region_workers *workers, bool were,
                            struct core_set *cores) {
  core_set_clear(cores);
  for (uint32_t s = 0; s < workers->len; s++) {
    const struct region_worker *worker = &workers->list[s];
    if (worker->stuck != worker->was_stuck && worker->was_stuck == were)
      core_set_add(cores, worker->core);
  }
  return core_set_next(cores, -1) >= 0;
}

/* ---------------------------------------------------------------------------
 * Useful load
 */

/* Returns the useful load, 0 to 1, or NAN if no worker polls on the core or the
 * core is not measured. How long a worker sleeps is known only when it wakes;
 * until then its useful load is 0. */
static double useful_load(const struct region_useful *useful, int core) {
  if (useful->cores != NULL && !core_set_has(useful->cores, core))
    return NAN;
  if (useful->total[core] > 0)
    return (double)useful->busy[core] / (double)useful->total[core];
  return useful->asleep[core] ? 0 : NAN;
}

size_t region_useful_count(const struct region_useful *useful) {
  size_t count = 0;
  for (int core = 0; core < CORES_MAX; core++)
    count += !isnan(useful_load(useful, core));
  return count;
}

static void put_percent(value_list_t *list, const char *name, double share) {
  region_put_gauge(list, "percent", name, share >= 1 ? 100 : share * 100);
}

void region_useful_put(const struct region_useful *useful,
                       const struct region_watch *watch) {
  value_list_t list;
  struct snapshot loads = {
      .cores = calloc(region_useful_count(useful), sizeof(*loads.cores))};
  if (loads.cores == NULL)
    return;
  for (int core = 0; core < CORES_MAX; core++) {
    char number[16];
    double load = useful_load(useful, core);
    if (isnan(load))
      continue;
    loads.cores[loads.cores_len++] =
        (struct core_figures){.core = core, .online = true, .busy = load};
    snprintf(number, sizeof(number), "%d", core);
    region_put_begin(watch, &list, "percore", number);
    if (useful->per_core[core])
      put_percent(&list, "useful", load);
  }
  if (useful->host)
    (void)aggregate_all(&loads, &watch->topology, watch->options.groups,
                        watch->options.groups_len);
  for (size_t i = 0; i < loads.aggregates_len; i++) {
    const struct aggregate_figures *aggregate = &loads.aggregates[i];
    if (aggregate->cores_len == 0)
      continue;
    region_put_begin(watch, &list, "percore_host", aggregate->name);
    put_percent(&list, "cores_useful_mean", aggregate->mean);
    put_percent(&list, "cores_useful_min", aggregate->min);
    put_percent(&list, "cores_useful_max", aggregate->max);
    put_percent(&list, "cores_useful_stddev", aggregate->stddev);
  }
  free(loads.aggregates);
  free(loads.cores);
}
