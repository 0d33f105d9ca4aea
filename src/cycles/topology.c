#include "topology.h"

#include "base/array.h"
#include "base/number.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NODE_FOLDER "/sys/devices/system/node"

/* ---------------------------------------------------------------------------
 * Cores
 */

static int read_online(struct topology *topology,
                       const struct machine *machine) {
  int status =
      machine_read_core_set(machine, &topology->online, CPU_FOLDER "/online");
  return status == 0 && core_set_count(&topology->online) == 0 ? -ENOENT
                                                               : status;
}

void topology_read_isolated(struct topology *topology,
                            const struct machine *machine) {
  static const char *const files[] = {
      CPU_FOLDER "/isolated",
      CPU_FOLDER "/nohz_full",
      "/sys/fs/cgroup/cpuset.cpus.isolated",
  };
  core_set_clear(&topology->isolated);
  for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
    struct core_set set;
    /* If the kernel supports nohz_full but does not use it, the file contains
     * "(null)", which is not a list and is ignored. */
    if (machine_read_core_set(machine, &set, "%s", files[i]) == 0)
      core_set_union(&topology->isolated, &set);
  }
}

bool topology_any_isolated(const struct topology *topology) {
  uint64_t both = 0;
  for (size_t i = 0; i < CORES_MAX / 64; i++)
    both |= topology->isolated.word[i] & topology->online.word[i];
  return both != 0;
}

/* ---------------------------------------------------------------------------
 * Siblings and nodes
 */

/* Returns the core number of the next hardware thread of the same physical
 * core, or -1 if the core has only one thread or
 * its siblings are unknown. */
static int read_sibling(const struct machine *machine, int core,
                        int cores_len) {
  struct core_set threads;
  if (machine_read_core_set(machine, &threads,
                            CPU_FOLDER "/cpu%d/topology/thread_siblings_list",
                            core) != 0)
    return -1;
  int next = core_set_next(&threads, core);
  if (next < 0)
    next = core_set_next(&threads, -1);
  return next != core && next < cores_len ? next : -1;
}

static void read_nodes(struct topology *topology,
                       const struct machine *machine) {
  struct core_set nodes, cores;
  if (machine_read_core_set(machine, &nodes, NODE_FOLDER "/online") != 0)
    return;
  core_set_for_each(node, &nodes) {
    if (machine_read_core_set(machine, &cores, NODE_FOLDER "/node%d/cpulist",
                              node) != 0)
      continue;
    core_set_for_each(core, &cores) {
      if (core < topology->cores_len)
        topology->node[core] = node;
    }
  }
}

/* ---------------------------------------------------------------------------
 * The processor
 */

/* Reads the first "flags" line of /proc/cpuinfo (x86). On other architectures,
 * the file contains no such line and does not show whether the machine is
 * virtual, and there is no TSC. */
static void read_flags(struct topology *topology,
                       const struct machine *machine) {
  /* Room for the block of the first processor; all blocks together can take
   * megabytes. */
  static const size_t size = 16384;
  char *text = malloc(size);
  topology->hypervisor = topology->monitors = topology->tsc_steady = false;
  topology->may_be_virtual = true;
  if (text == NULL)
    return;
  ssize_t length = machine_read(machine, text, size, "/proc/cpuinfo");
  char *flags = length > 0 || length == -EFBIG ? strstr(text, "\nflags") : NULL;
  char *end = flags != NULL ? strchr(flags + 1, '\n') : NULL;
  if (end != NULL)
    memcpy(end, " ", 2); /* so that a blank follows each word */
  if (flags != NULL) {
    topology->hypervisor = strstr(flags, " hypervisor ") != NULL;
    topology->may_be_virtual = topology->hypervisor;
    topology->monitors = strstr(flags, " monitor ") != NULL;
    topology->tsc_steady = strstr(flags, " constant_tsc ") != NULL &&
                           strstr(flags, " nonstop_tsc ") != NULL;
  }
  free(text);
}

/* ---------------------------------------------------------------------------
 * Everything
 */

static int reserve(struct topology *topology, int cores_len) {
  int **const arrays[] = {&topology->node, &topology->sibling};
  for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
    if (!array_resize(arrays[i], (size_t)cores_len, sizeof(*arrays[i][0])))
      return -ENOMEM;
  topology->cores_len = cores_len;
  return 0;
}

int topology_refresh(struct topology *topology, const struct machine *machine) {
  int status = read_online(topology, machine);
  if (status != 0)
    return status;
  core_set_union(&topology->possible, &topology->online);
  int last = -1;
  core_set_for_each(core, &topology->possible) { last = core; }
  status = reserve(topology, last + 1);
  if (status != 0)
    return status;
  for (int core = 0; core < topology->cores_len; core++) {
    bool online = core_set_has(&topology->online, core);
    topology->node[core] = -1;
    topology->sibling[core] =
        online ? read_sibling(machine, core, topology->cores_len) : -1;
  }
  read_nodes(topology, machine);
  topology_read_isolated(topology, machine);
  return 0;
}

int topology_read(struct topology *topology, const struct machine *machine) {
  *topology = (struct topology){0};
  if (machine_read_core_set(machine, &topology->possible,
                            CPU_FOLDER "/possible") != 0)
    core_set_clear(&topology->possible);
  read_flags(topology, machine);
  int status = topology_refresh(topology, machine);
  if (status != 0)
    topology_free(topology);
  return status;
}

void topology_free(struct topology *topology) {
  free(topology->node);
  free(topology->sibling);
  *topology = (struct topology){0};
}
