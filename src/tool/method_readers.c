/* Reads each method of `percore load --compare`. */
#include "methods_private.h"
#include "proctext.h"
#include "text.h"

#include "cycles/core.h"
#include "cycles/cpuidle.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_isolated(const struct methods *methods, int core) {
  return core_set_has(&engine_topology(methods->engine)->isolated, core);
}

/* Returns the time halfway between `before` and now, in nanoseconds. It is used
 * as the time of values that were read since `before`. */
static double middle_ns(const struct methods *methods, uint64_t before) {
  return ((double)before + (double)methods_now_ns(methods)) / 2;
}

static char *why(struct methods *methods, const struct row *row) {
  return methods->comparison.method[row - methods->rows].why;
}

/* ---------------------------------------------------------------------------
 * /proc/stat, as read by the engine
 */

void read_stat(struct methods *methods, struct row *row) {
  enum stat_figure figure = row->method->figure;
  size_t len;
  const struct core *cores = engine_cores(methods->engine, &len);
  bool any = false;
  for (size_t i = 0; i < len; i++) {
    const struct core_totals *total = &cores[i].total;
    double sum_ns = core_stat_sum(total),
           busy_ns[] = {
               [STAT_BUSY] = total->stat_busy,
               [STAT_SUM] = sum_ns,
               [STAT_NOT_IDLE] = total->stat_wall - total->stat_idle,
               [STAT_SHARE] = sum_ns - total->stat_idle,
           };
    if (!core_set_has(&methods->online, cores[i].number))
      continue;
    any |= total->stat_wall > 0;
    row->now[cores[i].number] = (struct reading){
        .valid = true,
        .epoch = total->stat_epoch,
        .wall_ns = figure == STAT_SHARE ? sum_ns : total->stat_wall,
        .busy_ns = busy_ns[figure],
    };
  }
  char *text = why(methods, row);
  text[0] = '\0';
  if (!any && methods->sampled_ns != 0)
    snprintf(text, WHY_SIZE, "/proc/stat is unusable: %s",
             engine_source_reason(methods->engine, SOURCE_IDLE));
}

/* ---------------------------------------------------------------------------
 * Other files
 */

/* Reads a file of any length into methods->file. Returns 0 or -errno. */
static int read_file(struct methods *methods, const char *path) {
  ssize_t length = machine_read_long(methods->machine, path, &methods->file,
                                     &methods->file_size);
  return length < 0 ? (int)length : 0;
}

int open_ns(struct methods *methods, struct row *row) {
  row->ns = calloc((size_t)methods->cores_len, sizeof(*row->ns));
  return row->ns != NULL ? 0 : -ENOMEM;
}

/* Turns the times in row->ns into readings at the time `wall_ns`. They are idle
 * times if `idle` is true, otherwise busy times. */
static void take(struct methods *methods, struct row *row, double wall_ns,
                 bool idle) {
  core_set_for_each(core, &methods->online) {
    row->now[core] = (struct reading){
        .valid = !isnan(row->ns[core]),
        .wall_ns = wall_ns,
        .busy_ns = idle ? wall_ns - row->ns[core] : row->ns[core],
    };
  }
}

static void explain_file(struct methods *methods, struct row *row,
                         const char *path, int status, const char *absent) {
  char *text = why(methods, row);
  if (status == 0)
    text[0] = '\0';
  else if (status == -ENOENT)
    snprintf(text, WHY_SIZE, "%s does not exist: %s", path, absent);
  else if (status == -EACCES || status == -EPERM)
    snprintf(text, WHY_SIZE, "%s can be read by root only: run percore as root",
             path);
  else if (status == -EINVAL || status == -EPROTONOSUPPORT)
    snprintf(text, WHY_SIZE, "%s has an unknown format", path);
  else
    snprintf(text, WHY_SIZE, "%s: %s", path, strerror(-status));
}

