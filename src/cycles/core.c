#include "bounds.h"
#include "engine_private.h"

#include "base/portable.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The delay before the next attempt after a source or the IPC counters have
 * failed on a core. It doubles with each failure up to the maximum. */
#define REST_FIRST_NS NS_PER_S
#define REST_MAX_NS (60 * NS_PER_S)

/* A load that a counter or the idle clock measures may be out of range by this
 * much in addition to the errors of bounds.h. */
#define LOAD_TOLERANCE 0.005

/* A counter that was enabled for less of its window by more than this was away
 * meanwhile, with its core or with the whole machine: CLOCK_MONOTONIC is read a
 * little later than the counter, and runs at a slightly different rate. */
#define COUNTER_LATE_NS 200e3
#define COUNTER_DRIFT 0.002

/* After this many consecutive readings with an impossible load, or in which the
 * counter did not run for STARVED_MIN_NS, the core gives up its source. */
#define REFUSED_MAX 3
#define STARVED_MIN_NS (5 * NS_PER_S)
#define STARVED_FIRST_NS (60 * NS_PER_S)
#define STARVED_MAX_NS (3600 * NS_PER_S)

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
 * Opening and closing
 */

/* Makes the sample one without a load. Keeps the columns of /proc/stat. */
static void forget_growth(struct core *core) {
  struct core_totals *growth = &core->sample.growth;
  growth->wall = growth->unhalted = growth->unknown = 0;
  growth->base_cycles = growth->base_wall = 0;
  growth->aperf = growth->mperf = 0;
}

void core_begin_epoch(struct core *core) {
  core->total.epoch++;
  core->total.end_over = core->total.end_under = 0;
  core->total_end_ns = 0;
  core->total_end_kind = SOURCE_NONE;
}

/* Makes the next window of /proc/stat begin at the next reading. */
static void forget_columns(struct core *core) {
  core->total.stat_epoch++;
  core->row_time_ns = 0;
}

static void drop_source(struct core *core) {
  perf_group_close(&core->group);
  core->source_index = -1;
  core->source = SOURCE_NONE;
  core->reading_time_ns = 0;
  core->refused = 0;
  core->judged.epoch = UINT64_MAX; /* no window of another source is judged */
}

static void drop_ipc(struct core *core) {
  perf_group_close(&core->ipc_group);
  core->total.ipc_epoch++;
  core->ipc_reading.events_len = 0;
}

void core_close(struct core *core) {
  drop_source(core);
  core_begin_epoch(core);
  drop_ipc(core);
  forget_columns(core);
}

void core_restart(struct core *core) {
  core_close(core);
  memset(core->backoff, 0, sizeof(core->backoff));
  core->ipc_backoff = (struct backoff){0};
  core->carry_ns = core->steal_before_ns = 0;
  core->driver.polls = false;
  core->polls = true;
  core->polled_at_ns = 0;
  core->condemned = 0;
}

static void rest(const struct engine *engine, struct backoff *backoff) {
  backoff_extend(backoff, engine->time_ns, REST_FIRST_NS, REST_MAX_NS);
}

/* True if the core may use this source now. */
static bool is_usable(const struct engine *engine, const struct core *core,
                      int index, unsigned allowed) {
  const struct source *source = &engine->sources[index];
  return source->available && source->proof != PROOF_REFUTED &&
         !(core->condemned >> index & 1) &&
         (source->proof == PROOF_PROVEN || !source->must_be_proven) &&
         (allowed >> source->kind & 1) &&
         core_set_has(&source->cores, core->number) &&
         core->backoff[index].until_ns <= engine->time_ns;
}

static void compute_room(struct engine *engine) {
  const struct machine *machine = engine->options.machine;
  struct perf_room *room = &engine->room;
  if (room->computed)
    return;
  room->computed = true;
  room->left = machine->perf_room(machine->context, room->wanted,
                                  engine->options.raise_limit);
  room->missing = room->left < room->wanted ? room->wanted - room->left : 0;
}

/* Reserves a descriptor for each of `counters` counters. Returns 0, or -EMFILE
 * if too few are left. */
