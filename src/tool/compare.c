/* percore load --compare: measures loads by every method over the same
 * intervals. */
#include "compare.h"
#include "json.h"
#include "live.h"
#include "load.h"
#include "tool.h"

#include "cycles/core.h"
#include "cycles/cpuidle.h"
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

struct method {
  const char *name, *title; /* in JSON, in the table */
  struct reading (*read)(const struct comparison *comparison,
                         const struct core *core);
  const char *absent; /* why no core has a load */
};

enum { METHODS = 6 };

struct comparison {
  const struct machine *machine;
  struct engine *engine; /* percore's own method; also reads /proc/stat */
  int cores_len;         /* highest possible core number + 1 */
  struct schedstat schedstat;
  uint64_t schedstat_ns;
  struct row {
    struct reading *before, *now; /* [core number] */
    bool any;                     /* at least one core has a load */
  } rows[METHODS];
  uint64_t time_ns, read_ns; /* CLOCK_REALTIME, CLOCK_MONOTONIC */
  double interval_s;
  double bracket_s; /* how long it took to read all methods */
};

/* ---------------------------------------------------------------------------
 * The methods
 */

static struct reading read_busy(const struct comparison *comparison,
                                const struct core *core) {
  (void)comparison;
  const struct core_totals *total = &core->total;
  return (struct reading){true, total->stat_epoch, total->stat_wall,
                          total->stat_busy};
}

static struct reading read_share(const struct comparison *comparison,
                                 const struct core *core) {
  struct reading reading = read_busy(comparison, core);
  reading.wall_ns = core_stat_sum(&core->total);
  return reading;
}

static struct reading read_not_idle(const struct comparison *comparison,
                                    const struct core *core) {
  struct reading reading = read_busy(comparison, core);
  reading.busy_ns = reading.wall_ns - core->total.stat_idle;
  return reading;
}

static struct reading read_schedstat(const struct comparison *comparison,
                                     const struct core *core) {
  const struct schedstat *stat = &comparison->schedstat;
  if (comparison->schedstat_ns == 0 ||
      !core_set_has(&stat->cores, core->number))
    return (struct reading){.valid = false};
  return (struct reading){true, 0, (double)comparison->schedstat_ns,
                          (double)stat->rows[core->number].run_ns};
}

static struct reading read_cpuidle(const struct comparison *comparison,
                                   const struct core *core) {
  struct cpuidle cpuidle;
  uint64_t now_ns = machine_now_ns(comparison->machine, CLOCK_MONOTONIC);
  double wall_ns = (double)now_ns, busy_ns = wall_ns;
  bool valid = cpuidle_read(&cpuidle, comparison->machine, core->number) > 0;
  for (int i = 0; i < cpuidle.states_len; i++)
    busy_ns -= (double)cpuidle.state[i].time_ns;
  return (struct reading){valid, 0, wall_ns, busy_ns};
}

static struct reading read_percore(const struct comparison *comparison,
                                   const struct core *core) {
  (void)comparison;
  const struct core_totals *total = &core->total;
  return (struct reading){core->source != SOURCE_NONE, total->epoch,
                          total->wall, total->unhalted};
}

#define NO_STAT "/proc/stat cannot be used: see 'percore doctor'"
static const struct method methods[METHODS] = {
    {"stat_busy", "/proc/stat busy columns / wall", read_busy, NO_STAT},
    {"stat_share", "/proc/stat busy / sum (as top does)", read_share, NO_STAT},
    {"stat_not_idle", "1 - (idle+iowait) / wall", read_not_idle, NO_STAT},
    {"schedstat", "/proc/schedstat run time", read_schedstat,
     "this kernel is built without CONFIG_SCHEDSTATS"},
    {"cpuidle", "1 - cpuidle time", read_cpuidle,
     "this machine has no cpuidle driver"},
    {"percore", "percore", read_percore,
     "no source works here: 'percore doctor' says why"},
};

/* ---------------------------------------------------------------------------
 * Opening
 */