void read_schedstat(struct methods *methods, struct row *row) {
  struct schedstat *stat = &methods->schedstat;
  uint64_t before = methods_now_ns(methods);
  int status = schedstat_read(stat, methods->machine);
  double wall_ns = middle_ns(methods, before);
  explain_file(methods, row, "/proc/schedstat", status,
               "this kernel is built without CONFIG_SCHEDSTATS");
  if (status != 0)
    return;
  for (int core = 0; core < methods->cores_len; core++)
    row->ns[core] = core_set_has(&stat->cores, core)
                        ? (double)stat->rows[core].run_ns
                        : NAN;
  take(methods, row, wall_ns, false);
}

void read_timer_list(struct methods *methods, struct row *row) {
  static const char path[] = "/proc/timer_list";
  double list_ns = 0;
  int status = read_file(methods, path);
  bool read = status == 0;
  if (read)
    status =
        timer_list_parse(methods->file, row->ns, methods->cores_len, &list_ns);
  explain_file(methods, row, path, status, "this kernel does not provide it");
  if (read && status == -EINVAL)
    snprintf(why(methods, row), WHY_SIZE,
             "%s has no idle times: the tick of this kernel is not dynamic",
             path);
  if (status == 0)
    take(methods, row, list_ns, true);
}

/* Looks for cpuacct.usage_percpu in the places where distributions mount
 * version 1 of cgroups. Leaves row->path NULL if the file does not exist.
 * Returns 0 or -ENOMEM. */
int open_cpuacct(struct methods *methods, struct row *row) {
  static const char *const paths[] = {
      "/sys/fs/cgroup/cpuacct/cpuacct.usage_percpu",
      "/sys/fs/cgroup/cpu,cpuacct/cpuacct.usage_percpu",
  };
  for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
    if (read_file(methods, paths[i]) == 0)
      row->path = paths[i];
  return open_ns(methods, row);
}

void read_cpuacct(struct methods *methods, struct row *row) {
  if (row->path == NULL) {
    snprintf(why(methods, row), WHY_SIZE,
             "cgroups version 1 is not mounted, and version 2 has no times per "
             "core");
    return;
  }
  uint64_t before = methods_now_ns(methods);
  int status = read_file(methods, row->path);
  double wall_ns = middle_ns(methods, before);
  if (status == 0)
    status = cpuacct_parse(methods->file,
                           &engine_topology(methods->engine)->possible, row->ns,
                           methods->cores_len);
  explain_file(methods, row, row->path, status, "it has been unmounted");
  if (status == 0)
    take(methods, row, wall_ns, false);
}

void read_cpuidle(struct methods *methods, struct row *row) {
  bool any = false;
  core_set_for_each(core, &methods->online) {
    struct cpuidle cpuidle;
    uint64_t before = methods_now_ns(methods);
    if (cpuidle_read(&cpuidle, methods->machine, core) == 0)
      continue;
    double wall_ns = middle_ns(methods, before);
    double idle_ns = 0;
    for (int i = 0; i < cpuidle.states_len; i++)
      idle_ns += (double)cpuidle.state[i].time_ns;
    row->now[core] = (struct reading){
        .valid = true, .wall_ns = wall_ns, .busy_ns = wall_ns - idle_ns};
    any = true;
  }
  snprintf(why(methods, row), WHY_SIZE, "%s",
           any ? "" : "this machine has no cpuidle driver");
}

/* ---------------------------------------------------------------------------
 * The task clock
 */

/* Opens the task clock of every core that is not isolated. Isolated cores are
 * left out, because reading a task clock interrupts its core. */
