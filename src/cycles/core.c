#include "core.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define REST_FIRST_NS UINT64_C(1000000000)
#define REST_MAX_NS (UINT64_C(60) * 1000000000)

/* Two columns, each cut to a tick of 10 ms at both ends of a window. */
#define STAT_RESOLUTION_NS 20e6
#define COUNTER_RESOLUTION 0.005
/* Reading two counters of a group takes this long at worst; it matters only in
 * windows of a few milliseconds. */
#define COUNTER_RESOLUTION_NS 20e3

/* Idle columns that fall behind by more than this did not just step back (which
 * kernels do by some ticks), they were reset. */
#define STAT_RESET_NS UINT64_C(1000000000)

/* How far a load may lie outside 0 to 1 by rounding alone. */
static double resolution_of(enum source source, double wall_ns) {
  return source == SOURCE_IDLE
             ? STAT_RESOLUTION_NS / wall_ns
             : COUNTER_RESOLUTION + COUNTER_RESOLUTION_NS / wall_ns;
}

double engine_load(const struct core_total *from, const struct core_total *to) {
  double wall_ns = to->wall - from->wall;
  if (from->epoch != to->epoch || !(wall_ns > 0))
    return NAN;
  return fmin(fmax((to->unhalted - from->unhalted) / wall_ns, 0), 1);
}

double engine_frequency_hz(const struct core_total *from,
                           const struct core_total *to) {
  double wall_ns = to->wall - from->wall, mperf = to->mperf - from->mperf;
  if (from->epoch != to->epoch || !(wall_ns > 0) || !(mperf > 0))
    return NAN;
  double base_hz = 1e9 * (to->base_cycles - from->base_cycles) / wall_ns;
  return base_hz * (to->aperf - from->aperf) / mperf;
}

/* ---------------------------------------------------------------------------
 * Opening and closing
 */

static void begin_epoch(struct core *core, struct engine_core *state) {
  state->total.epoch++;
  core->has_reading = false;
}

static void begin_stat_epoch(struct core *core, struct engine_core *state) {
  state->total.stat_epoch++;
  core->has_row = false;
}

static void begin_ipc_epoch(struct core *core, struct engine_core *state) {
  state->total.ipc_epoch++;
  core->has_ipc_reading = false;
}

/* Throws the window in progress away; the last readings are forgotten. */
static void discard(struct core *core, struct engine_core *state) {
  begin_epoch(core, state);
  begin_stat_epoch(core, state);
  begin_ipc_epoch(core, state);
  core->condemn.windows = 0;
}

void core_close(struct core *core, struct engine_core *state,
                const struct machine *machine) {
  perf_group_close(&core->group, machine);
  perf_group_close(&core->ipc_group, machine);
  core->candidate = -1;
  state->source = SOURCE_NONE;
  discard(core, state);
}

void core_restart(struct core *core, struct engine_core *state,
                  const struct machine *machine) {
  core_close(core, state, machine);
  memset(core->rest_ns, 0, sizeof(core->rest_ns));
  memset(core->rests_until_ns, 0, sizeof(core->rests_until_ns));
  core->ipc_refused = false;
}

static void rest(struct core *core, int candidate, uint64_t now_ns) {
  uint64_t *rest_ns = &core->rest_ns[candidate];
  *rest_ns = *rest_ns == 0 ? REST_FIRST_NS : *rest_ns * 2;
  if (*rest_ns > REST_MAX_NS)
    *rest_ns = REST_MAX_NS;
  core->rests_until_ns[candidate] = now_ns + *rest_ns;
}

static bool usable(const struct candidate *candidate, int core,
                   unsigned allowed) {
  if (!candidate->available || candidate->proof == PROOF_REFUTED ||
      !(allowed >> candidate->source & 1) || !candidate_serves(candidate, core))
    return false;
  return !candidate->must_be_proven || candidate->proof == PROOF_PROVEN;
}

static void ask_for_room(const struct core_context *context) {
  const struct machine *machine = context->machine;
  struct perf_room *room = context->room;
  if (room->asked)
    return;
  room->asked = true;
  room->left = machine->perf_room == NULL
                   ? LONG_MAX
                   : machine->perf_room(machine->context, room->wanted,
                                        room->raise_limit);
  room->missing = room->left < room->wanted ? room->wanted - room->left : 0;
}