static int open_all(struct comparison *comparison,
                    const struct engine_options *percore) {
  int status = engine_open(&comparison->engine, percore);
  if (status != 0)
    return status;
  comparison->cores_len = engine_topology(comparison->engine)->cores_len;
  for (size_t i = 0; i < METHODS; i++) {
    struct row *row = &comparison->rows[i];
    size_t len = (size_t)comparison->cores_len;
    row->before = calloc(len, sizeof(*row->before));
    row->now = calloc(len, sizeof(*row->now));
    if (row->before == NULL || row->now == NULL)
      return -ENOMEM;
  }
  engine_prove(comparison->engine);
  return 0;
}

int comparison_open(struct comparison **result,
                    const struct engine_options *percore) {
  struct comparison *comparison = calloc(1, sizeof(*comparison));
  if (comparison == NULL)
    return -ENOMEM;
  comparison->machine = percore->machine;
  int status = open_all(comparison, percore);
  if (status != 0)
    comparison_close(comparison);
  *result = comparison;
  return status;
}

void comparison_close(struct comparison *comparison) {
  for (size_t i = 0; i < METHODS; i++) {
    free(comparison->rows[i].before);
    free(comparison->rows[i].now);
  }
  engine_close(comparison->engine);
  schedstat_free(&comparison->schedstat);
  free(comparison);
}

/* ---------------------------------------------------------------------------
 * Reading
 */

/* A core that was added after the start is not shown. */
static bool is_shown(const struct comparison *comparison,
                     const struct core *core) {
  return core->online && core->number < comparison->cores_len;
}

/* Returns a load as a fraction, perhaps below 0 or above 1; NAN: unknown. */
static double load_of(const struct comparison *comparison, size_t method,
                      int core) {
  const struct row *row = &comparison->rows[method];
  const struct reading *from = &row->before[core], *to = &row->now[core];
  if (!from->valid || !to->valid || from->epoch != to->epoch ||
      !(to->wall_ns > from->wall_ns))
    return NAN;
  return (to->busy_ns - from->busy_ns) / (to->wall_ns - from->wall_ns);
}

static void read_row(struct comparison *comparison, size_t number) {
  struct row *row = &comparison->rows[number];
  struct reading *now = row->before;
  size_t len;
  const struct core *cores = engine_cores(comparison->engine, &len);
  row->before = row->now;
  row->now = now;
  row->any = false;
  memset(now, 0, (size_t)comparison->cores_len * sizeof(*now));
  for (size_t i = 0; i < len; i++) {
    if (!is_shown(comparison, &cores[i]))
      continue;
    now[cores[i].number] = methods[number].read(comparison, &cores[i]);
    row->any |= !isnan(load_of(comparison, number, cores[i].number));
  }
}

int comparison_read(struct comparison *comparison) {
  const struct machine *machine = comparison->machine;
  uint64_t begin_ns = machine_now_ns(machine, CLOCK_MONOTONIC);
  if (engine_sample(comparison->engine, false) == -ENOMEM)
    return -ENOMEM;
  bool has_schedstat = schedstat_read(&comparison->schedstat, machine) == 0;
  comparison->schedstat_ns =
      has_schedstat ? machine_now_ns(machine, CLOCK_MONOTONIC) : 0;
  for (size_t i = 0; i < METHODS; i++)
    read_row(comparison, i);
  uint64_t end_ns = machine_now_ns(machine, CLOCK_MONOTONIC);
  comparison->bracket_s = (double)(end_ns - begin_ns) / 1e9;
  comparison->interval_s = (double)(begin_ns - comparison->read_ns) / 1e9;
  comparison->time_ns = machine_now_ns(machine, CLOCK_REALTIME);
  comparison->read_ns = begin_ns;
  return 0;
}

/* ---------------------------------------------------------------------------
 * Writing
 */

/* Returns the title of a method, with the source that percore uses. */
static const char *title_of(const struct comparison *comparison,
                            size_t method) {
  static char title[64];
  const char *name = NULL;
  size_t len;
  const struct core *cores = engine_cores(comparison->engine, &len);
  if (methods[method].read != read_percore)
    return methods[method].title;
  for (size_t i = 0; i < len; i++) {
    const char *other = source_name(cores[i].source);
    if (is_shown(comparison, &cores[i]))
      name = name == NULL || name == other ? other : "by core";
  }
  snprintf(title, sizeof(title), "percore, source %s",
           name != NULL ? name : source_name(SOURCE_NONE));
  return title;
}

