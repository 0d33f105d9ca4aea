#include "figures.h"

#include "aggregate.h"
#include "cpuidle.h"
#include "engine_private.h"
#include "totals.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The totals at which a core's current windows began. All zeros until the core
 * has been seen; no totals have the epoch 0, so its first windows have no
 * load. */
struct core_windows {
  struct core_totals sample, average, interval;
  double load;     /* in the last interval */
  bool idle_polls; /* the core has ever polled in the idle loop */
  double min, max; /* NAN until the interval's first sample window has ended */
  struct loadavg load_average[LOADAVG_PERIODS];
  /* CLOCK_MONOTONIC of the last update of load_average; 0 before the first
   * update. */
  uint64_t averaged_ns;
  uint64_t cpuidle_ns;
  struct cpuidle cpuidle;
};

struct figures {
  struct figures_options options;
  const struct engine *engine;
  struct loadavg run_queue[LOADAVG_PERIODS];
  uint64_t run_queue_ns;
  struct softirq_time *softirq; /* NULL: not wanted, or not available */
  /* Pages that are never written take no memory. */
  struct core_windows windows[CORES_MAX];
};

static double between_0_and_1(double share) {
  return isnan(share) ? NAN : fmin(fmax(share, 0), 1);
}

/* ---------------------------------------------------------------------------
 * Open and close
 */

/* Starts the averages of the run queue at the kernel's load averages. */
static void start_run_queue(struct figures *figures) {
  const struct machine *machine = figures->engine->options.machine;
  char text[128];
  double kernel[LOADAVG_PERIODS];
  if (machine_read(machine, text, sizeof(text), "/proc/loadavg") <= 0 ||
      sscanf(text, "%lf %lf %lf", &kernel[0], &kernel[1], &kernel[2]) != 3)
    return;
  for (int i = 0; i < LOADAVG_PERIODS; i++)
    if (!isfinite(kernel[i]) || kernel[i] < 0)
      return;
  for (int i = 0; i < LOADAVG_PERIODS; i++)
    loadavg_start(&figures->run_queue[i], kernel[i]);
}

struct figures *figures_open(const struct figures_options *options,
                             const struct engine *engine) {
  struct figures *figures = calloc(1, sizeof(*figures));
  if (figures == NULL)
    return NULL;
  figures->options = *options;
  figures->engine = engine;
  if (options->softirq)
    figures->softirq = softirq_time_open(engine);
  start_run_queue(figures);
  figures->run_queue_ns = engine->time_ns;
  return figures;
}

void figures_close(struct figures *figures) {
  if (figures == NULL)
    return;
  softirq_time_close(figures->softirq);
  free(figures);
}

/* ---------------------------------------------------------------------------
 * Sample windows and load averages
 */

void figures_sample(struct figures *figures) {
  size_t len;
  const struct core *states = engine_cores(figures->engine, &len);
  for (size_t i = 0; i < len; i++) {
    struct core_windows *windows = &figures->windows[states[i].number];
    double load = engine_load(&windows->sample, &states[i].total);
    windows->min = fmin(windows->min, load); /* fmin ignores NAN */
    windows->max = fmax(windows->max, load);
    windows->sample = states[i].total;
  }
}

static void average_core(struct figures *figures, struct core_windows *windows,
                         const struct core *state) {
  const struct core_totals *from = &windows->average, *to = &state->total;
  double load = engine_load(from, to);
  double dt_s = (to->wall - from->wall) / 1e9;
  windows->average = *to;
  if (isnan(load))
    return;
  uint64_t now_ns = figures->engine->time_ns;
  double away_s = (double)(now_ns - windows->averaged_ns) / 1e9 - dt_s;
  for (int i = 0; i < LOADAVG_PERIODS; i++) {
    double period_s = loadavg_period_s[i];
    if (windows->averaged_ns != 0 && away_s > period_s)
      windows->load_average[i] = (struct loadavg){0, 0};
    loadavg_update(&windows->load_average[i], load, dt_s, period_s);
  }
  windows->averaged_ns = now_ns;
}

static void average_run_queue(struct figures *figures) {
  const struct procstat *stat = &figures->engine->stat;
  uint64_t now_ns = figures->engine->time_ns;
  if (!figures->engine->stat_valid || stat->running < 0)
    return;
  /* Leave out this thread, which is one of the running tasks. */
  double waiting = stat->running > 0 ? (double)(stat->running - 1) : 0;
  if (stat->blocked > 0)
    waiting += (double)stat->blocked;
  double dt_s = (double)(now_ns - figures->run_queue_ns) / 1e9;
  for (int i = 0; i < LOADAVG_PERIODS; i++)
    loadavg_update(&figures->run_queue[i], waiting, dt_s, loadavg_period_s[i]);
  figures->run_queue_ns = now_ns;
}

void figures_load_average(struct figures *figures) {
  size_t len;
  const struct core *states = engine_cores(figures->engine, &len);
  for (size_t i = 0; i < len; i++)
    average_core(figures, &figures->windows[states[i].number], &states[i]);
  average_run_queue(figures);
}

