#include "engine_private.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The delay before the next attempt after a source has failed on a core. It
 * doubles with each failure up to the maximum. */
#define REST_FIRST_NS NS_PER_S
#define REST_MAX_NS (60 * NS_PER_S)

/* A load that a counter or the idle clock measures may be out of range by this
 * much in addition to the errors of totals.h. */
#define LOAD_TOLERANCE 0.005

/* After this many consecutive readings with an impossible load, the core gives
 * up its source. */
#define REFUSED_MAX 3

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

static void drop_source(struct core *core) {
  perf_group_close(&core->group);
  core->source_index = -1;
  core->source = SOURCE_NONE;
  core->reading_time_ns = 0;
  core->refused = 0;
  core->judged.epoch = UINT64_MAX; /* no window of another source is judged */
}

void core_close(struct core *core) {
  drop_source(core);
  core_begin_epoch(core);
  idle_forget(core);
}

void core_restart(struct core *core) {
  core_close(core);
  memset(core->backoff, 0, sizeof(core->backoff));
  core->carry_ns = core->steal_before_ns = 0;
  core->driver.polls = false;
  core->polls = true;
  core->polled_at_ns = 0;
  core->condemned = 0;
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

/* Returns 0 if the core can use the source now, or -errno after writing the
 * reason. */
static int try_source(struct engine *engine, const struct core *core,
                      struct source *source, struct perf_group *group) {
  return source->kind == SOURCE_IDLE ? 0
         : source->kind == SOURCE_BPF
             ? bpf_open(engine, core, source)
             : counter_open(engine, core, source, group);
}

/* Switches the core to the source. Returns false if the core cannot use it;
 * the core then keeps its source. */
static bool take_source(struct engine *engine, struct core *core, int index) {
  struct source *source = &engine->sources[index];
  struct perf_group group = {0};
  if (try_source(engine, core, source, &group) != 0) {
    backoff_extend(&core->backoff[index], engine->time_ns, REST_FIRST_NS,
                   REST_MAX_NS);
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
         idle->available && idle->proof != PROOF_TICK_SAMPLED;
}

/* Changes to the next source, and delays the next attempt to use the one that
 * failed, as backoff_extend does. */
static void give_up(struct engine *engine, struct core *core) {
  backoff_extend(&core->backoff[core->source_index], engine->time_ns,
                 REST_FIRST_NS, REST_MAX_NS);
  drop_source(core);
  core_choose(engine, core, core->allowed);
}

/* True if the load of a window is possible. */
static bool is_plausible(const struct core *core, double off_ns) {
  const struct core_totals *growth = &core->sample.growth;
  double most = source_is_counter(core->source) ? SOURCE_RATE_MAX : 1;
  off_ns += LOAD_TOLERANCE * growth->wall;
  return growth->unhalted >= -off_ns &&
         growth->unhalted <= most * growth->wall + off_ns;
}

/* Gives up a source that read impossible loads: its proof was wrong. */
static void give_up_refuted(struct engine *engine, struct core *core,
                            double load) {
  struct source *source = &engine->sources[core->source_index];
  snprintf(source->reason, sizeof(source->reason),
           "it read %.1f %% on core %d: it must be proven again", 100 * load,
           core->number);
  if (source_is_counter(source->kind)) {
    source->proof = PROOF_PENDING;
    source->must_be_proven = true;
  }
  give_up(engine, core);
}

/* Handles a window with an impossible load. After REFUSED_MAX such windows, the
 * core gives up the source. Returns true if the next window begins with this
 * reading, because the idle columns cover this window; otherwise, the next
 * window includes it. */
static bool refuse(struct engine *engine, struct core *core) {
  double load = core->sample.growth.unhalted / core->sample.growth.wall;
  forget_growth(core);
  engine->counts.errors++;
  engine->counts.windows_discarded++;
  if (++core->refused < REFUSED_MAX)
    return core->sample.stat_valid && may_fill(engine, core);
  give_up_refuted(engine, core, load);
  return false;
}

/* Ends the window of the core's source at a reading. Returns true if the next
 * window begins with this reading, false if it includes this window. If the
 * load of the window is usable, sets the sample's begin_ns and end_ns. */
static bool end_window(struct engine *engine, struct core *core,
                       const struct source_reading *reading) {
  struct core_sample *sample = &core->sample;
  struct core_totals *growth = &sample->growth;
  bool has_begun = core->reading_time_ns > 0;
  bool bad = has_begun && !is_plausible(core, reading->off_ns);
  if (bad && !refuse(engine, core))
    return false;
  if (has_begun && !bad && !(growth->wall > 0)) /* no time has passed */
    return false;
  if (has_begun && !bad) {
    core->refused = 0;
    core->backoff[core->source_index].wait_ns = 0;
    growth->unhalted = fmax(fmin(growth->unhalted, growth->wall), 0);
    sample->begin_ns = core->reading_time_ns;
    sample->end_ns = reading->time_ns;
  }
  core->reading_time_ns = reading->time_ns;
  return true;
}

/* Reads a source that has a window of its own. */
static void read_source(struct engine *engine, struct core *core) {
  bool is_clock = core->source == SOURCE_BPF;
  struct source_reading reading = {0};
  int status = is_clock ? bpf_read(engine, core, &reading)
                        : counter_read(engine, core, &reading);
  if (status == -EAGAIN)
    return;
  if (status != 0) {
    engine->counts.errors++;
    give_up(engine, core);
  } else if (end_window(engine, core, &reading)) {
    if (is_clock)
      bpf_keep(engine, core, &reading);
    else
      counter_keep(engine, core, &reading);
  }
}

void core_read(struct engine *engine, struct core *core) {
  core->sample = (struct core_sample){.progress_ns = -1};
  idle_read_columns(engine, core);
  if (core->source == SOURCE_IDLE)
    idle_read(engine, core);
  else if (core->source_index >= 0)
    read_source(engine, core);
  /* The next window of the source may also cover this sample. */
  bool pends =
      core->reading_time_ns > 0 && core->reading_time_ns <= core->total_end_ns;
  if (!(core->sample.growth.wall > 0) && !pends && may_fill(engine, core))
    idle_fill(engine, core);
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
  total->lacks += growth->lacks;
  total->end_lacks = growth->end_lacks;
  total->lacks_idle = growth->lacks_idle;
  total->over += growth->over + overlap * (1 - busy);
  total->under += growth->under + overlap * busy;
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