int comparison_table_write(FILE *out, const void *figures,
                           struct screen screen) {
  const struct comparison *comparison = figures;
  char time[TIME_TEXT_SIZE], text[32];
  size_t len;
  const struct core *cores = engine_cores(comparison->engine, &len);
  time_text(time, comparison->time_ns);
  fprintf(out, "%s  over %.3f s, all methods read within %.1f ms\n", time,
          comparison->interval_s, 1000 * comparison->bracket_s);
  for (size_t i = 0; i < METHODS; i++) {
    fprintf(out, "%c  %s%s%s\n", (char)('A' + i), title_of(comparison, i),
            comparison->rows[i].any ? "" : ": ",
            comparison->rows[i].any ? "" : methods[i].absent);
  }
  paint_pad(out, screen.colour, PAINT_TITLE, "load %", -7);
  for (size_t i = 0; i < METHODS; i++)
    paint_pad(out, screen.colour, PAINT_TITLE, (char[]){(char)('A' + i), '\0'},
              7);
  for (size_t c = 0; c < len; c++) {
    if (!is_shown(comparison, &cores[c]))
      continue;
    fprintf(out, "\n%7d", cores[c].number);
    for (size_t i = 0; i < METHODS; i++) {
      number_text(text, sizeof(text), "%.1f",
                  100 * load_of(comparison, i, cores[c].number));
      fprintf(out, "%7s", text);
    }
  }
  fputc('\n', out);
  return 0;
}

int comparison_json_write(FILE *out, const void *figures) {
  const struct comparison *comparison = figures;
  struct json *json = json_begin(out, "load --compare");
  size_t len;
  const struct core *cores = engine_cores(comparison->engine, &len);
  json_thousandths(json, "time", (double)comparison->time_ns / 1e9);
  json_number(json, "interval_s", comparison->interval_s);
  json_number(json, "bracket_s", comparison->bracket_s);
  json_open_array(json, "methods");
  for (size_t i = 0; i < METHODS; i++) {
    json_open_object(json, NULL);
    json_text(json, "name", methods[i].name);
    json_text(json, "title", title_of(comparison, i));
    if (!comparison->rows[i].any)
      json_text(json, "unavailable", methods[i].absent);
    json_close_object(json);
  }
  json_close_array(json);
  json_open_array(json, "cores");
  for (size_t c = 0; c < len; c++) {
    if (!is_shown(comparison, &cores[c]))
      continue;
    json_open_object(json, NULL);
    json_integer(json, "core", cores[c].number);
    json_open_object(json, "load");
    for (size_t i = 0; i < METHODS; i++)
      json_number(json, methods[i].name,
                  load_of(comparison, i, cores[c].number));
    json_close_object(json);
    json_close_object(json);
  }
  json_close_array(json);
  json_end(json);
  return 0;
}

/* ---------------------------------------------------------------------------
 * The command
 */

static int next(struct live *live, void *context, const void **figures) {
  struct comparison *comparison = context;
  if (engine_proof_due(comparison->engine))
    engine_prove(comparison->engine);
  if (!live_wait(live))
    return TOOL_OK;
  int status = comparison_read(comparison);
  if (status != 0)
    return live_fail(live, "cannot read loads: %s", strerror(-status));
  *figures = comparison;
  return TOOL_OK;
}

static const struct live_face face = {
    .command = COMMAND,
    .waiting = "Testing the source; the first figures take one interval.",
    .next = next,
    .table = comparison_table_write,
    .json = comparison_json_write,
};

int compare_run(const struct load_options *options, struct machine *machine) {
  struct live *live = live_open(&face, options->json);
  if (live == NULL)
    return say_failure(COMMAND, "%s", strerror(ENOMEM));
  struct engine_options percore = load_engine_options(
      options, machine, live_journal(live, JOURNAL_WARNING));
  struct comparison *comparison;
  int result, status = comparison_open(&comparison, &percore);
  if (status != 0) {
    result = live_fail(live, "cannot read loads: %s", strerror(-status));
  } else {
    comparison_read(comparison);
    live_pace(live, options->interval_s);
    result = live_run(live, options->count, comparison);
    if (result == TOOL_OK && !stop_requested() &&
        !engine_has_source(comparison->engine))
      result = live_fail(live, LOAD_NO_SOURCE);
    comparison_close(comparison);
  }
  live_close(live);
  return result;
}