/* Takes room for a group of so many counters. */
static int take_room(const struct core_context *context, int counters) {
  ask_for_room(context);
  if (context->room->left < counters)
    return -EMFILE;
  context->room->left -= counters;
  return 0;
}

static void open_ipc_group(struct core *core, struct engine_core *state,
                           const struct core_context *context,
                           unsigned allowed) {
  bool undisturbed = (allowed & ~(1U << SOURCE_IDLE)) == 0;
  if (undisturbed)
    perf_group_close(&core->ipc_group, context->machine);
  if (!context->ipc || undisturbed || core->ipc_refused ||
      core->ipc_group.events_len > 0)
    return;
  /* Loads come first: where there is no room for all counters, these wait. */
  ask_for_room(context);
  if (context->room->missing > 0 || take_room(context, 2) != 0)
    return;
  int status = perf_group_open(&core->ipc_group, context->machine, state->core,
                               context->ipc_events, 2, false);
  begin_ipc_epoch(core, state);
  if (status == 0)
    return;
  core->ipc_refused = true;
  char why[CANDIDATE_REASON_MAX];
  candidate_explain(why, sizeof(why), status);
  journal_say(context->journal, JOURNAL_WARNING,
              "core %d: no instructions per cycle, of their counters: %s",
              state->core, why);
}

/* A group that opens and cannot be read would be taken, said to serve, and
 * given up again at every try. A pinned one without its counter is for the
 * first reading to deal with. */
static int open_and_try(const struct candidate *candidate,
                        struct perf_group *group, const struct machine *machine,
                        int core) {
  struct perf_reading reading;
  int status =
      candidate_open(candidate, group, machine, core, candidate->pinned);
  if (status != 0)
    return status;
  status = perf_group_read(group, machine, &reading);
  if (status == 0 || status == -EBUSY)
    return 0;
  perf_group_close(group, machine);
  return status;
}

/* Returns whether the candidate serves the core now. */
static bool take_candidate(struct core *core, struct engine_core *state,
                           const struct core_context *context, int index) {
  struct candidate *candidate = &context->candidates[index];
  if (candidate->source == SOURCE_IDLE) {
    perf_group_close(&core->group, context->machine);
    core->candidate = index;
    return true;
  }
  struct perf_group previous = core->group;
  int status = take_room(context, candidate->events_len);
  if (status == 0)
    status =
        open_and_try(candidate, &core->group, context->machine, state->core);
  if (status != 0) {
    core->group = previous;
    candidate_explain(candidate->trouble, sizeof(candidate->trouble), status);
    rest(core, index, context->now_ns);
    return false;
  }
  perf_group_close(&previous, context->machine);
  core->candidate = index;
  if (candidate->proof == PROOF_PROVEN)
    candidate->reason[0] = '\0'; /* condemned once, rested since */
  return true;
}

void core_choose(struct core *core, struct engine_core *state,
                 const struct core_context *context, unsigned allowed) {
  for (int i = 0; i < context->candidates_len; i++) {
    if (!usable(&context->candidates[i], state->core, allowed) ||
        core->rests_until_ns[i] > context->now_ns)
      continue;
    if (i == core->candidate)
      break;
    if (take_candidate(core, state, context, i)) {
      begin_epoch(core, state);
      core->condemn.windows = 0;
      break;
    }
  }
  int current = core->candidate;
  if (current >= 0 &&
      (!usable(&context->candidates[current], state->core, allowed) ||
       core->rests_until_ns[current] > context->now_ns)) {
    perf_group_close(&core->group, context->machine);
    core->candidate = current = -1;
    begin_epoch(core, state);
  }
  state->source =
      current >= 0 ? context->candidates[current].source : SOURCE_NONE;
  state->counts_smi = current >= 0 && context->candidates[current].smi >= 0;
  state->proof =
      current >= 0 ? context->candidates[current].proof : PROOF_PENDING;
  open_ipc_group(core, state, context, allowed);
}

/* ---------------------------------------------------------------------------
 * Reading
 */

static void read_counter(struct core *core, struct engine_core *state,
                         const struct core_context *context);

