/* percore load --compare: measures loads by every method over the same
 * intervals. comparison.c shows them. */
#include "compare.h"
#include "live.h"
#include "load.h"
#include "text.h"
#include "tool.h"

#include "cycles/core.h"
#include "cycles/cpuidle.h"
#include "cycles/perf_event.h"
#include "cycles/schedstat.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "load"

/* The busy time and wall time of a core since an arbitrary moment, which is the
 * same in all readings of an epoch. */
struct reading {
  bool valid;
  uint64_t epoch;
  double wall_ns, busy_ns;
};

struct row { /* an open method */
  const struct method *method;
  struct machine *machine; /* used only by this row and its engine */
  struct engine *engine;
  /* Indexed by core number. */
  struct perf_group *groups;
  struct reading *before, *now;
  char *why; /* [WHY_SIZE] of comparison.method[] */
};

struct methods {
  const struct machine *machine;
  struct engine_options options; /* of `engine` */
  struct engine *engine;  /* measures the row "percore" and reads /proc/stat */
  int cores_len;          /* highest possible core number + 1, when opened */
  struct core_set online; /* the online cores with numbers below cores_len */
  struct schedstat schedstat;
  struct row rows[METHODS_MAX]; /* row i belongs to comparison.method[i] */
  uint64_t sampled_ns;
  struct comparison comparison;
};

struct method {
  const char *name, *title;
  /* Fills row->now for the cores in methods->online. Returns 0, or -errno,
   * which `path` and `absent` explain. */
  int (*read)(struct methods *methods, struct row *row);
  enum source_kind
      source; /* SOURCE_NONE if the method uses no source of percore */
  const char *path, *absent; /* the file it reads, why it may not exist */
  enum { STAT_BUSY, STAT_SUM, STAT_SHARE, STAT_NOT_IDLE } figure;
};

static uint64_t now_ns(const struct methods *methods) {
  return machine_now_ns(methods->machine, CLOCK_MONOTONIC);
}

/* Stores a reading of values that were read since `began_ns`. */
static void take(struct methods *methods, struct row *row, int core,
                 uint64_t began_ns, double ns, bool idle) {
  double wall_ns = ((double)began_ns + (double)now_ns(methods)) / 2;
  row->now[core] = (struct reading){.valid = !isnan(ns),
                                    .wall_ns = wall_ns,
                                    .busy_ns = idle ? wall_ns - ns : ns};
}

/* ---------------------------------------------------------------------------
 * /proc/stat, as read by the engine, and other files
 */

static int read_stat(struct methods *methods, struct row *row) {
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
        .wall_ns =
            row->method->figure == STAT_SHARE ? sum_ns : total->stat_wall,
        .busy_ns = busy_ns[row->method->figure],
    };
  }
  if (!any && methods->sampled_ns != 0)
    snprintf(row->why, WHY_SIZE, "/proc/stat is unusable: %s",
             engine_source_reason(methods->engine, SOURCE_IDLE));
  return 0;
}

static int read_schedstat(struct methods *methods, struct row *row) {
  struct schedstat *stat = &methods->schedstat;
  uint64_t began_ns = now_ns(methods);
  int status = schedstat_read(stat, methods->machine);
  core_set_for_each(core, &methods->online) {
    if (status == 0 && core_set_has(&stat->cores, core))
      take(methods, row, core, began_ns, (double)stat->rows[core].run_ns,
           false);
  }
  return status;
}

static int read_cpuidle(struct methods *methods, struct row *row) {
  bool any = false;
  core_set_for_each(core, &methods->online) {
    struct cpuidle cpuidle;
    double idle_ns = 0;
    uint64_t began_ns = now_ns(methods);
    if (cpuidle_read(&cpuidle, methods->machine, core) == 0)
      continue;
    for (int i = 0; i < cpuidle.states_len; i++)
      idle_ns += (double)cpuidle.state[i].time_ns;
    take(methods, row, core, began_ns, idle_ns, true);
    any = true;
  }
  return any ? 0 : -ENOENT;
}

