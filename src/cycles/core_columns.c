/* Uses the columns of /proc/stat to compute what one core did between two
 * samples. */
#include "bounds.h"
#include "cpuidle.h"
#include "engine_private.h"

#include <errno.h>
#include <math.h>

/* The shortest window. A shorter window would be mostly rounding error, so it
 * is extended to a later sample. */
#define WINDOW_MIN_NS UINT64_C(20000000) /* two ticks of the columns */

/* The largest accepted decrease of idle + iowait. The kernel reads idle and
 * iowait one after the other. If a task starts or stops waiting between the two
 * reads, the sum is wrong by up to a whole idle period. On some kernels, the
 * sum can also decrease by a few ticks. A larger decrease makes the window
 * implausible. */
#define STEP_BACK_MAX_NS UINT64_C(50000000)

/* If all cores woke less often in a nanosecond, every core halted so rarely
 * that it need not be counted: their idle loops take at most 1 point
 * (IDLE_LOOP_NS).
 */
#define HALTS_FEW (0.01 / IDLE_LOOP_NS)

/* After this many consecutive windows with implausible columns, the columns are
 * assumed to have been reset. */
#define REFUSALS_MAX 3

void core_forget_columns(struct core *core) {
  core->total.stat_epoch++;
  core->has_row = false;
}

/* Returns how much a column grew, or 0 if it decreased. Columns other than idle
 * and iowait should never decrease. */
static double risen(uint64_t from, uint64_t to) {
  return to > from ? (double)(to - from) : 0;
}

static void set_base(struct core *core, const struct procstat *stat,
                     uint64_t idle_ns) {
  core->row = stat->rows[core->number];
  core->idle_ns = idle_ns;
  core->interrupts = stat->interrupts;
  core->switches = stat->switches;
  core->row_time_ns = stat->time_ns;
  core->has_row = true;
  core->refusals = 0;
}

/* Idle time and steal may together exceed the window even if the kernel keeps
 * them apart, because it takes the steal of an idle sequence off the next. */
static bool is_plausible(const struct core *core, uint64_t idle_ns) {
  const struct core_totals *growth = &core->sample.growth;
  return idle_ns + STEP_BACK_MAX_NS >= core->idle_ns &&
         growth->stat_idle <= growth->stat_wall + 2 * COLUMN_RESOLUTION_NS;
}

/* Computes the change of each column since the start of the window. */
static void subtract_columns(struct core *core, const struct procstat_row *row,
                             uint64_t idle_ns, double wall_ns) {
  const struct procstat_row *from = &core->row;
  struct core_totals *growth = &core->sample.growth;
  for (int i = 0; i < PROCSTAT_COLUMNS; i++)
    growth->stat_ns[i] = risen(from->ns[i], row->ns[i]);
  growth->stat_wall = wall_ns;
  growth->stat_idle = risen(core->idle_ns, idle_ns);
  growth->stat_busy = risen(procstat_busy_ns(from), procstat_busy_ns(row));
  growth->stat_steal = fmin(growth->stat_ns[PROCSTAT_STEAL], wall_ns);
}

void core_read_columns(struct engine *engine, struct core *core) {
  const struct procstat *stat = &engine->stat;
  if (!engine->stat_valid || !core_set_has(&stat->cores, core->number)) {
    if (core->has_row)
      core_forget_columns(core);
    return;
  }
  const struct procstat_row *row = &stat->rows[core->number];
  uint64_t idle_ns = procstat_idle_ns(row), polled_ns = core->polled_ns;
  if (core->polls &&
      cpuidle_read_polled(&polled_ns, engine->options.machine, core->number,
                          &core->is_poll_state_0) == -ENOENT)
    core->polls = false;
  if (!core->has_row) {
    core->polled_ns = polled_ns;
    set_base(core, stat, idle_ns);
    return;
  }
  if (stat->time_ns < core->row_time_ns + WINDOW_MIN_NS)
    return;
  subtract_columns(core, row, idle_ns,
                   (double)(stat->time_ns - core->row_time_ns));
  if (!is_plausible(core, idle_ns)) {
    engine->counts.errors++;
    engine->counts.windows_discarded++;
    /* Keep the start of the window, so that the next window includes this
     * window, unless too many windows have been refused. */
    core->polled_ns =
        core->refusals + 1 == REFUSALS_MAX ? polled_ns : core->polled_ns;
    if (++core->refusals == REFUSALS_MAX)
      set_base(core, stat, idle_ns);
    return;
  }
  core->sample.stat_valid = true;
  core->sample.stat_begin_ns = core->row_time_ns;
  core->sample.polled_ns = engine->never_halts
                               ? core->sample.growth.stat_idle
                               : risen(core->polled_ns, polled_ns);
  core->sample.interrupts =
      fmax((double)(stat->interrupts - core->interrupts), 0);
  core->sample.switches = fmax((double)(stat->switches - core->switches), 0);
  core->polled_ns = polled_ns;
  set_base(core, stat, idle_ns > core->idle_ns ? idle_ns : core->idle_ns);
}

double core_halts(const struct engine *engine, struct core *core) {
  const struct core_sample *sample = &core->sample;
  uint64_t before = core->halts, before_ns = core->halts_ns;
  /* A halt ends with an interrupt or, if the core monitors its run queue, with
   * a switch to a task. */
  double wakes = sample->interrupts + sample->switches;
  if (wakes <= HALTS_FEW * sample->growth.stat_wall || !engine->options.bounds)
    return wakes;
  bool known = cpuidle_read_entries(&core->halts, engine->options.machine,
                                    core->number) == 0;
  core->halts_ns = known ? engine->stat.time_ns : 0;
  if (!known) /* without an idle driver, cores do not monitor */
    return sample->interrupts;
  if (before_ns != sample->stat_begin_ns || core->halts < before)
    return wakes;
  return fmin(wakes, (double)(core->halts - before));
}

/* Returns a lower bound of the time that the columns account for. If idle time
 * may include steal, the two may overlap, so only the larger of them is
 * added. */
static double progress_ns(const struct engine *engine,
                          const struct core_totals *growth) {
  if (engine_steal_is_apart(engine))
    return core_stat_sum(growth);
  return growth->stat_busy + fmax(growth->stat_idle, growth->stat_steal);
}

void core_read_idle(const struct engine *engine, struct core *core) {
  struct core_sample *sample = &core->sample;
  struct core_totals *growth = &sample->growth;
  if (!sample->stat_valid)
    return;
  growth->wall = sample->monotonic_ns = growth->stat_wall;
  growth->unhalted = growth->wall - growth->stat_idle -
                     (engine_steal_is_apart(engine) ? growth->stat_steal : 0) +
                     fmin(sample->polled_ns, growth->stat_idle);
  sample->begin_ns = sample->stat_begin_ns;
  sample->end_ns = engine->stat.time_ns;
  bounds_idle(growth, engine, core);
  sample->progress_ns = progress_ns(engine, growth);
}
