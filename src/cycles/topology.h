/* topology: which cores there are and how they belong together. */
#ifndef PERCORE_TOPOLOGY_H
#define PERCORE_TOPOLOGY_H

#include "core_set.h"
#include "machine.h"

#define TOPOLOGY_NODES_MAX 1024

struct topology {
  struct core_set possible;
  struct core_set online;
  /* Cores taken from the scheduler or from the tick: isolcpus=, nohz_full= and
   * isolated partitions of cgroup v2. */
  struct core_set isolated;
  bool hypervisor; /* the CPU says that it is virtual */
  bool tsc_steady; /* clocksource tsc, constant_tsc and nonstop_tsc */
  int cores_len;   /* highest possible core + 1 */
  /* By core number, -1 where unknown. */
  int *node;
  int *package;
  /* A sibling: another hardware thread of the same physical core; the first
   * after this one, going round; -1 if there is none. */
  int *sibling;
};

/* Reads everything. What a file that is missing would have told stays unknown;
 * only without any way to learn the cores is this an error: -errno. */
int topology_read(struct topology *topology, const struct machine *machine);
/* Reads again what hotplug changes. */
int topology_refresh(struct topology *topology, const struct machine *machine);
/* Reads isolated cores again, which partitions change at any time. */
void topology_read_isolated(struct topology *topology,
                            const struct machine *machine);
void topology_free(struct topology *topology);

#endif
