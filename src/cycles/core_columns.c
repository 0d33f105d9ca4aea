/* What the columns of /proc/stat say about one core between two samples. */
#include "core.h"

/* How far a column of /proc/stat may be wrong: it is truncated to a tick at
 * both ends of a window. */
#define COLUMN_RESOLUTION_NS 10e6

/* A shorter window is mostly rounding and becomes part of the next. */
#define WINDOW_MIN_NS UINT64_C(20000000) /* two ticks of the columns */

/* The kernel reads idle and iowait one after the other. If a task begins to
 * wait or wakes in between, the sum is wrong for this read, by up to a whole
 * period of idleness. In some kernels the sum also steps back by some ticks. */
#define STEP_BACK_MAX_NS UINT64_C(50000000)

/* Columns that are wrong in this many consecutive windows have begun anew. */
#define REFUSALS_MAX 3

void core_forget_columns(struct core *core, struct engine_core *state) {
  state->total.stat_epoch++;
  core->has_row = false;
}

/* Columns other than idle and iowait never fall; if a difference is negative
 * nevertheless, it counts as 0. */
static double risen(uint64_t from, uint64_t to) {
  return to > from ? (double)(to - from) : 0;
}

static void set_base(struct core *core, const struct procstat_row *row,
                     uint64_t idle_ns, uint64_t time_ns) {
  core->row = *row;
  core->idle_ns = idle_ns;
  core->row_time_ns = time_ns;
  core->has_row = true;
  core->refusals = 0;
}

/* The time in which the core certainly did not run. */
static double not_run_ns(const struct core_step *step, bool steal_apart) {
  return step->idle_ns + (steal_apart ? step->steal_ns : 0);
}

static bool is_plausible(const struct core *core, uint64_t idle_ns,
                         bool steal_apart) {
  const struct core_step *step = &core->step;
  double resolution_ns = (steal_apart ? 3 : 2) * COLUMN_RESOLUTION_NS;
  return idle_ns + STEP_BACK_MAX_NS >= core->idle_ns &&
         not_run_ns(step, steal_apart) <= step->stat_wall_ns + resolution_ns;
}

void core_read_columns(struct core *core, struct engine_core *state,
                       const struct core_context *context) {
  const struct procstat *stat = context->stat;
  struct core_step *step = &core->step;
  if (stat == NULL || !core_set_has(&stat->cores, state->core)) {
    if (core->has_row)
      core_forget_columns(core, state);
    return;
  }
  const struct procstat_row *row = &stat->rows[state->core];
  uint64_t idle_ns = procstat_idle_ns(row);
  if (!core->has_row) {
    set_base(core, row, idle_ns, stat->time_ns);
    return;
  }
  if (stat->time_ns < core->row_time_ns + WINDOW_MIN_NS)
    return;
  double wall_ns = (double)(stat->time_ns - core->row_time_ns);
  double steal_ns =
      risen(core->row.ns[PROCSTAT_STEAL], row->ns[PROCSTAT_STEAL]);
  step->stat_wall_ns = wall_ns;
  step->idle_ns = risen(core->idle_ns, idle_ns);
  step->busy_ns = risen(procstat_busy_ns(&core->row), procstat_busy_ns(row));
  step->steal_ns = steal_ns < wall_ns ? steal_ns : wall_ns;
  step->guest_ns = risen(procstat_guest_ns(&core->row), procstat_guest_ns(row));
  step->sum_ns = step->busy_ns + step->idle_ns + step->steal_ns;
  for (int i = 0; i < PROCSTAT_COLUMNS; i++)
    step->column_ns[i] = risen(core->row.ns[i], row->ns[i]);
  if (!is_plausible(core, idle_ns, context->steal_apart)) {
    context->counts->errors++;
    context->counts->windows_discarded++;
    /* As long as the base stays, the next window covers this one, too. */
    if (++core->refusals == REFUSALS_MAX)
      set_base(core, row, idle_ns, stat->time_ns);
    return;
  }
  step->stat_valid = true;
  set_base(core, row, idle_ns > core->idle_ns ? idle_ns : core->idle_ns,
           stat->time_ns);
}

void core_read_idle(struct core *core, const struct core_context *context) {
  struct core_step *step = &core->step;
  if (!step->stat_valid)
    return;
  step->valid = true;
  step->wall_ns = step->stat_wall_ns;
  step->unhalted_ns =
      step->stat_wall_ns - not_run_ns(step, context->steal_apart);
  step->stolen_ns = context->steal_apart ? 0 : step->steal_ns;
  step->progress_ns = step->sum_ns;
  step->progress_wall_ns = step->stat_wall_ns;
}