int open_task_clock(struct methods *methods, struct row *row) {
  const struct perf_event event = {.type = PERF_TYPE_SOFTWARE,
                                   .config = PERF_COUNT_SW_TASK_CLOCK};
  int failed = 0;
  row->groups = calloc((size_t)methods->cores_len, sizeof(*row->groups));
  if (row->groups == NULL)
    return -ENOMEM;
  core_set_for_each(core, &methods->online) {
    if (is_isolated(methods, core))
      continue;
    int status = perf_group_open(&row->groups[core], methods->machine, core,
                                 &event, 1, false);
    failed = status != 0 ? status : failed;
  }
  if (failed != 0)
    snprintf(why(methods, row), WHY_SIZE, "perf_event_open: %s%s",
             strerror(-failed),
             failed == -EACCES || failed == -EPERM
                 ? "; run as root, or grant CAP_PERFMON"
                 : "");
  return 0;
}

void read_task_clock(struct methods *methods, struct row *row) {
  core_set_for_each(core, &methods->online) {
    struct perf_reading reading;
    if (row->groups[core].events_len == 0)
      continue;
    if (is_isolated(methods, core)) {
      perf_group_close(&row->groups[core]);
      continue;
    }
    uint64_t before = methods_now_ns(methods);
    if (perf_group_read(&row->groups[core], &reading) != 0)
      continue;
    row->now[core] = (struct reading){
        .valid = true,
        .wall_ns = middle_ns(methods, before),
        .busy_ns = (double)reading.value[0],
    };
  }
}

/* ---------------------------------------------------------------------------
 * Sources of percore
 */

/* Opens an engine that uses only the source of this method. The engine receives
 * its own struct machine, because a machine reports each hotplug event only
 * once. */
int open_source(struct methods *methods, struct row *row) {
  struct engine_options options = methods->options;
  row->machine = machine_linux(NULL);
  if (row->machine == NULL)
    return -ENOMEM;
  options.machine = row->machine;
  options.source = row->method->source;
  options.journal = (struct journal){0};
  int status = engine_open(&row->engine, &options);
  if (status != 0) {
    row->engine = NULL;
    return status;
  }
  /* Testing (proving) a source takes time, so an unavailable source is not
   * tested. */
  if (engine_source_reason(row->engine, options.source)[0] == '\0')
    engine_prove(row->engine);
  return 0;
}

static void read_engine(const struct methods *methods, struct row *row,
                        const struct engine *engine) {
  enum source source = row->method->source;
  size_t len;
  const struct core *cores = engine_cores(engine, &len);
  for (size_t i = 0; i < len; i++) {
    const struct core_totals *total = &cores[i].total;
    if (!core_set_has(&methods->online, cores[i].number))
      continue;
    row->now[cores[i].number] = (struct reading){
        .valid = cores[i].online &&
                 (source == SOURCE_AUTO ? cores[i].source != SOURCE_NONE
                                        : cores[i].source == source),
        .epoch = total->epoch,
        .wall_ns = total->wall,
        .busy_ns = total->unhalted,
    };
  }
}

void read_source(struct methods *methods, struct row *row) {
  if (engine_sample(row->engine, false) != 0)
    return;
  read_engine(methods, row, row->engine);
  const char *reason = engine_source_reason(row->engine, row->method->source);
  text_clean_string(why(methods, row), WHY_SIZE, reason);
}

/* Reads the loads of percore's own method. Sets its title, for example to
 * "percore, source idle", or to "percore, source by core" if cores use
 * different sources. */
void read_percore(struct methods *methods, struct row *row) {
  enum source source = SOURCE_NONE;
  bool mixed = false;
  size_t len;
  const struct core *cores = engine_cores(methods->engine, &len);
  read_engine(methods, row, methods->engine);
  for (size_t i = 0; i < len; i++) {
    if (!cores[i].online || cores[i].source == SOURCE_NONE)
      continue;
    mixed |= source != SOURCE_NONE && source != cores[i].source;
    source = cores[i].source;
  }
  struct comparison_method *shown =
      &methods->comparison.method[row - methods->rows];
  snprintf(shown->title, sizeof(shown->title), "percore, source %s",
           mixed ? "by core" : source_name(source));
  snprintf(shown->why, sizeof(shown->why), "%s",
           source == SOURCE_NONE
               ? "no source works here: 'percore doctor' says why"
               : "");
}
