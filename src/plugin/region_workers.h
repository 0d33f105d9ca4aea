/* region_workers: what the built-in table `core` of a region tells: how much of
 * its time a polling core had work, and which workers stand still. */
#ifndef PERCORE_PLUGIN_REGION_WORKERS_H
#define PERCORE_PLUGIN_REGION_WORKERS_H

#include "region_snapshot.h"

#include "cycles/figures.h"
#include "cycles/topology.h"
#include "region/worker.h"

/* A worker that is awake and has not been round its loop for as long is stuck;
 * on a core that it shares it may just be waiting for its turn until then. */
#define REGION_STUCK_NS UINT64_C(2000000000)

/* One slot of a region. */
struct region_worker {
  bool known; /* the totals are those of the last look */
  uint64_t total_cycles, busy_cycles;
  struct region_pulse pulse;
  int core;
  bool stuck, was_stuck; /* now, at the last look */
};

struct region_workers {
  struct region_worker *list;
  uint32_t len;
  int polling, stuck; /* attached and awake; of these */
};

/* Cycles of one interval, over all regions. */
struct region_useful {
  uint64_t total[CORES_MAX], busy[CORES_MAX];
  bool asleep[CORES_MAX];   /* a worker there sleeps */
  bool per_core[CORES_MAX]; /* asked for */
  bool host;
};

/* Forgets all; another producer has come. */
void region_workers_reset(struct region_workers *workers);

/* Looks at every slot and adds what it did since the last look. What a slot
 * holds at the first look counts only with `count`. `ended`: the producer is
 * gone, so nobody is stuck. Returns 0, or -1 if out of memory. */
int region_workers_look(struct region_workers *workers,
                        struct region_reader *reader, uint64_t now_ns,
                        bool count, bool ended, bool per_core,
                        struct region_useful *useful);

/* The cores of workers that are (or, with `were`, are no longer) stuck since
 * this look; false if there are none. */
bool region_workers_changed(const struct region_workers *workers, bool were,
                            struct core_set *cores);

/* Puts useful loads of cores, and of the sets of cores that the topology and
 * the groups make, into the snapshot. Returns 0 or -ENOMEM. */
int region_useful_put(const struct region_useful *useful,
                      const struct topology *topology,
                      const struct figures_group *groups, size_t groups_len,
                      struct region_snapshot *snapshot);

/* Whether any core has a useful load. */
bool region_useful_any(const struct region_useful *useful);

#endif