/* ---------------------------------------------------------------------------
 * An interval: one core
 */

static void times_interval(struct core_figures *core,
                           const struct core_totals *from,
                           const struct core_totals *to, double wall_ns) {
  double ns[PROCSTAT_COLUMNS];
  for (int i = 0; i < PROCSTAT_COLUMNS; i++)
    ns[i] = to->stat_ns[i] - from->stat_ns[i];
  const double time_ns[TIMES] = {
      [TIME_USER] = ns[PROCSTAT_USER] - ns[PROCSTAT_GUEST],
      [TIME_NICE] = ns[PROCSTAT_NICE] - ns[PROCSTAT_GUEST_NICE],
      [TIME_SYSTEM] = ns[PROCSTAT_SYSTEM],
      [TIME_IRQ] = ns[PROCSTAT_IRQ],
      [TIME_SOFTIRQ] = ns[PROCSTAT_SOFTIRQ],
      [TIME_GUEST] = ns[PROCSTAT_GUEST] + ns[PROCSTAT_GUEST_NICE],
      [TIME_IOWAIT] = ns[PROCSTAT_IOWAIT],
  };
  for (int i = 0; i < TIMES; i++)
    core->time[i] = between_0_and_1(time_ns[i] / wall_ns);
}

/* Returns the hidden work. The true load is between `low` and `load`; hidden
 * work is how far the busy columns are below `low` or, as a negative number,
 * above `load`. */
static double hidden_work(double low, double load, double columns) {
  if (isnan(low) || isnan(load))
    return NAN;
  return fmax(low - columns, 0) + fmin(load - columns, 0);
}

/* Columns are counted at ticks, so they may be somewhat above wall time. */
#define COLUMNS_MAX 2

static void columns_interval(struct core_figures *core,
                             const struct core_totals *from,
                             const struct core_totals *to) {
  core->hidden = core->steal = NAN;
  for (int i = 0; i < TIMES; i++)
    core->time[i] = NAN;
  double wall_ns = to->stat_wall - from->stat_wall;
  if (from->stat_epoch != to->stat_epoch || !(wall_ns > 0))
    return;
  double stolen = (to->stolen - from->stolen) / (to->wall - from->wall);
  double columns = (to->stat_busy - from->stat_busy) / wall_ns;
  double work = core->load - engine_idle_poll(from, to);
  if (columns > COLUMNS_MAX)
    return;
  core->hidden = hidden_work(work - stolen, work, columns);
  core->steal = between_0_and_1((to->stat_steal - from->stat_steal) / wall_ns);
  times_interval(core, from, to, wall_ns);
  /* Columns that the tick itself samples do not show what the tick missed. */
  if (core->source == SOURCE_IDLE && core->proof == PROOF_TICK_SAMPLED)
    core->hidden = NAN;
}

/* Where the idle loop polls, the room is unknown while its polls are. */
static double room_of(struct core_windows *windows, double load,
                      double idle_poll) {
  windows->idle_polls |= idle_poll > 0; /* false if NAN */
  if (isnan(idle_poll) && !windows->idle_polls)
    idle_poll = 0;
  return more_room(1 - load, idle_poll);
}

/* ---------------------------------------------------------------------------
 * An interval: files and clocks that are read once in it
 */

static void cstates_interval(const struct figures *figures,
                             struct core_windows *windows,
                             struct core_figures *core) {
  struct cpuidle *now = &core->cstates;
  uint64_t now_ns = figures->engine->time_ns;
  if (!figures->options.cstates || !core->online)
    return;
  cpuidle_read(now, figures->engine->options.machine, core->core);
  double wall_ns = (double)(now_ns - windows->cpuidle_ns);
  bool comparable = now->states_len == windows->cpuidle.states_len;
  for (int i = 0; i < now->states_len; i++) {
    uint64_t from_ns = windows->cpuidle.state[i].time_ns;
    uint64_t to_ns = now->state[i].time_ns;
    /* The kernel counts the time in a state only when the core leaves it. If
     * the core entered it before this interval, that can be more than the
     * interval. */
    core->residency[i] =
        comparable && to_ns >= from_ns
            ? between_0_and_1((double)(to_ns - from_ns) / wall_ns)
            : NAN;
  }
  windows->cpuidle = *now;
  windows->cpuidle_ns = now_ns;
}

/* ---------------------------------------------------------------------------
 * An interval: all figures of a core
 */