/* Until the next sample chooses again, the core has no source. */
static void give_up(struct core *core, struct engine_core *state,
                    const struct core_context *context) {
  rest(core, core->candidate, context->now_ns);
  core->candidate = -1;
  state->source = SOURCE_NONE;
}

/* The group is of no use any more. Another is opened at once and its first
 * reading taken, so that the next sample has a value again. */
static void reopen(struct core *core, struct engine_core *state,
                   const struct core_context *context, bool pinned) {
  const struct candidate *candidate = &context->candidates[core->candidate];
  perf_group_close(&core->group, context->machine);
  context->counts->reopens++;
  context->counts->windows_discarded++;
  begin_epoch(core, state);
  if (candidate_open(candidate, &core->group, context->machine, state->core,
                     pinned) == 0) {
    read_counter(core, state, context);
    return;
  }
  give_up(core, state, context);
}

/* A pinned group whose counter is taken by another user of the PMU reads end of
 * file. Unpinned it shares counters, and what it reads is scaled. */
static void read_failed(struct core *core, struct engine_core *state,
                        const struct core_context *context, int status) {
  if (status == -EBUSY && core->group.pinned) {
    if (!*context->sharing_said)
      journal_say(context->journal, JOURNAL_NOTICE,
                  "core %d: %s lost its counter to another user of the PMU; "
                  "counters that are taken are shared from now on, and scaled",
                  state->core,
                  source_name(context->candidates[core->candidate].source));
    *context->sharing_said = true;
    reopen(core, state, context, false);
    return;
  }
  if (status == -ESTALE && core->has_reading) {
    reopen(core, state, context, core->group.pinned);
    return;
  }
  struct candidate *candidate = &context->candidates[core->candidate];
  snprintf(candidate->trouble, sizeof(candidate->trouble),
           "it could not be read on core %d: %s", state->core,
           strerror(-status));
  context->counts->errors++;
  perf_group_close(&core->group, context->machine);
  begin_epoch(core, state);
  give_up(core, state, context);
}

static void read_counter(struct core *core, struct engine_core *state,
                         const struct core_context *context) {
  const struct candidate *candidate = &context->candidates[core->candidate];
  struct core_step *step = &core->step;
  struct perf_reading reading;
  int status = perf_group_read(&core->group, context->machine, &reading);
  uint64_t time_ns =
      context->machine->clock_ns(context->machine->context, CLOCK_MONOTONIC);
  if (status != 0) {
    read_failed(core, state, context, status);
    return;
  }
  struct candidate_window window;
  if (core->has_reading)
    status = candidate_window(candidate, &core->reading, &reading, &window);
  if (status == -ESTALE) {
    reopen(core, state, context, core->group.pinned);
    return;
  }
  if (status == -EAGAIN) {
    state->multiplexed = 0;
    context->counts->windows_discarded++;
    begin_epoch(core, state);
  } else if (core->has_reading) {
    step->valid = true;
    step->wall_ns = (double)(time_ns - core->reading_time_ns);
    step->unhalted_ns = window.load * step->wall_ns;
    step->aperf = window.aperf;
    step->mperf = window.mperf;
    step->smi = window.smi;
    step->base_cycles = window.base_cycles;
    step->progress_ns = window.progress_ns;
    step->progress_wall_ns = step->wall_ns;
    state->multiplexed = window.running;
  }
  core->has_reading = true;
  core->reading = reading;
  core->reading_time_ns = time_ns;
  core->rest_ns[core->candidate] = 0;
}

static void read_ipc(struct core *core, struct engine_core *state,
                     const struct core_context *context) {
  if (core->ipc_group.events_len == 0)
    return;
  struct perf_reading reading;
  struct core_total *total = &state->total;
  if (perf_group_read(&core->ipc_group, context->machine, &reading) != 0 ||
      (core->has_ipc_reading &&
       reading.time_enabled_ns <= core->ipc_reading.time_enabled_ns)) {
    perf_group_close(&core->ipc_group, context->machine);
    begin_ipc_epoch(core, state);
    return;
  }
  if (core->has_ipc_reading) {
    const struct perf_reading *from = &core->ipc_reading;
    total->cycles += (double)(reading.value[0] - from->value[0]);
    total->instructions += (double)(reading.value[1] - from->value[1]);
    total->ipc_enabled +=
        (double)(reading.time_enabled_ns - from->time_enabled_ns);
    total->ipc_running +=
        (double)(reading.time_running_ns - from->time_running_ns);
  }
  core->has_ipc_reading = true;
  core->ipc_reading = reading;
}

