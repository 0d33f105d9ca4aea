/* The source idle: /proc/stat, and what its columns say of each core. */
#include "engine_private.h"

#include "cpuidle.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---------------------------------------------------------------------------
 * The kernel
 */

#define BTF_SIZE ((size_t)8 << 20) /* as large as it usually is at most */

/* Searches the kernel's type information for the names of structure members. A
 * NUL precedes and ends each name. */
static void find_kernel_members(struct engine *engine) {
  static const char *const names[KERNEL_MEMBERS] = {
      [KERNEL_IDLE_STEALTIME] = "\0idle_stealtime",
      [KERNEL_IDLE_DYNTICK] = "\0idle_dyntick",
      [KERNEL_PREV_IRQ_TIME] = "\0prev_irq_time",
  };
  size_t size = BTF_SIZE;
  char *btf = malloc(size);
  if (btf == NULL)
    return;
  ssize_t length = machine_read_long(engine->options.machine,
                                     "/sys/kernel/btf/vmlinux", &btf, &size);
  for (int i = 0; i < KERNEL_MEMBERS && length > 0; i++)
    engine->kernel_has[i] =
        memmem(btf, (size_t)length, names[i], strlen(names[i] + 1) + 2) != NULL;
  free(btf);
}

/* Without a dynamic tick, no proof is needed to know what idle time is. */
static void find_tick(struct engine *engine) {
  const struct machine *machine = engine->options.machine;
  struct source *idle = engine_source(engine, SOURCE_IDLE);
  if (!machine_booted_with(machine, "nohz=off") &&
      !machine_booted_with(machine, "nohz=0"))
    return;
  idle->proof = PROOF_TICK_SAMPLED;
  snprintf(idle->reason, sizeof(idle->reason),
           "this kernel was booted with nohz=off, so it samples idle time at "
           "the tick");
  engine_say(engine, JOURNAL_WARNING, "source idle is tick-sampled: %s",
             idle->reason);
}

/* The list of all events is read, because the kernel goes through all events
 * for each folder of them, too. */
bool idle_is_traced(const struct engine *engine) {
  static const char *const files[][2] = {{"set_event", ""},
                                         {"current_tracer", "nop\n"}};
  const struct machine *machine = engine->options.machine;
  char text[16];
  for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
    ssize_t length = machine_read(machine, text, sizeof(text),
                                  "/sys/kernel/tracing/%s", files[i][0]);
    if ((length > 0 || length == -EFBIG) && strcmp(text, files[i][1]) != 0)
      return true;
  }
  return engine->options.hardware && machine->clocks->tracers() > 0;
}

void idle_find(struct engine *engine) {
  find_kernel_members(engine);
  find_tick(engine);
}

/* True if any core has spent time in this column of /proc/stat since boot. */
static bool is_used(const struct engine *engine, enum procstat_column column) {
  core_set_for_each(core, &engine->stat.cores) {
    if (engine->stat.rows[core].ns[column] > 0)
      return true;
  }
  return false;
}

/* A kernel that samples interrupts at the tick never adds to the column irq,
 * because the tick cannot interrupt another interrupt. A column irq above 0
 * thus shows that the kernel times interrupts. */
bool engine_softirq_is_idle(const struct engine *engine) {
  return engine->kernel_has[KERNEL_IDLE_DYNTICK] && engine->stat_valid &&
         !(engine->kernel_has[KERNEL_PREV_IRQ_TIME] &&
           is_used(engine, PROCSTAT_IRQ));
}

bool engine_steal_is_unknown(const struct engine *engine) {
  return engine->topology.may_be_virtual && engine->stat_valid &&
         !is_used(engine, PROCSTAT_STEAL);
}

/* ---------------------------------------------------------------------------
 * /proc/stat
 */

/* Where no column moves for this long, none will: in a sandbox, such as gVisor,
 * the file may contain zeros only. */
#define STILL_MAX_NS (5 * NS_PER_S / 2)

/* Finds out whether /proc/stat stands still. Returns true if it has done so in
 * more than one sample, and for long. */
static bool stands_still(struct engine *engine) {
  bool was_still = engine->stat_still;
  engine->stat_still = engine->stat.digest == engine->stat_digest;
  if (!engine->stat_still)
    engine->stat_moved_ns = engine->time_ns;
  engine->stat_digest = engine->stat.digest;
  return was_still && engine->stat_still &&
         engine->time_ns - engine->stat_moved_ns >= STILL_MAX_NS;
}