static int take_room(struct engine *engine, int counters) {
  compute_room(engine);
  if (engine->room.left < counters)
    return -EMFILE;
  engine->room.left -= counters;
  return 0;
}

/* Returns the type of the PMU that counts on this core, or 0 if the processor
 * is not hybrid. On a hybrid processor, an event without a PMU type counts on
 * one kind of core only. */
static uint64_t pmu_type_of(const struct engine *engine, int core) {
  for (int i = 0; i < engine->sources_len; i++)
    if (engine->sources[i].pmu_type != 0 &&
        core_set_has(&engine->sources[i].cores, core))
      return engine->sources[i].pmu_type;
  return 0;
}

static void open_ipc_group(struct engine *engine, struct core *core,
                           unsigned allowed) {
  static const uint64_t configs[2] = {PERF_COUNT_HW_CPU_CYCLES,
                                      PERF_COUNT_HW_INSTRUCTIONS};
  bool undisturbed = (allowed & SOURCE_COUNTERS) == 0;
  if (undisturbed)
    drop_ipc(core);
  if (!engine->options.ipc || !engine->options.hardware || undisturbed ||
      core->ipc_group.events_len > 0 ||
      core->ipc_backoff.until_ns > engine->time_ns)
    return;
  /* Counters for loads have priority: if there are too few descriptors for all
   * counters, no IPC counters are opened. */
  compute_room(engine);
  if (engine->room.missing > 0 || take_room(engine, 2) != 0)
    return;
  uint64_t pmu_type = pmu_type_of(engine, core->number);
  struct perf_event events[2];
  for (int i = 0; i < 2; i++)
    events[i] = (struct perf_event){.type = PERF_TYPE_HARDWARE,
                                    .config = configs[i] |
                                              pmu_type << PERF_PMU_TYPE_SHIFT,
                                    .exclude_guest = true};
  drop_ipc(core);
  int status = perf_group_open(&core->ipc_group, engine->options.machine,
                               core->number, events, 2, false);
  if (status == 0) {
    core->ipc_backoff.wait_ns = 0;
    return;
  }
  rest(engine, &core->ipc_backoff);
  char why[WHY_SIZE];
  perf_explain(why, sizeof(why), status);
  if (engine_begins(engine, CONDITION_NO_IPC, true))
    engine_say(engine, JOURNAL_WARNING,
               "instructions per cycle are unavailable on core %d, and "
               "perhaps on others: %s",
               core->number, why);
}

/* Returns 0 if the core can use the source now, or -errno. Opens the counter
 * group and reads it once. Otherwise, a group that can be opened but not read
 * would be chosen, announced and given up again at every attempt. A pinned
 * group that did not receive its counter (-EBUSY) is accepted, because
 * read_failed handles that error. The bpf source can be used if the idle clock
 * has already run on the core. */
static int try_source(struct engine *engine, const struct core *core,
                      const struct source *source, struct perf_group *group) {
  uint64_t halted_ns;
  struct perf_reading reading;
  if (source->kind == SOURCE_IDLE)
    return 0;
  if (source->kind == SOURCE_BPF)
    return engine->clock_read
               ? idle_clock_core(engine->clock, core->number, &halted_ns)
               : -EAGAIN;
  int status = take_room(engine, source->events_len);
  if (status == 0)
    status = source_open(source, group, engine->options.machine, core->number,
                         source->pinned);
  if (status != 0)
    return status;
  status = perf_group_read(group, &reading);
  if (status == 0 || status == -EBUSY)
    return 0;
  perf_group_close(group);
  return status;
}

static void explain_clock(struct source *source, const struct core *core) {
  snprintf(source->reason, sizeof(source->reason),
           "the idle clock has not run on core %d, or its value there is wrong",
           core->number);
}

/* Switches the core to the source. Returns false if the core cannot use it;
 * the core then keeps its source. */
static bool take_source(struct engine *engine, struct core *core, int index) {
  struct source *source = &engine->sources[index];
  struct perf_group group = {0};
  int status = try_source(engine, core, source, &group);
  if (status != 0) {
    if (source->kind == SOURCE_BPF)
      explain_clock(source, core);
    else
      perf_explain(source->reason, sizeof(source->reason), status);
    rest(engine, &core->backoff[index]);
    return false;
  }
  drop_source(core);
  core->group = group;
  core->source_index = index;
  core->low_windows = 0;
  return true;
}