/* Columns never fall, but for idle and iowait; a difference that is negative
 * all the same counts as nothing. */
static double risen(uint64_t from, uint64_t to) {
  return to > from ? (double)(to - from) : 0;
}

static void read_columns(struct core *core, struct engine_core *state,
                         const struct core_context *context) {
  struct core_step *step = &core->step;
  if (context->stat == NULL ||
      !core_set_has(&context->stat->cores, state->core)) {
    if (core->has_row)
      begin_stat_epoch(core, state);
    return;
  }
  const struct procstat_row *row = &context->stat->rows[state->core];
  uint64_t idle_ns = procstat_idle_ns(row);
  if (core->has_row && idle_ns + STAT_RESET_NS < core->idle_ns) {
    context->counts->errors++;
    begin_stat_epoch(core, state);
  }
  if (core->has_row && context->stat->time_ns > core->row_time_ns) {
    step->stat_valid = true;
    step->stat_wall_ns = (double)(context->stat->time_ns - core->row_time_ns);
    step->idle_ns = risen(core->idle_ns, idle_ns);
    step->busy_ns = risen(procstat_busy_ns(&core->row), procstat_busy_ns(row));
    step->steal_ns =
        risen(core->row.ns[PROCSTAT_STEAL], row->ns[PROCSTAT_STEAL]);
    step->sum_ns = step->busy_ns + step->idle_ns + step->steal_ns;
    for (int i = 0; i < PROCSTAT_COLUMNS; i++)
      step->column_ns[i] = risen(core->row.ns[i], row->ns[i]);
  }
  core->idle_ns =
      core->has_row && core->idle_ns > idle_ns ? core->idle_ns : idle_ns;
  core->row = *row;
  core->row_time_ns = context->stat->time_ns;
  core->has_row = true;
}

/* The software source is the columns seen from the other side. */
static void read_idle(struct core *core, struct engine_core *state) {
  struct core_step *step = &core->step;
  if (!step->stat_valid) {
    begin_epoch(core, state);
    return;
  }
  step->valid = true;
  step->wall_ns = step->stat_wall_ns;
  step->unhalted_ns = step->stat_wall_ns - step->idle_ns - step->steal_ns;
  step->progress_ns = step->sum_ns;
  step->progress_wall_ns = step->stat_wall_ns;
}

void core_read(struct core *core, struct engine_core *state,
               const struct core_context *context) {
  core->step = (struct core_step){.progress_ns = -1};
  read_columns(core, state, context);
  if (state->source == SOURCE_IDLE)
    read_idle(core, state);
  else if (core->candidate >= 0)
    read_counter(core, state, context);
  read_ipc(core, state, context);
}

void core_commit(struct core *core, struct engine_core *state,
                 const struct core_context *context) {
  struct core_step *step = &core->step;
  struct core_total *total = &state->total;
  if (step->stat_valid) {
    total->stat_wall += step->stat_wall_ns;
    total->stat_busy += step->busy_ns;
    total->stat_idle += step->idle_ns;
    total->stat_sum += step->sum_ns;
    total->stat_steal += step->steal_ns;
    for (int i = 0; i < PROCSTAT_COLUMNS; i++)
      total->stat_ns[i] += step->column_ns[i];
  }
  if (!step->valid || !(step->wall_ns > 0))
    return;
  double load = step->unhalted_ns / step->wall_ns;
  double resolution = resolution_of(state->source, step->wall_ns);
  if (!(load >= -resolution && load <= 1 + resolution)) {
    context->counts->errors++;
    context->counts->windows_discarded++;
    state->total.epoch++; /* the readings themselves are a sound new base */
    return;
  }
  total->wall += step->wall_ns;
  total->unhalted += step->unhalted_ns;
  total->aperf += step->aperf;
  total->mperf += step->mperf;
  total->smi += step->smi;
  total->base_cycles += step->base_cycles;
  if (step->base_cycles > 0)
    core->enabled_ns += step->progress_ns;
}