/* Reads the task clock of every core that is not isolated, because reading a
 * task clock interrupts its core. Opens it at the first reading. */
static int read_task_clock(struct methods *methods, struct row *row) {
  const struct perf_event event = {.type = PERF_TYPE_SOFTWARE,
                                   .config = PERF_COUNT_SW_TASK_CLOCK};
  int failed = 0;
  core_set_for_each(core, &methods->online) {
    struct perf_group *group = &row->groups[core];
    struct perf_reading reading;
    if (core_set_has(&engine_topology(methods->engine)->isolated, core)) {
      perf_group_close(group);
      continue;
    }
    int status =
        group->events_len > 0
            ? 0
            : perf_group_open(group, methods->machine, core, &event, 1, false);
    uint64_t began_ns = now_ns(methods);
    if (status == 0)
      status = perf_group_read(group, &reading);
    if (status == 0)
      take(methods, row, core, began_ns, (double)reading.value[0], false);
    failed = status != 0 ? status : failed;
  }
  if (failed != 0)
    perf_explain(row->why, WHY_SIZE, failed);
  return 0;
}

/* ---------------------------------------------------------------------------
 * Sources of percore
 */

static void read_engine(const struct methods *methods, struct row *row,
                        const struct engine *engine) {
  enum source_kind source = row->method->source;
  size_t len;
  const struct core *cores = engine_cores(engine, &len);
  for (size_t i = 0; i < len; i++) {
    const struct core_totals *total = &cores[i].total;
    if (core_set_has(&methods->online, cores[i].number))
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

/* Reads an engine that uses only the source of this method. */
static int read_source(struct methods *methods, struct row *row) {
  if (engine_sample(row->engine, false) == 0)
    read_engine(methods, row, row->engine);
  text_clean_string(row->why, WHY_SIZE,
                    engine_source_reason(row->engine, row->method->source));
  return 0;
}

/* Reads percore's own method, and titles it, for example "percore, source
 * idle", or "percore, source by core" if cores use different sources. */
static int read_percore(struct methods *methods, struct row *row) {
  enum source_kind source = SOURCE_NONE;
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
  if (source == SOURCE_NONE)
    snprintf(row->why, WHY_SIZE,
             "no source works here: 'percore doctor' says why");
  return 0;
}

/* ---------------------------------------------------------------------------
 * The table of methods
 */

#define STAT(figure) read_stat, SOURCE_NONE, NULL, NULL, figure
#define SOURCE(source) read_source, source, NULL, NULL, 0
#define FILE_OF(read, path, absent) read, SOURCE_NONE, path, absent, 0
static const struct method method_table[] = {
    {"stat_busy", "/proc/stat busy columns / wall", STAT(STAT_BUSY)},
    {"stat_sum", "/proc/stat sum of columns / wall", STAT(STAT_SUM)},
    {"stat_share", "/proc/stat busy / sum (as top does)", STAT(STAT_SHARE)},
    {"stat_not_idle", "1 - (idle+iowait) / wall", STAT(STAT_NOT_IDLE)},
    {"schedstat", "/proc/schedstat run time",
     FILE_OF(read_schedstat, "/proc/schedstat",
             "this kernel is built without CONFIG_SCHEDSTATS")},
    {"cpuidle", "1 - cpuidle time",
     FILE_OF(read_cpuidle, "/sys/devices/system/cpu/cpu0/cpuidle",
             "this machine has no cpuidle driver")},
    {"task_clock", "perf task clock", FILE_OF(read_task_clock, NULL, NULL)},
    {"mperf", "perf msr/mperf", SOURCE(SOURCE_MPERF)},
    {"ref_cycles", "perf ref-cycles", SOURCE(SOURCE_REF_CYCLES)},
    {"event", "perf event", SOURCE(SOURCE_EVENT)},
    {"bpf", "idle clock (bpf)", SOURCE(SOURCE_BPF)},
    {"percore", "percore", read_percore, SOURCE_AUTO, NULL, NULL, 0},
};
#define METHODS (sizeof(method_table) / sizeof(method_table[0]))
_Static_assert(METHODS <= METHODS_MAX, "METHODS_MAX");

/* The engine of a source has a struct machine of its own, because a machine
 * reports each hotplug event only once. */
static int open_source(const struct methods *methods, struct row *row) {
  struct engine_options options = methods->options;
  row->machine = machine_linux(NULL);
  if (row->machine == NULL)
    return -ENOMEM;
  options.machine = row->machine;
  options.source = row->method->source;
  options.journal = (struct journal){0};
  int status = engine_open(&row->engine, &options);
  if (status != 0)
    row->engine = NULL;
  return status;
}

static int open_row(struct methods *methods, const struct method *method) {
  size_t number = methods->comparison.methods_len++;
  struct row *row = &methods->rows[number];
  struct comparison_method *shown = &methods->comparison.method[number];
  size_t len = (size_t)methods->cores_len;
  row->method = method;
  row->why = shown->why;
  shown->name = method->name;
  snprintf(shown->title, sizeof(shown->title), "%s", method->title);
  row->before = calloc(len, sizeof(*row->before));
  row->now = calloc(len, sizeof(*row->now));
  row->groups = calloc(len, sizeof(*row->groups));
  shown->load = calloc(len, sizeof(*shown->load));
  if (row->before == NULL || row->now == NULL || row->groups == NULL ||
      shown->load == NULL)
    return -ENOMEM;
  return method->source >= 0 ? open_source(methods, row) : 0;
}

static void find_online(struct methods *methods) {
  size_t len;
  const struct core *cores = engine_cores(methods->engine, &len);
  core_set_clear(&methods->online);
  for (size_t i = 0; i < len; i++)
    if (cores[i].online && cores[i].number < methods->cores_len)
      core_set_add(&methods->online, cores[i].number);
}

int methods_open(struct methods **result,
                 const struct engine_options *options) {
  struct methods *methods = calloc(1, sizeof(*methods));
  if (methods == NULL)
    return -ENOMEM;
  methods->options = *options;
  methods->machine = options->machine;
  int status = engine_open(&methods->engine, options);
  if (status == 0) {
    methods->cores_len = engine_topology(methods->engine)->cores_len;
    methods->comparison.core =
        calloc((size_t)methods->cores_len + 1, sizeof(int));
    status = methods->comparison.core != NULL ? 0 : -ENOMEM;
  } else {
    methods->engine = NULL;
  }
  for (size_t i = 0; status == 0 && i < METHODS; i++)
    if (method_table[i].source != SOURCE_EVENT || options->event != NULL)
      status = open_row(methods, &method_table[i]);
  if (status == 0)
    methods_prove(methods);
  else
    methods_close(methods);
  *result = methods;
  return status;
}

void methods_close(struct methods *methods) {
  for (size_t i = 0; i < methods->comparison.methods_len; i++) {
    struct row *row = &methods->rows[i];
    for (int core = 0; row->groups != NULL && core < methods->cores_len; core++)
      perf_group_close(&row->groups[core]);
    engine_close(row->engine);
    machine_linux_close(row->machine);
    free(row->groups);
    free(row->before);
    free(row->now);
    free(methods->comparison.method[i].load);
  }
  engine_close(methods->engine);
  free(methods->comparison.core);
  schedstat_free(&methods->schedstat);
  free(methods);
}

/* ---------------------------------------------------------------------------
 * Sampling
 */

static double load_between(const struct row *row, int core) {
  const struct reading *from = &row->before[core], *to = &row->now[core];
  if (!from->valid || !to->valid || from->epoch != to->epoch ||
      !(to->wall_ns > from->wall_ns))
    return NAN;
  double load = (to->busy_ns - from->busy_ns) / (to->wall_ns - from->wall_ns);
  /* percore limits the loads from its sources to the range from 0 to 1, so do
   * the same here. */
  return row->method->source != SOURCE_NONE ? fmin(fmax(load, 0), 1) : load;
}

static void read_row(struct methods *methods, struct row *row) {
  const struct method *method = row->method;
  struct reading *readings = row->before;
  row->before = row->now;
  row->now = readings;
  row->why[0] = '\0';
  memset(row->now, 0, (size_t)methods->cores_len * sizeof(*row->now));
  int status = method->read(methods, row);
  if (status == -ENOENT)
    snprintf(row->why, WHY_SIZE, "%s does not exist: %s", method->path,
             method->absent);
  else if (status == -EACCES || status == -EPERM)
    snprintf(row->why, WHY_SIZE,
             "%s can be read by root only: run percore as root", method->path);
  else if (status != 0)
    snprintf(row->why, WHY_SIZE, "%s cannot be used: %s", method->path,
             strerror(-status));
}

int methods_sample(struct methods *methods, const struct comparison **result) {
  struct comparison *comparison = &methods->comparison;
  uint64_t before = now_ns(methods);
  int status = engine_sample(methods->engine, false);
  if (status == -ENOMEM)
    return status;
  find_online(methods);
  for (size_t i = 0; i < comparison->methods_len; i++)
    read_row(methods, &methods->rows[i]);
  comparison->bracket_s = (double)(now_ns(methods) - before) / 1e9;
  comparison->interval_s = (double)(before - methods->sampled_ns) / 1e9;
  comparison->time_ns = machine_now_ns(methods->machine, CLOCK_REALTIME);
  methods->sampled_ns = before;
  comparison->cores_len = 0;
  core_set_for_each(core, &methods->online) {
    for (size_t i = 0; i < comparison->methods_len; i++)
      comparison->method[i].load[comparison->cores_len] =
          load_between(&methods->rows[i], core);
    comparison->core[comparison->cores_len++] = core;
  }
  *result = comparison;
  return 0;
}

void methods_prove(struct methods *methods) {
  if (engine_proof_due(methods->engine))
    engine_prove(methods->engine);
  /* Proving takes time, so an unavailable source is not proven. */
  for (size_t i = 0; i < methods->comparison.methods_len; i++) {
    struct engine *engine = methods->rows[i].engine;
    enum source_kind source = methods->rows[i].method->source;
    if (engine != NULL && engine_source_reason(engine, source)[0] == '\0' &&
        engine_proof_due(engine))
      engine_prove(engine);
  }
}

/* ---------------------------------------------------------------------------
 * The command
 */

static int next(struct live *live, void *context, const void **figures) {
  struct methods *methods = context;
  const struct comparison *comparison;
  methods_prove(methods);
  if (!live_wait(live))
    return TOOL_OK;
  int status = methods_sample(methods, &comparison);
  if (status != 0)
    return live_fail(live, "cannot read loads: %s", strerror(-status));
  *figures = comparison;
  return TOOL_OK;
}

static const struct live_face face = {
    .command = COMMAND,
    .waiting = "Testing every method; figures come in a few seconds. Ctrl-C "
               "ends.",
    .next = next,
    .table = comparison_table_write,
    .json = comparison_json_write,
};

int compare_run(const struct load_options *options, struct machine *machine) {
  struct live *live = live_open(&face, options->json);
  if (live == NULL)
    return say_failure(COMMAND, "%s", strerror(ENOMEM));
  struct engine_options engine = load_engine_options(
      options, machine, live_journal(live, JOURNAL_WARNING));
  struct methods *methods;
  const struct comparison *first;
  int result, status = methods_open(&methods, &engine);
  if (status != 0) {
    result = live_fail(live, "cannot read loads: %s", strerror(-status));
  } else {
    methods_sample(methods, &first);
    live_pace(live, options->interval_s);
    result = live_run(live, options->count, methods);
    if (result == TOOL_OK && !stop_requested() &&
        !engine_has_source(methods->engine))
      result = live_fail(live, LOAD_NO_SOURCE);
    methods_close(methods);
  }
  live_close(live);
  return result;
}
