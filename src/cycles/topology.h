/* topology: the cores of the machine, and which cores share hardware. */
#ifndef PERCORE_TOPOLOGY_H
#define PERCORE_TOPOLOGY_H

#include "base/core_set.h"
#include "machine.h"

struct topology {
  struct core_set possible;
  struct core_set online;
  /* Cores isolated from the scheduler or the tick: isolcpus=, nohz_full= and
   * isolated partitions of cgroup v2. */
  struct core_set isolated;
  bool hypervisor; /* the CPU reports that it is virtual */
  /* It does, or it reports nothing: only x86 tells whether it is virtual. */
  bool may_be_virtual;
  bool monitors;   /* x86: a halt may also end with a store (MWAIT) */
  bool tsc_steady; /* constant_tsc and nonstop_tsc: it never changes its rate */
  int cores_len;   /* the highest possible core number + 1 */
  /* Indexed by core number; -1 where unknown. */
  int *node;
  /* The next hardware thread of the same physical core; the last is followed by
   * the first. */
  int *sibling;
};

/* Reads the whole topology. Whatever cannot be read remains unknown. Returns 0,
 * or -errno if the cores cannot be determined at all. */
int topology_read(struct topology *topology, const struct machine *machine);
/* Reads again everything that hotplug can change. Returns 0 or -errno. */
int topology_refresh(struct topology *topology, const struct machine *machine);
/* Reads the isolated cores again, because cgroup partitions can change them at
 * any time. */
void topology_read_isolated(struct topology *topology,
                            const struct machine *machine);
/* True if an online core is isolated. */
bool topology_any_isolated(const struct topology *topology);
void topology_free(struct topology *topology);

#endif
