/* Reads /proc/stat for the engine, and finds out whether it describes the cores
 * of this machine.
 */
#include "engine_private.h"

#include <stdio.h>
#include <string.h>

/* Reports cores whose rows in /proc/stat are unreadable. Other cores are not
 * affected. */
static void say_unreadable_rows(struct engine *engine) {
  const struct core_set *unreadable = &engine->stat.unreadable;
  bool any = core_set_next(unreadable, -1) >= 0;
  if (engine_begins(engine, CONDITION_STAT_UNREADABLE, any)) {
    char list[128];
    core_set_format(unreadable, list, sizeof(list));
    engine_say(engine, JOURNAL_WARNING,
               "/proc/stat has no readable row for %s %s: figures that need "
               "/proc/stat are missing there",
               core_set_count(unreadable) == 1 ? "core" : "cores", list);
  }
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
    engine_say(
        engine, JOURNAL_WARNING,
        "LXCFS provides /proc/stat and the list of cores, and may renumber "
        "cores for this container: the source idle and figures "
        "that need /proc/stat are withheld");
  else
    engine_say(engine, JOURNAL_WARNING,
               "/proc/stat lists cores %s, but cores %s are online: the source "
               "idle and figures that need /proc/stat are withheld",
               rows, cores);
}

/* Returns false if the rows of /proc/stat may describe other cores than those
 * that sysfs lists. In a container, LXCFS may renumber the rows, and no file
 * shows which cores of sysfs they describe. If LXCFS also provides the list of
 * cores, the rows and the list may agree and both be wrong. */
static bool stat_describes_these_cores(struct engine *engine) {
  bool same = !engine->lxcfs && same_cores(engine);
  if (engine_begins(engine, CONDITION_STAT_WITHHELD, !same))
    say_withheld(engine);
  return same;
}

static int read_stat(struct engine *engine) {
  int status = procstat_read(&engine->stat, engine->options.machine);
  if (engine_begins(engine, CONDITION_STAT_FAILED, status != 0))
    engine_say(engine, JOURNAL_WARNING, "/proc/stat cannot be used: %s",
               strerror(-status));
  engine->stat_valid = false;
  if (status != 0)
    return status;
  if (!same_cores(engine)) {
    /* A core may have just come online or gone offline. */
    status = engine_find_hotplug(engine);
    if (status != 0)
      return status;
  }
  engine->stat_valid = stat_describes_these_cores(engine);
  say_unreadable_rows(engine);
  return 0;
}

/* Makes the idle source available only if this sample can use /proc/stat. */
static void update_idle_source(struct engine *engine) {
  struct candidate *candidate = engine_candidate(engine, SOURCE_IDLE);
  bool was_available = candidate->available;
  candidate->available = engine->stat_valid;
  if (!engine->stat_valid)
    snprintf(candidate->reason, sizeof(candidate->reason), "%s",
             engine->conditions[CONDITION_STAT_FAILED]
                 ? "/proc/stat cannot be read"
             : engine->lxcfs
                 ? "LXCFS provides /proc/stat and the list of cores of this "
                   "container"
                 : "the cores in /proc/stat differ from the online cores");
  else if (!was_available)
    candidate->reason[0] = '\0';
}

int engine_read_stat(struct engine *engine) {
  int status = read_stat(engine);
  update_idle_source(engine);
  return status;
}