static void choose_source(struct engine *engine, struct core *core,
                          unsigned allowed) {
  for (int i = 0; i < engine->sources_len; i++) {
    if (!is_usable(engine, core, i, allowed))
      continue;
    if (i == core->source_index || take_source(engine, core, i))
      return;
  }
  if (core->source_index >= 0)
    drop_source(core);
}

void core_choose(struct engine *engine, struct core *core, unsigned allowed) {
  core->allowed = allowed;
  choose_source(engine, core, allowed);
  const struct source *source =
      core->source_index >= 0 ? &engine->sources[core->source_index] : NULL;
  core->source = source != NULL ? source->kind : SOURCE_NONE;
  core->proof = source != NULL ? source->proof : PROOF_PENDING;
  open_ipc_group(engine, core, allowed);
}

/* ---------------------------------------------------------------------------
 * The columns of /proc/stat
 */

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

static void set_base(struct engine *engine, struct core *core,
                     uint64_t idle_ns) {
  const struct procstat *stat = &engine->stat;
  if (core->sample.stat_valid)
    core->steal_ns += core->sample.growth.stat_steal;
  else if (core->steal_at_ns > 0) /* unknown, as columns are missing */
    core->steal_ns += (double)(stat->time_ns - core->steal_at_ns) +
                      COLUMN_RESOLUTION_NS +
                      (core->row_bracket_ns + (double)stat->bracket_ns) / 2;
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

/* Reads the columns. An impossible window is refused but its start is kept, so
 * that the next window also covers its time. */
static void read_columns(struct engine *engine, struct core *core) {
  const struct procstat *stat = &engine->stat;
  if (!engine->stat_valid || !core_set_has(&stat->cores, core->number)) {
    if (core->row_time_ns > 0)
      forget_columns(core);
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
  set_base(engine, core, idle_ns > core->idle_ns ? idle_ns : core->idle_ns);
  if (engine->never_halts)
    core->sample.growth.stat_polled = core->sample.growth.stat_idle;
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

/* Returns a lower bound of the time that the columns account for. If idle time
 * may include steal, the two may overlap, so only the larger of them is
 * added. */
static double progress_ns(const struct engine *engine,
                          const struct core_totals *growth) {
  if (engine_steal_is_apart(engine))
    return core_stat_sum(growth);
  return growth->stat_busy + fmax(growth->stat_idle, growth->stat_steal);
}

/* Computes the load of the idle source. */
static void read_idle(struct engine *engine, struct core *core) {
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

/* ---------------------------------------------------------------------------
 * Reading
 */

/* True if the idle columns may cover a sample for which the core's source has
 * no load, so that neither a bad reading nor a change of sources costs a window
 * its load. */
static bool may_fill(struct engine *engine, const struct core *core) {
  const struct source *idle = engine_source(engine, SOURCE_IDLE);
  return (core->allowed >> SOURCE_IDLE & 1) && core->total_end_ns > 0 &&
         idle->available && idle->proof != PROOF_TICK_SAMPLED &&
         idle->proof != PROOF_REFUTED;
}

static void read_counter(struct engine *engine, struct core *core);

/* Changes to the next source, and delays the next attempt to use the one that
 * failed. */
static void give_up(struct engine *engine, struct core *core) {
  rest(engine, &core->backoff[core->source_index]);
  drop_source(core);
  core_choose(engine, core, core->allowed);
}

/* Closes a group that no longer works and opens it again. Reads the new group
 * immediately, so that the next sample produces a load. */
static void reopen(struct engine *engine, struct core *core, bool pinned) {
  const struct source *source = &engine->sources[core->source_index];
  perf_group_close(&core->group);
  engine->counts.reopens++;
  engine->counts.windows_discarded++;
  core->reading_time_ns = 0;
  if (source_open(source, &core->group, engine->options.machine, core->number,
                  pinned) == 0)
    read_counter(engine, core);
  else
    give_up(engine, core);
}

/* Handles a failed reading. If another user of the PMU has taken the
 * counter of a pinned group (-EBUSY), reopens the group without pinning it. The
 * group then shares counters, and its readings are scaled. */
static void read_failed(struct engine *engine, struct core *core, int status) {
  struct source *source = &engine->sources[core->source_index];
  if (status == -EBUSY && core->group.pinned) {
    if (engine_begins(engine, CONDITION_COUNTERS_SHARED, true))
      engine_say(engine, JOURNAL_NOTICE,
                 "core %d: %s lost its counter to another user of the PMU; "
                 "from now on, counters already in use are shared, and their "
                 "readings are scaled",
                 core->number, source_name(source->kind));
    reopen(engine, core, false);
    return;
  }
  if (status == -ESTALE && core->reading_time_ns > 0) {
    core_begin_epoch(core); /* the core was offline */
    reopen(engine, core, core->group.pinned);
    return;
  }
  snprintf(source->reason, sizeof(source->reason),
           "it could not be read on core %d: %s", core->number,
           strerror(-status));
  engine->counts.errors++;
  give_up(engine, core);
}

/* True if the load of a window is possible. */
static bool is_plausible(const struct core *core, double off_ns) {
  const struct core_totals *growth = &core->sample.growth;
  double most = source_is_counter(core->source) ? SOURCE_RATE_MAX : 1;
  off_ns += LOAD_TOLERANCE * growth->wall;
  return growth->unhalted >= -off_ns &&
         growth->unhalted <= most * growth->wall + off_ns;
}

/* Handles a window without a usable load. After REFUSED_MAX such windows, the
 * core gives up the source; if the source read impossible loads, it must also
 * be proven again, because its proof was wrong. Returns true if the next window
 * begins with this reading, because the idle columns cover this one; otherwise,
 * the next window includes it. */
static bool refuse(struct engine *engine, struct core *core, bool starved) {
  struct source *source = &engine->sources[core->source_index];
  const struct core_totals growth = core->sample.growth;
  forget_growth(core);
  engine->counts.errors += !starved;
  engine->counts.windows_discarded++;
  if (core->refused++ == 0)
    core->refused_since_ns = engine->time_ns;
  if (core->refused < REFUSED_MAX ||
      (starved && engine->time_ns - core->refused_since_ns < STARVED_MIN_NS))
    return core->sample.stat_valid && may_fill(engine, core);
  if (starved) {
    snprintf(source->reason, sizeof(source->reason),
             "other users of the PMU hold its counters on core %d",
             core->number);
    backoff_extend(&core->backoff[core->source_index], engine->time_ns,
                   STARVED_FIRST_NS, STARVED_MAX_NS);
    drop_source(core);
    core_choose(engine, core, core->allowed);
    return false;
  }
  snprintf(source->reason, sizeof(source->reason),
           "it read %.1f %% on core %d: it must be proven again",
           100 * growth.unhalted / growth.wall, core->number);
  if (source_is_counter(source->kind)) {
    source->proof = PROOF_PENDING;
    source->must_be_proven = true;
  }
  give_up(engine, core);
  return false;
}

/* Returns by which share of it the rate of the TSC has changed since the last
 * window; 0 if the source does not use the TSC. */
static double tsc_change(struct core *core, const struct source *source) {
  const struct core_totals *growth = &core->sample.growth;
  double before = core->window_tsc_per_ns;
  if (source->tsc < 0)
    return 0;
  core->window_tsc_per_ns = growth->base_cycles / growth->base_wall;
  return before > 0 ? fmin(fabs(1 - before / core->window_tsc_per_ns), 1) : 0;
}

/* Ends the sample's window at end_ns, if there was a reading before. Returns
 * false if the window is refused and the next window includes it. The window is
 * good if this sets sample->end_ns. */
static bool end_window(struct engine *engine, struct core *core,
                       uint64_t end_ns, double off_ns, bool starved) {
  struct core_sample *sample = &core->sample;
  struct core_totals *growth = &sample->growth;
  bool has_begun = core->reading_time_ns > 0;
  bool bad = starved || (has_begun && !is_plausible(core, off_ns));
  if (bad && !refuse(engine, core, starved))
    return false;
  if (has_begun && !bad) {
    core->refused = 0;
    growth->unhalted = fmax(fmin(growth->unhalted, growth->wall), 0);
    sample->begin_ns = core->reading_time_ns;
    sample->end_ns = end_ns;
  }
  core->reading_time_ns = end_ns;
  return true;
}

static void read_counter(struct engine *engine, struct core *core) {
  const struct source *source = &engine->sources[core->source_index];
  struct core_sample *sample = &core->sample;
  struct core_totals *growth = &sample->growth;
  struct perf_reading reading;
  int status = perf_group_read(&core->group, &reading);
  uint64_t time_ns = machine_now_ns(engine->options.machine, CLOCK_MONOTONIC);
  if (status != 0) {
    read_failed(engine, core, status);
    return;
  }
  if (core->reading_time_ns > 0)
    status = source_window(source, &core->reading, &reading, growth,
                           &core->multiplexed);
  if (status == -ESTALE) {
    core_begin_epoch(core); /* the core was offline */
    reopen(engine, core, core->group.pinned);
    return;
  }
  if (status == -EAGAIN)
    core->multiplexed = 0;
  if (!end_window(engine, core, time_ns, COUNTER_SKEW_NS, status == -EAGAIN))
    return;
  if (sample->end_ns > 0) {
    bounds_counter(growth, source, core->multiplexed, tsc_change(core, source));
    sample->progress_ns = growth->wall;
    sample->monotonic_ns = (double)(time_ns - sample->begin_ns);
    double missing_ns = sample->monotonic_ns - growth->wall;
    if (missing_ns > COUNTER_LATE_NS + COUNTER_DRIFT * growth->wall)
      growth->unknown = missing_ns;
    core->backoff[core->source_index].wait_ns = 0;
  }
  core->reading = reading;
}

/* Computes the core's unhalted time from the idle clock. If the engine could
 * not read the clock in this sample, does nothing: the next window then also
 * covers the time of this sample. */
static void read_clock(struct engine *engine, struct core *core) {
  struct core_sample *sample = &core->sample;
  struct core_totals *growth = &sample->growth;
  uint64_t halted_ns;
  if (!engine->clock_read)
    return;
  uint64_t time_ns = (uint64_t)engine->clock->time_ns;
  if (idle_clock_core(engine->clock, core->number, &halted_ns) != 0) {
    explain_clock(&engine->sources[core->source_index], core);
    engine->counts.errors++;
    give_up(engine, core);
    return;
  }
  if (core->reading_time_ns > 0) {
    growth->wall = (double)(time_ns - core->reading_time_ns);
    growth->unhalted = growth->wall - (double)(halted_ns - core->halted_ns);
  }
  if (!end_window(engine, core, time_ns, 2 * (double)engine->clock->bracket_ns,
                  false))
    return;
  if (sample->end_ns > 0) {
    bounds_bpf(growth, engine, core);
    if (sample->stat_valid) {
      sample->progress_ns = core_stat_sum(growth);
      sample->monotonic_ns = growth->stat_wall;
    }
  }
  core->halted_ns = halted_ns;
  core->reading_steal_ns = core->steal_ns;
  core->backoff[core->source_index].wait_ns = 0;
}

static void read_ipc(struct core *core) {
  const struct perf_reading *from = &core->ipc_reading;
  struct perf_reading to;
  struct core_totals *total = &core->total;
  bool has_begun = from->events_len > 0;
  if (core->ipc_group.events_len == 0)
    return;
  if (perf_group_read(&core->ipc_group, &to) != 0 ||
      (has_begun && to.time_enabled_ns <= from->time_enabled_ns)) {
    drop_ipc(core);
    return;
  }
  if (has_begun) {
    total->cycles += (double)(to.value[0] - from->value[0]);
    total->instructions += (double)(to.value[1] - from->value[1]);
    total->ipc_enabled += (double)(to.time_enabled_ns - from->time_enabled_ns);
    total->ipc_running += (double)(to.time_running_ns - from->time_running_ns);
  }
  core->ipc_reading = to;
}

void core_read(struct engine *engine, struct core *core) {
  core->sample = (struct core_sample){.progress_ns = -1};
  read_columns(engine, core);
  if (core->source == SOURCE_IDLE)
    read_idle(engine, core);
  else if (core->source == SOURCE_BPF)
    read_clock(engine, core);
  else if (core->source_index >= 0)
    read_counter(engine, core);
  /* The next window of the source may also cover this sample. */
  bool pends =
      core->reading_time_ns > 0 && core->reading_time_ns <= core->total_end_ns;
  if (!(core->sample.growth.wall > 0) && !pends && may_fill(engine, core)) {
    core->sample.filled = true;
    if (core->driver.polls && core->polled_at_ns < core->row_time_ns)
      read_polled(engine, core);
    read_idle(engine, core);
  }
  read_ipc(core);
}

/* ---------------------------------------------------------------------------
 * Adding up
 */

static void add_columns(struct core_totals *total,
                        const struct core_totals *growth) {
  total->stat_wall += growth->stat_wall;
  total->stat_busy += growth->stat_busy;
  total->stat_idle += growth->stat_idle;
  total->stat_steal += growth->stat_steal;
  total->stat_polled += growth->stat_polled;
  for (int i = 0; i < PROCSTAT_COLUMNS; i++)
    total->stat_ns[i] += growth->stat_ns[i];
}

/* Adds the part of the sample that no earlier window covers. Windows overlap
 * only where the source has changed; the overlap may have been busy or halted.
 * There, the errors of the last reading of the old source and of the first
 * reading of the new one do not cancel. All steal may be outside the overlap.
 */
static void add_load(struct core *core, const struct core_sample *sample,
                     enum source_kind kind) {
  const struct core_totals *growth = &sample->growth;
  struct core_totals *total = &core->total;
  uint64_t end_ns = core->total_end_ns;
  double wall = growth->wall, overlap = 0;
  if (sample->end_ns <= end_ns)
    return;
  if (end_ns > 0 && sample->begin_ns > end_ns)
    total->unknown += (double)(sample->begin_ns - end_ns);
  if (sample->begin_ns < end_ns)
    overlap = fmin((double)(end_ns - sample->begin_ns), wall);
  double share = 1 - overlap / wall;
  double busy = fmin(fmax(growth->unhalted / wall, 0), 1);
  core->total_end_ns = sample->end_ns;
  total->wall += share * wall;
  total->unknown += share * growth->unknown;
  total->unhalted += share * growth->unhalted;
  total->stolen += growth->stolen;
  total->over += share * growth->over + overlap * (1 - busy);
  total->under += share * growth->under + overlap * busy;
  if (kind != core->total_end_kind) {
    total->over += total->end_over + growth->end_under;
    total->under += total->end_under + growth->end_over;
  }
  core->total_end_kind = kind;
  total->end_over = growth->end_over;
  total->end_under = growth->end_under;
  total->aperf += growth->aperf;
  total->mperf += growth->mperf;
  total->base_cycles += growth->base_cycles;
  total->base_wall += growth->base_wall;
}

/* Returns when the core's next window will begin. */
static uint64_t next_begin_ns(struct engine *engine, const struct core *core) {
  if (core->source != SOURCE_IDLE && core->reading_time_ns > 0)
    return core->reading_time_ns;
  if (core->row_time_ns > 0 &&
      (core->source == SOURCE_IDLE || may_fill(engine, core)))
    return core->row_time_ns;
  return engine->time_ns;
}

void core_commit(struct engine *engine, struct core *core) {
  const struct core_sample *sample = &core->sample;
  struct core_totals *total = &core->total;
  if (sample->stat_valid)
    add_columns(total, &sample->growth);
  if (sample->growth.wall > 0)
    add_load(core, sample, sample->filled ? SOURCE_IDLE : core->source);
  uint64_t next_ns = next_begin_ns(engine, core);
  if (core->total_end_ns > 0 && next_ns > core->total_end_ns) {
    total->unknown += (double)(next_ns - core->total_end_ns);
    core->total_end_ns = next_ns;
    core->total_end_kind = SOURCE_NONE;
  }
}
