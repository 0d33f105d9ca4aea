/* region_workers: reads the built-in table `core` of a region: the share of
 * time in which a polling core had work, and which workers are stuck. */
#ifndef PERCORE_PLUGIN_REGION_WORKERS_H
#define PERCORE_PLUGIN_REGION_WORKERS_H

#include "region_snapshot.h"

#include "cycles/figures.h"
#include "cycles/topology.h"
#include "region/worker.h"

/* A worker is stuck if it is awake and has not completed a round of its loop
 * for this long. On a shared core a worker may have to wait for the core for
 * shorter times. */
#define REGION_STUCK_NS UINT64_C(2000000000)

/* One slot of a region. */
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
  const struct core_set *cores; /* that have useful loads; NULL: all */
  uint64_t total[CORES_MAX], busy[CORES_MAX];
  bool asleep[CORES_MAX];   /* a worker on this core sleeps */
  bool per_core[CORES_MAX]; /* reported individually */
  bool host;
};

/* Forgets everything, because there is a new producer. */
void region_workers_reset(struct region_workers *workers);

/* Reads every slot and adds what its worker did since the last reading. What a
 * slot already holds at its first reading is added only if `count` is set.
 * `ended`: the producer is gone, so no worker is stuck. Returns 0 or -ENOMEM.
 */
int region_workers_look(struct region_workers *workers,
                        struct region_reader *reader, uint64_t now_ns,
                        bool count, bool ended, bool per_core,
                        struct region_useful *useful);

/* Gets the cores of workers that became stuck at this reading or, with `were`,
 * are no longer stuck. Returns false if there are none. */
bool region_workers_changed(const struct region_workers *workers, bool were,
                            struct core_set *cores);

/* Returns how many cores have a useful load. */
size_t region_useful_count(const struct region_useful *useful);

/* Puts the useful loads of cores, and of sets of cores (topology and groups),
 * into the snapshot. Returns 0 or -ENOMEM. */
int region_useful_put(const struct region_useful *useful,
                      const struct topology *topology,
                      const struct figures_group *groups, size_t groups_len,
                      struct region_snapshot *snapshot);

#endif
