#include "core.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define REST_FIRST_NS UINT64_C(1000000000)
#define REST_MAX_NS (UINT64_C(60) * 1000000000)

/* How far rounding alone may put the load of a counter outside 0 to 1. */
#define COUNTER_RESOLUTION 0.005
/* Reading two counters of a group takes this long at worst; it matters only in
 * windows of a few milliseconds. */
#define COUNTER_RESOLUTION_NS 20e3

/* Unhalted time less off_ns as a share of wall time. */
static double share_of_wall(const struct core_total *from,
                            const struct core_total *to, double off_ns) {
  double wall_ns = to->wall - from->wall;
  if (from->epoch != to->epoch || !(wall_ns > 0))
    return NAN;
  return fmin(fmax((to->unhalted - from->unhalted - off_ns) / wall_ns, 0), 1);
}

double engine_load(const struct core_total *from, const struct core_total *to) {
  return share_of_wall(from, to, 0);
}

double engine_load_low(const struct core_total *from,
                       const struct core_total *to) {
  return share_of_wall(from, to, to->stolen - from->stolen);
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

static void begin_ipc_epoch(struct core *core, struct engine_core *state) {
  state->total.ipc_epoch++;
  core->has_ipc_reading = false;
}

/* Throws the window in progress away; the last readings are forgotten. */
static void discard(struct core *core, struct engine_core *state) {
  begin_epoch(core, state);
  core_forget_columns(core, state);
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
  core->ipc_rests_until_ns = core->ipc_rest_ns = 0;
}

/* Postpones the next try of something that failed, longer after each failure.
 */
static void rest_longer(uint64_t *until_ns, uint64_t *rest_ns,
                        uint64_t now_ns) {
  *rest_ns = *rest_ns == 0 ? REST_FIRST_NS : *rest_ns * 2;
  if (*rest_ns > REST_MAX_NS)
    *rest_ns = REST_MAX_NS;
  *until_ns = now_ns + *rest_ns;
}

static void rest(struct core *core, int candidate, uint64_t now_ns) {
  rest_longer(&core->rests_until_ns[candidate], &core->rest_ns[candidate],
              now_ns);
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

/* Reserves descriptors for a group of this many counters. */
static int take_room(const struct core_context *context, int counters) {
  ask_for_room(context);
  if (context->room->left < counters)
    return -EMFILE;
  context->room->left -= counters;
  return 0;
}

/* On a hybrid processor the plain event is that of one kind of core alone. */
static uint64_t pmu_type_of(const struct core_context *context, int core) {
  for (int i = 0; i < context->candidates_len; i++)
    if (context->candidates[i].pmu_type != 0 &&
        candidate_serves(&context->candidates[i], core))
      return context->candidates[i].pmu_type;
  return 0;
}

static void open_ipc_group(struct core *core, struct engine_core *state,
                           const struct core_context *context,
                           unsigned allowed) {
  bool undisturbed = (allowed & ~(1U << SOURCE_IDLE)) == 0;
  if (undisturbed)
    perf_group_close(&core->ipc_group, context->machine);
  if (!context->ipc || undisturbed || core->ipc_group.events_len > 0 ||
      core->ipc_rests_until_ns > context->now_ns)
    return;
  /* Loads come first: if there are too few descriptors, these counters wait. */
  ask_for_room(context);
  if (context->room->missing > 0 || take_room(context, 2) != 0)
    return;
  uint64_t pmu_type = pmu_type_of(context, state->core);
  struct perf_event events[2];
  for (int i = 0; i < 2; i++) {
    events[i] = context->ipc_events[i];
    events[i].config |= pmu_type << PERF_PMU_TYPE_SHIFT;
  }
  int status = perf_group_open(&core->ipc_group, context->machine, state->core,
                               events, 2, false);
  begin_ipc_epoch(core, state);
  if (status == 0) {
    core->ipc_rest_ns = 0;
    return;
  }
  rest_longer(&core->ipc_rests_until_ns, &core->ipc_rest_ns, context->now_ns);
  char why[CANDIDATE_REASON_MAX];
  candidate_explain(why, sizeof(why), status);
  if (!*context->ipc_said)
    journal_say(context->journal, JOURNAL_WARNING,
                "instructions per cycle are not available on core %d, and "
                "perhaps on others: %s",
                state->core, why);
  *context->ipc_said = true;
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

void core_read(struct core *core, struct engine_core *state,
               const struct core_context *context) {
  core->step = (struct core_step){.progress_ns = -1};
  core_read_columns(core, state, context);
  if (state->source == SOURCE_IDLE)
    core_read_idle(core, context);
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
    total->stat_guest += step->guest_ns;
    for (int i = 0; i < PROCSTAT_COLUMNS; i++)
      total->stat_ns[i] += step->column_ns[i];
  }
  if (!step->valid || !(step->wall_ns > 0))
    return;
  double load = step->unhalted_ns / step->wall_ns;
  double resolution =
      COUNTER_RESOLUTION + COUNTER_RESOLUTION_NS / step->wall_ns;
  if (state->source != SOURCE_IDLE && /* which was judged with its columns */
      !(load >= -resolution && load <= 1 + resolution)) {
    context->counts->errors++;
    context->counts->windows_discarded++;
    return; /* the readings themselves are a sound new base */
  }
  total->wall += step->wall_ns;
  total->unhalted += step->unhalted_ns;
  total->stolen += step->stolen_ns;
  total->aperf += step->aperf;
  total->mperf += step->mperf;
  total->smi += step->smi;
  total->base_cycles += step->base_cycles;
  if (step->base_cycles > 0)
    core->enabled_ns += step->progress_ns;
}
