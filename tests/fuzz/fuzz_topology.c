/* Fuzz target: the files that list the cores. The pieces (pieces.h) are in the
 * order of `files` below: the first set of files is read when the topology is
 * opened, and the next set by a refresh. */
#include "cycles/topology.h"

#include "pieces.h"
#include "unit/fake_machine.h"

#include <errno.h>

#define CPU "/sys/devices/system/cpu/"
#define NODE "/sys/devices/system/node/"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const files[] = {
    CPU "online",
    CPU "possible",
    CPU "isolated",
    CPU "nohz_full",
    "/sys/fs/cgroup/cpuset.cpus.isolated",
    CPU "cpu0/topology/thread_siblings_list",
    CPU "cpu1/topology/thread_siblings_list",
    NODE "node0/cpulist",
    NODE "node1/cpulist",
    "/proc/cpuinfo",
    NODE "online",
    "/proc/stat",
};
#define FILES ((int)(sizeof(files) / sizeof(files[0])))

static void put_files(struct fake_machine *fake, const struct pieces *pieces,
                      int from) {
  for (int i = 0; i < FILES; i++) {
    const char *text = pieces_get(pieces, from + i);
    if (text != NULL)
      fake_machine_file(fake, files[i], text);
    else
      fake_machine_remove(fake, files[i]);
  }
}

static void check(const struct topology *topology) {
  for (int core = 0; core < topology->cores_len; core++)
    if (topology->node[core] < -1 || topology->node[core] >= CORES_MAX ||
        topology->sibling[core] < -1 ||
        topology->sibling[core] >= topology->cores_len ||
        topology->sibling[core] == core)
      abort();
  struct core_set unknown = topology->online;
  core_set_subtract(&unknown, &topology->possible);
  if (core_set_count(&topology->online) == 0 || core_set_count(&unknown) != 0 ||
      core_set_next(&topology->possible, topology->cores_len - 1) >= 0)
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct pieces pieces;
  struct topology topology;
  struct fake_machine *fake = fake_machine_new(0);
  fake->procstat = false;
  pieces_cut(&pieces, data, size);
  put_files(fake, &pieces, 0);
  if (topology_read(&topology, &fake->machine) == 0) {
    check(&topology);
    put_files(fake, &pieces, FILES);
    if (topology_refresh(&topology, &fake->machine) == 0)
      check(&topology);
    topology_free(&topology);
  }
  fake_machine_free(fake);
  free(pieces.text);
  return 0;
}