static bool same_cores(const struct engine *engine) {
  return core_set_equal(&engine->stat.cores, &engine->topology.online);
}

/* Writes to `text` why /proc/stat, whose reading ended with `status`, cannot be
 * used, or "". In a container, LXCFS may renumber the rows, or compute them
 * from the container's own use, and no file shows which cores of sysfs they
 * describe. */
static void find_stat_trouble(struct engine *engine, int status,
                              char text[WHY_SIZE]) {
  char rows[96], cores[96];
  bool still = status == 0 && stands_still(engine);
  text[0] = '\0';
  if (status != 0) {
    snprintf(text, WHY_SIZE, "/proc/stat cannot be used: %s",
             strerror(-status));
  } else if (engine->lxcfs) {
    snprintf(text, WHY_SIZE,
             "LXCFS provides /proc/stat, and may renumber cores for this "
             "container");
  } else if (still) {
    snprintf(text, WHY_SIZE,
             "/proc/stat stands still: a sandbox may provide it");
  } else if (!same_cores(engine)) {
    core_set_format(&engine->stat.cores, rows, sizeof(rows));
    core_set_format(&engine->topology.online, cores, sizeof(cores));
    snprintf(text, WHY_SIZE,
             "/proc/stat lists cores %s, but cores %s are online", rows, cores);
  }
}

int idle_begin(struct engine *engine) {
  struct source *idle = engine_source(engine, SOURCE_IDLE);
  char trouble[WHY_SIZE];
  int status = procstat_read(&engine->stat, engine->options.machine);
  if (status == 0 && !same_cores(engine))
    /* A core may have just come online or gone offline. */
    status = engine_find_hotplug(engine, true);
  find_stat_trouble(engine, status, trouble);
  engine->stat_valid = trouble[0] == '\0';
  if (condition_begins(engine, CONDITION_STAT_WITHHELD, !engine->stat_valid))
    engine_say(engine, JOURNAL_WARNING,
               "%s: the source idle and figures that need /proc/stat are "
               "withheld",
               trouble);
  if (!engine->stat_valid || !idle->available)
    memcpy(idle->reason, trouble, sizeof(trouble));
  idle->available = engine->stat_valid;
  if (status == 0)
    engine->idle_misses = engine_softirq_is_idle(engine);
  return status;
}

/* ---------------------------------------------------------------------------
 * The columns of a core
 */

void idle_forget(struct core *core) {
  core->total.stat_epoch++;
  core->row_time_ns = 0;
}

/* Returns how much a column grew, or 0 if it decreased. Columns other than idle
 * and iowait should never decrease. */
static double risen(uint64_t from, uint64_t to) {
  return to > from ? (double)(to - from) : 0;
}

/* A core that polls for less than this share is treated as one that does not.
 */
#define POLLED_MIN 0.001

/* Reads how long the core has polled, and adds it to the sample. The time is
 * not cut to idle time, whose columns are truncated: what is cut here would be
 * missing in the sum of many samples. */
static void read_polled(struct engine *engine, struct core *core) {
  const struct machine *machine = engine->options.machine;
  struct core_sample *sample = &core->sample;
  struct core_totals *growth = &sample->growth;
  uint64_t polled_ns, before_ns = core->polled_at_ns;
  int status =
      cpuidle_read_polled(&polled_ns, machine, core->number, &core->driver);
  core->polls = false;
  if (status != 0)
    return;
  core->polled_at_ns = machine_now_ns(machine, CLOCK_MONOTONIC);
  if (before_ns > 0)
    growth->stat_polled =
        fmin(risen(core->polled_ns, polled_ns),
             (double)(core->polled_at_ns - before_ns) + COLUMN_RESOLUTION_NS);
  core->polls = growth->stat_polled > POLLED_MIN * growth->stat_wall;
  sample->polled_late_ns = (double)(core->polled_at_ns - engine->stat.time_ns);
  sample->polled_began_early = before_ns < sample->stat_begin_ns;
  if (sample->polled_began_early)
    growth->stat_polled = fmin(growth->stat_polled, growth->stat_idle);
  core->polled_ns = polled_ns;
}

