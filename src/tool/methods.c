/* The methods of `percore load --compare`. */
#include "methods_private.h"

#include "cycles/core.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------
 * The table of methods
 */

static const struct method method_table[] = {
    {"stat_busy", "/proc/stat busy columns / wall", SOURCE_NONE, NULL,
     read_stat, STAT_BUSY},
    {"stat_sum", "/proc/stat sum of columns / wall", SOURCE_NONE, NULL,
     read_stat, STAT_SUM},
    {"stat_share", "/proc/stat busy / sum (as top does)", SOURCE_NONE, NULL,
     read_stat, STAT_SHARE},
    {"stat_not_idle", "1 - (idle+iowait) / wall", SOURCE_NONE, NULL, read_stat,
     STAT_NOT_IDLE},
    {"schedstat", "/proc/schedstat run time", SOURCE_NONE, open_ns,
     read_schedstat, 0},
    {"timer_list", "1 - idle of /proc/timer_list", SOURCE_NONE, open_ns,
     read_timer_list, 0},
    {"cpuidle", "1 - cpuidle time", SOURCE_NONE, NULL, read_cpuidle, 0},
    {"cpuacct", "cpuacct of this cgroup", SOURCE_NONE, open_cpuacct,
     read_cpuacct, 0},
    {"task_clock", "perf task clock", SOURCE_NONE, open_task_clock,
     read_task_clock, 0},
    {"mperf", "perf msr/mperf", SOURCE_MPERF, open_source, read_source, 0},
    {"ref_cycles", "perf ref-cycles", SOURCE_REF_CYCLES, open_source,
     read_source, 0},
    {"event", "perf event", SOURCE_EVENT, open_source, read_source, 0},
    {"bpf", "idle clock (bpf)", SOURCE_BPF, open_source, read_source, 0},
    {"percore", "percore", SOURCE_AUTO, NULL, read_percore, 0},
};
#define METHODS (sizeof(method_table) / sizeof(method_table[0]))
_Static_assert(METHODS <= METHODS_MAX, "METHODS_MAX");

static int open_row(struct methods *methods, const struct method *method) {
  size_t number = methods->comparison.methods_len++;
  struct row *row = &methods->rows[number];
  struct comparison_method *shown = &methods->comparison.method[number];
  size_t len = (size_t)methods->cores_len;
  row->method = method;
  shown->name = method->name;
  snprintf(shown->title, sizeof(shown->title), "%s", method->title);
  row->before = calloc(len, sizeof(*row->before));
  row->now = calloc(len, sizeof(*row->now));
  shown->load = calloc(len, sizeof(*shown->load));
  if (row->before == NULL || row->now == NULL || shown->load == NULL)
    return -ENOMEM;
  return method->open != NULL ? method->open(methods, row) : 0;
}

static void close_row(struct methods *methods, struct row *row) {
  for (int core = 0; row->groups != NULL && core < methods->cores_len; core++)
    perf_group_close(&row->groups[core]);
  engine_close(row->engine);
  machine_linux_close(row->machine);
  free(row->groups);
  free(row->ns);
  free(row->before);
  free(row->now);
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
  if (status != 0) {
    methods->engine = NULL;
    goto failed;
  }
  engine_prove(methods->engine);
  methods->cores_len = engine_topology(methods->engine)->cores_len;
  find_online(methods);
  methods->comparison.core =
      calloc((size_t)methods->cores_len + 1, sizeof(int));
  status = methods->comparison.core != NULL ? 0 : -ENOMEM;
  for (size_t i = 0; status == 0 && i < METHODS; i++)
    if (method_table[i].source != SOURCE_EVENT || options->event != NULL)
      status = open_row(methods, &method_table[i]);
  if (status != 0)
    goto failed;
  *result = methods;
  return 0;

failed:
  methods_close(methods);
  return status;
}

void methods_close(struct methods *methods) {
  if (methods == NULL)
    return;
  for (size_t i = 0; i < methods->comparison.methods_len; i++) {
    close_row(methods, &methods->rows[i]);
    free(methods->comparison.method[i].load);
  }
  engine_close(methods->engine);
  free(methods->comparison.core);
  free(methods->file);
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
  if (row->method->source != SOURCE_NONE)
    load = fmin(fmax(load, 0), 1);
  return load;
}

static void compare(struct methods *methods) {
  struct comparison *comparison = &methods->comparison;
  comparison->cores_len = 0;
  core_set_for_each(core, &methods->online) {
    for (size_t row = 0; row < methods->comparison.methods_len; row++)
      comparison->method[row].load[comparison->cores_len] =
          load_between(&methods->rows[row], core);
    comparison->core[comparison->cores_len++] = core;
  }
}

int methods_sample(struct methods *methods,
                   const struct comparison **comparison) {
  const struct machine *machine = methods->machine;
  size_t bytes = (size_t)methods->cores_len * sizeof(struct reading);
  uint64_t before = methods_now_ns(methods);
  int status = engine_sample(methods->engine, false);
  if (status == -ENOMEM)
    return status;
  find_online(methods);
  for (size_t i = 0; i < methods->comparison.methods_len; i++) {
    struct row *row = &methods->rows[i];
    struct reading *readings = row->before;
    row->before = row->now;
    row->now = readings;
    memset(row->now, 0, bytes);
    row->method->read(methods, row);
  }
  uint64_t after = methods_now_ns(methods);
  compare(methods);
  methods->comparison.time_ns =
      machine->clock_ns(machine->context, CLOCK_REALTIME);
  methods->comparison.bracket_s = (double)(after - before) / 1e9;
  methods->comparison.interval_s = (double)(before - methods->sampled_ns) / 1e9;
  methods->sampled_ns = before;
  *comparison = &methods->comparison;
  return 0;
}

void methods_prove(struct methods *methods) {
  if (engine_proof_due(methods->engine))
    engine_prove(methods->engine);
  for (size_t i = 0; i < methods->comparison.methods_len; i++) {
    struct engine *engine = methods->rows[i].engine;
    enum source source = methods->rows[i].method->source;
    if (engine != NULL && engine_source_reason(engine, source)[0] == '\0' &&
        engine_proof_due(engine))
      engine_prove(engine);
  }
}

bool methods_have_load(const struct methods *methods) {
  return engine_has_source(methods->engine);
}
