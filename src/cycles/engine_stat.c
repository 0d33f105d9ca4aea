/* /proc/stat as the engine uses it: is it about the cores of this machine? */
#include "engine_private.h"

#include <stdio.h>
#include <string.h>

void engine_find_lxcfs(struct engine *engine) {
  const struct machine *machine = engine->options.machine;
  engine->lxcfs =
      machine->is_fuse(machine->context, "/proc/stat") &&
      machine->is_fuse(machine->context, "/sys/devices/system/cpu/online");
}

/* Unreadable rows affect only their own cores. */
static void say_unreadable_rows(struct engine *engine) {
  const struct core_set *unreadable = &engine->stat.unreadable;
  bool any = core_set_next(unreadable, -1) >= 0;
  if (any && !engine->stat_unreadable) {
    char list[128];
    core_set_format(unreadable, list, sizeof(list));
    journal_say(&engine->options.journal, JOURNAL_WARNING,
                "/proc/stat has no readable row for %s %s: its figures that "
                "need /proc/stat are missing",
                core_set_count(unreadable) == 1 ? "core" : "cores", list);
  }
  engine->stat_unreadable = any;
}

static bool same_cores(const struct engine *engine) {
  struct core_set rows = engine->stat.cores;
  core_set_union(&rows, &engine->stat.unreadable);
  return core_set_equal(&rows, &engine->topology.online);
}

static void say_withheld(const struct engine *engine) {
  char rows[128], cores[128];
  core_set_format(&engine->stat.cores, rows, sizeof(rows));
  core_set_format(&engine->topology.online, cores, sizeof(cores));
  if (engine->lxcfs)
    journal_say(
        &engine->options.journal, JOURNAL_WARNING,
        "LXCFS provides /proc/stat and the list of cores, and may renumber "
        "cores for this container: the source idle and figures "
        "that need /proc/stat are withheld");
  else
    journal_say(
        &engine->options.journal, JOURNAL_WARNING,
        "/proc/stat lists cores %s, but cores %s are online: the source "
        "idle and figures that need /proc/stat are withheld",
        rows, cores);
}

/* In a container LXCFS may renumber the rows of /proc/stat: the rows then do
 * not belong to the cores of sysfs, and there is no way to tell which cores
 * they belong to. If LXCFS provides the list of cores, too, both may agree and
 * be wrong. */
static bool stat_tells_of_these_cores(struct engine *engine) {
  bool same = !engine->lxcfs && same_cores(engine);
  if (!same && !engine->stat_withheld)
    say_withheld(engine);
  engine->stat_withheld = !same;
  return same;
}

static int read_stat(struct engine *engine) {
  int status = procstat_read(&engine->stat, engine->options.machine);
  if (status != 0) {
    if (!engine->stat_failed)
      journal_say(&engine->options.journal, JOURNAL_WARNING,
                  "/proc/stat cannot be used: %s", strerror(-status));
    engine->stat_failed = true;
    engine->stat_valid = false;
    return status;
  }
  engine->stat_failed = false;
  if (!same_cores(engine)) {
    /* A core may have come or gone just now. */
    status = engine_look_for_hotplug(engine);
    if (status != 0)
      return status;
  }
  engine->stat_valid = stat_tells_of_these_cores(engine);
  say_unreadable_rows(engine);
  return 0;
}

/* The software source has nothing to read in a sample without /proc/stat. */
static void mind_idle_source(struct engine *engine) {
  for (int i = 0; i < engine->candidates_len; i++) {
    struct candidate *candidate = &engine->candidates[i];
    if (candidate->source != SOURCE_IDLE)
      continue;
    bool was_available = candidate->available;
    candidate->available = engine->stat_valid;
    if (!engine->stat_valid)
      snprintf(candidate->reason, sizeof(candidate->reason), "%s",
               engine->stat_failed ? "/proc/stat cannot be read"
               : engine->lxcfs
                   ? "LXCFS provides /proc/stat and the list of cores of this "
                     "container"
                   : "/proc/stat lists other cores than are online");
    else if (!was_available)
      candidate->reason[0] = '\0';
  }
}

int engine_read_stat(struct engine *engine) {
  int status = read_stat(engine);
  mind_idle_source(engine);
  return status;
}