/* Returns at most how often the core halted in the window of the columns. */
static double idle_halts(const struct engine *engine, struct core *core) {
  const struct core_sample *sample = &core->sample;
  uint64_t before = core->halts, before_ns = core->halts_ns;
  /* A halt ends with an interrupt or, if the core monitors its run queue, with
   * a switch to a task. */
  double wakes = sample->interrupts + sample->switches;
  if (wakes <= HALTS_FEW * sample->growth.stat_wall || !engine->options.bounds)
    return wakes;
  bool known = cpuidle_read_entries(&core->halts, engine->options.machine,
                                    core->number, &core->driver) == 0;
  core->halts_ns = known ? engine->stat.time_ns : 0;
  if (!known) /* without an idle driver, only MWAIT monitors */
    return engine->topology.monitors ? wakes : sample->interrupts;
  if (core->halts <
      before) /* the driver counts anew, and perhaps more states */
    core->driver.states_max = CPUIDLE_STATES_MAX;
  if (before_ns != sample->stat_begin_ns || core->halts < before)
    return wakes;
  return fmin(wakes, (double)(core->halts - before));
}

static void set_base(struct engine *engine, struct core *core,
                     uint64_t idle_ns) {
  const struct procstat *stat = &engine->stat;
  if (core->sample.stat_valid) {
    core->steal_ns += core->sample.growth.stat_steal;
    if (core->source == SOURCE_BPF)
      core->blind_ns += engine->blind_ns * idle_halts(engine, core);
  } else if (core->steal_at_ns > 0) { /* unknown, as columns are missing */
    double missing_ns = (double)(stat->time_ns - core->steal_at_ns) +
                        (core->row_bracket_ns + (double)stat->bracket_ns) / 2;
    core->steal_ns += missing_ns + COLUMN_RESOLUTION_NS;
    core->blind_ns += missing_ns;
  }
  core->steal_at_ns = stat->time_ns;
  core->row = stat->rows[core->number];
  core->idle_ns = idle_ns;
  core->interrupts = stat->interrupts;
  core->switches = stat->switches;
  core->row_time_ns = stat->time_ns;
  core->row_bracket_ns = (double)stat->bracket_ns;
  core->refusals = 0;
  if (core->polls || (core->driver.polls && core->source == SOURCE_IDLE))
    read_polled(engine, core);
}

/* Idle time and steal may together exceed the window even if the kernel keeps
 * them apart, because it takes the steal of an idle sequence off the next. */
static bool columns_are_plausible(const struct core *core, uint64_t idle_ns) {
  const struct core_totals *growth = &core->sample.growth;
  return idle_ns + STEP_BACK_MAX_NS >= core->idle_ns &&
         growth->stat_idle <= growth->stat_wall + core->sample.bracket_ns +
                                  2 * COLUMN_RESOLUTION_NS;
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
  growth->stat_steal =
      fmin(growth->stat_ns[PROCSTAT_STEAL],
           wall_ns + core->sample.bracket_ns + COLUMN_RESOLUTION_NS);
}

/* An impossible window is refused but its start is kept, so
 * that the next window also covers its time. */
void idle_read_columns(struct engine *engine, struct core *core) {
  const struct procstat *stat = &engine->stat;
  if (!engine->stat_valid || !core_set_has(&stat->cores, core->number)) {
    if (core->row_time_ns > 0)
      idle_forget(core);
    return;
  }
  if (engine->stat_still) /* the rows may be old */
    return;
  const struct procstat_row *row = &stat->rows[core->number];
  uint64_t idle_ns = procstat_idle_ns(row);
  if (core->row_time_ns == 0) {
    set_base(engine, core, idle_ns);
    return;
  }
  if (stat->time_ns < core->row_time_ns + COLUMNS_WINDOW_MIN_NS)
    return;
  core->sample.bracket_ns =
      fmax(core->row_bracket_ns, (double)stat->bracket_ns);
  subtract_columns(core, row, idle_ns,
                   (double)(stat->time_ns - core->row_time_ns));
  if (!columns_are_plausible(core, idle_ns)) {
    engine->counts.errors++;
    engine->counts.windows_discarded++;
    /* Keep the start of the window, so that the next window includes this
     * window, unless too many windows have been refused. */
    if (++core->refusals == REFUSALS_MAX)
      set_base(engine, core, idle_ns);
    return;
  }
  core->sample.stat_valid = true;
  core->sample.stat_begin_ns = core->row_time_ns;
  core->sample.interrupts =
      fmax((double)(stat->interrupts - core->interrupts), 0);
  core->sample.switches = fmax((double)(stat->switches - core->switches), 0);
  if (core->sample.growth.stat_steal > 0)
    core->stolen_from_ns = engine->time_ns;
  set_base(engine, core, idle_ns > core->idle_ns ? idle_ns : core->idle_ns);
  if (engine->never_halts)
    core->sample.growth.stat_polled = core->sample.growth.stat_idle;
}

