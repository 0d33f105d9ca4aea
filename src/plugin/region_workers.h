/* region_workers: reads the built-in table `core` of a region: the share of
 * time in which a polling core had work, and which workers are stuck. */
#ifndef PERCORE_PLUGIN_REGION_WORKERS_H
#define PERCORE_PLUGIN_REGION_WORKERS_H

#include "cycles/figures.h"
#include "cycles/topology.h"
#include "region/worker.h"

/* A worker is stuck if it is awake and has not completed a round of its loop
 * for this long. The time is long because a worker may have to wait for a core
 * that it shares. */
#define REGION_STUCK_NS UINT64_C(2000000000)

/* The worker of one slot of a region. */
struct region_worker {
  bool known; /* the totals are those of the last reading */
  uint64_t total_cycles, busy_cycles;
  struct region_pulse pulse;
  int core;
  bool stuck, was_stuck; /* now, and at the last reading */
};

struct region_workers {
  struct region_worker *list;
  uint32_t len;
  int polling, stuck; /* how many workers are attached and awake, and how many
                         of these are stuck */
};

/* Cycles of one interval, summed over all regions. */
struct region_useful {
  const struct core_set *cores; /* whose useful loads are reported; NULL: all */
  uint64_t total[CORES_MAX], busy[CORES_MAX];
  bool asleep[CORES_MAX];   /* a worker on this core sleeps */
  bool per_core[CORES_MAX]; /* reported individually */
  bool host;
};

/* Forgets all workers. Call this for a new producer. */
void region_workers_reset(struct region_workers *workers);

/* Reads every slot and adds its worker's cycles since the last reading to
 * `useful`. The cycles that a slot already holds at its first reading are added
 * only if `count` is set. If `ended` is set, the producer is gone, so no worker
 * is stuck. If per_core is set, the useful loads of single cores are reported.
 * Returns 0 or -ENOMEM. */
int region_workers_look(struct region_workers *workers,
                        struct region_reader *reader, uint64_t now_ns,
                        bool count, bool ended, bool per_core,
                        struct region_useful *useful);

/* Writes the cores of workers that became stuck at this reading or, if `were`
 * is set, the cores of workers that are no longer stuck. Returns false if there
 * are none. */
bool region_workers_changed(const struct region_workers *workers, bool were,
                            struct core_set *cores);

/* Returns how many cores have a useful load. */
size_t region_useful_count(const struct region_useful *useful);

struct region_watch;

/* Dispatches the useful loads of cores, and of sets of cores (topology and
 * groups). */
void region_useful_put(const struct region_useful *useful,
                       const struct region_watch *watch);

#endif
