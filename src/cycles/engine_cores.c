/* Handles cores that come online or go offline, and finds the isolated cores,
 * which must not be disturbed. */
#include "engine_private.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How often the list of isolated cores is read again. */
#define ISOLATED_INTERVAL_NS (60 * NS_PER_S)

/* Adds a core unless it is already known. Returns false if out of memory. */
static bool add_core(struct engine *engine, int number) {
  size_t len = engine->cores_len, at = 0;
  while (at < len && engine->cores[at].number < number)
    at++;
  if (at < len && engine->cores[at].number == number)
    return true;
  if (!array_resize(&engine->cores, len + 1, sizeof(*engine->cores)))
    return false;
  struct core *cores = engine->cores;
  memmove(cores + at + 1, cores + at, (len - at) * sizeof(*cores));
  cores[at] = (struct core){.number = number,
                            .source = SOURCE_NONE,
                            .candidate = -1,
                            .announced = -1};
  engine->cores_len++;
  return true;
}

/* Reads which cores are isolated. This is repeated every ISOLATED_INTERVAL_NS,
 * because cgroup partitions, which isolate cores, can be created and dissolved
 * at any time. */
void engine_find_isolated(struct engine *engine) {
  topology_read_isolated(&engine->topology, engine->options.machine);
  core_set_union(&engine->topology.isolated, &engine->options.also_isolated);
  for (size_t i = 0; i < engine->cores_len; i++)
    engine->cores[i].isolated =
        core_set_has(&engine->topology.isolated, engine->cores[i].number);
  engine->isolated_at_ns = engine->time_ns + ISOLATED_INTERVAL_NS;
}

/* Adds new cores, closes cores that have gone offline, and restarts cores that
 * were offline between two samples. */
int engine_apply_online(struct engine *engine, const struct core_set *changed) {
  const struct core_set *online = &engine->topology.online;
  candidates_find_cores(engine->candidates, engine->candidates_len,
                        engine->options.machine);
  core_set_for_each(core, online) {
    if (core_set_has(&engine->wanted, core) && !add_core(engine, core))
      return -ENOMEM;
  }
  for (size_t i = 0; i < engine->cores_len; i++) {
    struct core *core = &engine->cores[i];
    bool is_online = core_set_has(online, core->number);
    if (core->online != is_online || core_set_has(changed, core->number)) {
      engine->counts.windows_discarded += core->online;
      engine->counts.reopens += is_online;
      core_restart(core);
    }
    core->online = is_online;
  }
  engine_find_isolated(engine);
  return 0;
}

int engine_find_hotplug(struct engine *engine) {
  const struct machine *machine = engine->options.machine;
  struct core_set changed = {0}, online;
  if (machine->changed_cores(machine->context, &changed) == -ENOBUFS)
    core_set_fill(&changed);
  bool known = machine_read_core_set(machine, "/sys/devices/system/cpu/online",
                                     &online) == 0 &&
               core_set_next(&online, -1) >= 0;
  if (known && core_set_equal(&online, &engine->topology.online) &&
      core_set_next(&changed, -1) < 0)
    return 0;
  int status = topology_refresh(&engine->topology, machine);
  if (status == 0)
    return engine_apply_online(engine, &changed);
  /* If neither sysfs nor /proc/stat lists the cores, keep the previous list. */
  return known ? status : 0;
}