/* ---------------------------------------------------------------------------
 * Its load, and how far it may be from the truth
 */

/* Returns a lower bound of the time that the columns account for. If idle time
 * may include steal, the two may overlap, so only the larger of them is
 * added. */
static double progress_ns(const struct engine *engine,
                          const struct core_totals *growth) {
  if (engine_steal_is_apart(engine))
    return core_stat_sum(growth);
  return growth->stat_busy + fmax(growth->stat_idle, growth->stat_steal);
}

/* Returns an upper bound of the carry at the end of the sample. */
static double carry_after(const struct core_totals *growth, struct core *core) {
  double steal = growth->stat_steal;
  if (growth->stat_idle > 0)
    core->carry_ns = core->steal_before_ns;
  core->carry_ns += steal;
  core->steal_before_ns = steal;
  return core->carry_ns;
}

/* A poll is counted when it ends. It takes up to a sixteenth of a tick, or a
 * whole tick if no other idle state may be used. */
#define POLL_NS (COLUMN_RESOLUTION_NS / 16)

/* Adds the errors of the time of polling. It includes interrupts, which idle
 * time leaves out, so that they are counted in both, and perhaps steal. */
static void bounds_polled(struct core_totals *growth, const struct core *core,
                          bool steal_is_apart) {
  double polled = growth->stat_polled;
  double in_both = fmax(growth->unhalted - polled, 0) + growth->end_over +
                   (steal_is_apart ? growth->stat_steal : 0);
  growth->over +=
      core->sample.polled_began_early ? polled : fmin(polled, in_both);
  growth->end_over += polled > 0 ? core->sample.polled_late_ns : 0;
  growth->end_under += polled > 0 ? COLUMN_RESOLUTION_NS : POLL_NS;
}

static void bounds_idle(struct core_totals *growth, struct engine *engine,
                        struct core *core) {
  bool apart = engine_steal_is_apart(engine);
  bool steal = core_has_steal(core);
  double rest = fmax(growth->wall - growth->unhalted, 0);
  double off_ns = core->sample.bracket_ns / 2;
  bool unsure = core->proof == PROOF_TICK_SAMPLED ||
                (core->sample.filled &&
                 engine_source(engine, SOURCE_IDLE)->proof != PROOF_PROVEN);
  growth->stolen = apart ? 0 : growth->stat_steal;
  growth->end_over = off_ns + (2 + steal + core_is_stolen_from(engine, core)) *
                                  COLUMN_RESOLUTION_NS;
  growth->end_under = off_ns;
  if (apart && steal)
    growth->end_under += carry_after(growth, core) + COLUMN_RESOLUTION_NS;
  if (core->driver.polls)
    bounds_polled(growth, core, apart);
  if (unsure)
    growth->over = growth->unhalted;
  growth->under = engine->idle_misses || unsure
                      ? rest
                      : fmin(rest, engine->idle_loop_ns *
                                       (1 + core_is_stolen_from(engine, core)) *
                                       idle_halts(engine, core));
}

void idle_read(struct engine *engine, struct core *core) {
  struct core_sample *sample = &core->sample;
  struct core_totals *growth = &sample->growth;
  if (!sample->stat_valid)
    return;
  growth->wall = sample->monotonic_ns = growth->stat_wall;
  growth->unhalted = growth->wall - growth->stat_idle -
                     (engine_steal_is_apart(engine) ? growth->stat_steal : 0) +
                     growth->stat_polled;
  sample->begin_ns = sample->stat_begin_ns;
  sample->end_ns = engine->stat.time_ns;
  bounds_idle(growth, engine, core);
  sample->progress_ns = progress_ns(engine, growth);
}

void idle_fill(struct engine *engine, struct core *core) {
  core->sample.filled = true;
  if (core->driver.polls && core->polled_at_ns < core->row_time_ns)
    read_polled(engine, core);
  idle_read(engine, core);
}
