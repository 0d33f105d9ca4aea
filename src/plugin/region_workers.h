/* region_workers: the useful loads of cores, from what the workers of all
 * regions did (region/worker.h), and which workers are stuck. */
#ifndef PERCORE_PLUGIN_REGION_WORKERS_H
#define PERCORE_PLUGIN_REGION_WORKERS_H

#include "cycles/figures.h"
#include "cycles/topology.h"
#include "region/worker.h"

#include <pthread.h>

/* A worker is stuck if it is awake and has not called percore_poll for this
 * long. The time is long because a worker may have to wait for a core that it
 * shares. */
#define REGION_STUCK_NS UINT64_C(2000000000)

/* The useful load of a core is the sum of the shares of wall time in which each
 * of its workers was useful, over the workers of all regions. */
struct region_useful {
  const struct core_set *cores; /* whose useful loads are reported; NULL: all */
  uint64_t since_tsc, now_tsc;  /* of percore_tsc: this interval's bounds */
  int end;                      /* the cores below are set */
  struct region_useful_core {
    double load, polled_empty;
    bool known, per_core; /* per_core: the core is reported individually */
  } core[CORES_MAX];
  bool host;
};

/* The share of each core's time in which workers polled and found nothing. The
 * thread of regions sets it; the sampler's thread adds it to the room. */
struct empty_polls {
  pthread_mutex_t lock;
  uint64_t stamp_ns; /* CLOCK_REALTIME: of the values below; 0: none */
  int end;           /* the cores below are set */
  double polled_empty[CORES_MAX];
};

/* Adds the empty polls to the room of each core, and returns true; or false if
 * no worker polls on this host. Empty polls that were told more than three
 * intervals before or after the snapshot are not used. Any thread may call
 * this. */
bool empty_polls_add(struct empty_polls *polls, struct snapshot *snapshot);

struct region_watch;

/* Forgets the loads of the last interval. */
void region_useful_begin(struct region_useful *useful,
                         const struct core_set *cores);

/* Adds the shares of a region's workers. */
void region_useful_add(struct region_useful *useful,
                       const struct region_workers *workers, bool per_core);

/* Hands the empty polls over to the loads. */
void region_useful_tell(const struct region_useful *useful, uint64_t stamp_ns,
                        struct empty_polls *polls);

/* Dispatches the useful loads of cores, and of sets of cores (topology and
 * groups). Call this if `end` is not 0. */
void region_useful_put(const struct region_useful *useful,
                       struct region_watch *watch);

/* Adds how many workers are attached and awake, and how many of these are
 * stuck. */
void region_workers_count(const struct region_workers *workers, int *polling,
                          int *stuck);

/* Writes the cores of workers that became stuck at this reading or, if `were`
 * is set, the cores of workers that are no longer stuck. Returns false if there
 * are no such workers; those without a core are not in the set. */
bool region_workers_changed(const struct region_workers *workers, bool were,
                            struct core_set *cores);

#endif