static void core_interval(struct figures *figures, struct core_windows *windows,
                          const struct core *state, struct core_figures *core) {
  const struct core_totals *from = &windows->interval, *to = &state->total;
  const struct topology *topology = &figures->engine->topology;
  *core = (struct core_figures){
      .core = state->number,
      .online = state->online,
      .isolated = core_set_has(&topology->isolated, state->number),
      .source = state->source,
      .proof = state->proof};
  core->load = state->online ? engine_load(from, to) : NAN;
  struct bounds bounds = bounds_of(from, to);
  core->load_low = state->online ? bounds.low : NAN;
  core->load_high = state->online ? bounds.high : NAN;
  columns_interval(core, from, to);
  core->room = room_of(windows, core->load, engine_idle_poll(from, to));
  core->frequency_hz = engine_frequency_hz(from, to);
  /* The interval itself also counts as a window; if it is short, it is the only
   * window. If its load is unknown, so are its minimum and maximum. */
  core->load_trough = fmin(windows->min, core->load);
  core->load_peak = fmax(windows->max, core->load);
  if (isnan(core->load))
    core->load_trough = core->load_peak = NAN;
  for (int i = 0; i < LOADAVG_PERIODS; i++)
    core->load_average[i] =
        state->online ? loadavg_get(&windows->load_average[i]) : NAN;
  cstates_interval(figures, windows, core);
  core->softirq = softirq_time_core(figures->softirq, core->core);
  windows->interval = *to;
  windows->load = core->load;
  windows->min = windows->max = NAN;
}

/* Returns the load of the busiest other thread of the core's physical core.
 * Follows the ring of siblings once; the bound ends the loop if they do not
 * form a ring because sysfs contradicts itself. */
static double sibling_load(const struct figures *figures, int core) {
  const struct topology *topology = &figures->engine->topology;
  double max = NAN;
  int sibling = core;
  for (int i = 0; i < topology->cores_len; i++) {
    sibling = sibling < topology->cores_len ? topology->sibling[sibling] : -1;
    if (sibling < 0 || sibling == core)
      break;
    if (figures->windows[sibling].interval.epoch > 0)
      max = fmax(max, figures->windows[sibling].load);
  }
  return max;
}

/* ---------------------------------------------------------------------------
 * An interval: the host
 */

static double sum_of_averages(const struct snapshot *snapshot, int period) {
  double sum = 0;
  int online = 0;
  for (size_t i = 0; i < snapshot->cores_len; i++)
    if (snapshot->cores[i].online) {
      sum += snapshot->cores[i].load_average[period];
      online++;
    }
  return online > 0 ? sum : NAN; /* NAN if any average is NAN */
}

void snapshot_sum_averages(struct snapshot *snapshot) {
  for (int i = 0; i < LOADAVG_PERIODS; i++)
    snapshot->host.load_average[i] = sum_of_averages(snapshot, i);
}

static void host_interval(struct figures *figures, struct snapshot *snapshot) {
  struct host_figures *host = &snapshot->host;
  for (int i = 0; i < LOADAVG_PERIODS; i++)
    host->run_queue_average[i] = loadavg_get(&figures->run_queue[i]);
  snapshot_sum_averages(snapshot);
  host->hidden =
      aggregate_mean(snapshot, offsetof(struct core_figures, hidden));
  host->steal = aggregate_mean(snapshot, offsetof(struct core_figures, steal));
}

static void self_interval(struct figures *figures, struct snapshot *snapshot) {
  struct self_figures *self = &snapshot->self;
  self->counts = figures->engine->counts;
  for (size_t i = 0; i < snapshot->cores_len; i++) {
    const struct core_figures *core = &snapshot->cores[i];
    if (!core->online)
      continue;
    self->cores_online++;
    self->cores_without_value += isnan(core->load);
    if (core->source == SOURCE_NONE)
      continue;
    self->cores_by_source[core->source]++;
    self->cores_unproven +=
        core->proof == PROOF_UNPROVEN || core->proof == PROOF_PENDING;
    self->cores_tick_sampled += core->proof == PROOF_TICK_SAMPLED;
  }
}

struct snapshot *figures_interval(struct figures *figures) {
  size_t len;
  const struct core *states = engine_cores(figures->engine, &len);
  struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
  if (snapshot == NULL)
    return NULL;
  snapshot->cores = calloc(len > 0 ? len : 1, sizeof(*snapshot->cores));
  if (snapshot->cores == NULL)
    goto failed;
  softirq_time_read(figures->softirq);
  for (size_t i = 0; i < len; i++) {
    core_interval(figures, &figures->windows[states[i].number], &states[i],
                  &snapshot->cores[i]);
    snapshot->hypervisor |= states[i].total.stat_steal > 0;
  }
  snapshot->cores_len = len;
  for (size_t i = 0; i < len; i++)
    snapshot->cores[i].sibling_load =
        sibling_load(figures, snapshot->cores[i].core);
  snapshot->hypervisor |= figures->engine->topology.hypervisor;
  snapshot->isolates = topology_any_isolated(&figures->engine->topology);
  if (aggregate_all(snapshot, &figures->engine->topology,
                    figures->options.groups, figures->options.groups_len) != 0)
    goto failed;
  host_interval(figures, snapshot);
  self_interval(figures, snapshot);
  return snapshot;
failed:
  snapshot_free(snapshot);
  return NULL;
}

void snapshot_free(struct snapshot *snapshot) {
  if (snapshot == NULL)
    return;
  free(snapshot->cores);
  free(snapshot->aggregates);
  free(snapshot);
}
