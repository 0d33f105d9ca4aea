/* The source bpf: when the idle clock is needed, and what it says of a core. */
#include "engine_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CLOCK_RETRY_FIRST_NS (10 * NS_PER_S)
#define CLOCK_RETRY_MAX_NS (600 * NS_PER_S)

/* If a core spends more than this share of its time in softirqs, the idle
 * source may miss part of them. The kernel samples softirqs at the tick, so a
 * smaller share may be due to chance. */
#define SOFTIRQ_SHARE_MIN 0.05

/* ---------------------------------------------------------------------------
 * Whether to load the clock
 */

/* True if a core spends so much time in softirqs that the idle source may miss
 * some of them. */
static bool has_softirq(const struct engine *engine) {
  engine_for_each_online(core, engine) {
    const struct core_totals *from = &core->judged, *to = &core->total;
    double wall_ns = to->stat_wall - from->stat_wall;
    double softirq_ns =
        to->stat_ns[PROCSTAT_SOFTIRQ] - from->stat_ns[PROCSTAT_SOFTIRQ];
    if (from->stat_epoch == to->stat_epoch && wall_ns > 0 &&
        softirq_ns > SOFTIRQ_SHARE_MIN * wall_ns)
      return true;
  }
  return false;
}

/* Returns why the idle source misses work on this machine, or NULL if there is
 * no sign that it does. */
static const char *find_misses(struct engine *engine) {
  if (!engine->stat_valid)
    return "the source idle is unavailable here";
  if (engine_tick_sampled(engine))
    return "on this kernel the source idle is sampled at the tick";
  if (engine_softirq_is_idle(engine))
    return "this kernel counts softirqs on an idle core as idle";
  if (engine_has_no_room(engine, engine_source(engine, SOURCE_IDLE)))
    return "the source idle could not be proven, and no core is idle enough to "
           "try again";
  if (has_softirq(engine))
    return "a core spends a lot of time in softirqs, and the source idle may "
           "miss part of it";
  return NULL;
}

static bool counter_serves(const struct engine *engine) {
  engine_for_each_online(core, engine) {
    if (source_is_counter(core->source))
      return true;
  }
  return false;
}

/* Sets clock_purpose, so that the clock is loaded, but only if the clock is
 * needed. Loading it interrupts every core of the machine, and afterwards the
 * clock runs in every interrupt. It stays loaded, because unloading it would
 * interrupt them again. */
void bpf_consider(struct engine *engine) {
  if (engine->options.source != SOURCE_AUTO || !engine->options.hardware ||
      engine_source(engine, SOURCE_BPF)->available ||
      engine->clock_purpose != NULL || counter_serves(engine))
    return;
  engine->clock_purpose = find_misses(engine);
  if (engine->clock_purpose != NULL)
    engine->clock_backoff = (struct backoff){0};
}

/* ---------------------------------------------------------------------------
 * Opening and reading
 */

/* Sets the source's reason: why no clock was loaded although none is
 * pinned. */
static void explain_not_loaded(const struct engine *engine,
                               struct source *source) {
  snprintf(source->reason, sizeof(source->reason), "%s",
           topology_any_isolated(&engine->topology)
               ? "loading it would interrupt isolated cores: pin it before the "
                 "fast path starts (percore clock --pin)"
               : "it is loaded only if named (Source \"bpf\") or if the source "
                 "idle is known to miss work");
}

static void read_clock(struct engine *engine, struct source *source) {
  int status = idle_clock_read(engine->clock);
  engine->clock_read = status == 0;
  if (status == 0 || status == -EAGAIN)
    return;
  idle_clock_close(engine->clock);
  engine->clock = NULL;
  source->available = false;
  snprintf(source->reason, sizeof(source->reason),
           "the idle clock no longer runs: %s",
           status == -ENOLINK ? "its pins were removed" : strerror(-status));
  backoff_extend(&engine->clock_backoff, engine->time_ns, CLOCK_RETRY_FIRST_NS,
                 CLOCK_RETRY_MAX_NS);
}

/* Reads the clock of every core once. This starts the clock on cores where it
 * has not run yet, so that the first sample produces a load for every core. */
static void start_cores(struct engine *engine) {
  uint64_t halted_ns;
  if (idle_clock_read(engine->clock) == 0)
    core_set_for_each(core, &engine->topology.online) {
      idle_clock_core(engine->clock, core, &halted_ns);
    }
}

static void open_clock(struct engine *engine, struct source *source) {
  bool wanted =
      engine->options.source == SOURCE_BPF || engine->clock_purpose != NULL;
  bool load = wanted && !topology_any_isolated(&engine->topology);
  int status =
      idle_clock_open(&engine->clock, engine->options.machine,
                      &engine->topology.possible, load, source->reason);
  if (status != 0) {
    if (status == -ENOENT && !load)
      explain_not_loaded(engine, source);
    backoff_extend(&engine->clock_backoff, engine->time_ns,
                   CLOCK_RETRY_FIRST_NS, CLOCK_RETRY_MAX_NS);
    return;
  }
  start_cores(engine);
  engine->clock_backoff.wait_ns = 0;
  source->available = true;
  /* The clock needs no proof: on a core where it has not run, it produces no
   * load. */
  source->proof = PROOF_PROVEN;
  source->reason[0] = '\0';
  if (engine->clock_purpose != NULL && !engine->clock->programs.pinned)
    engine_say(engine, JOURNAL_INFO,
               "the idle clock of source bpf is loaded: %s",
               engine->clock_purpose);
}

void bpf_begin(struct engine *engine) {
  struct source *source = engine_source(engine, SOURCE_BPF);
  engine->clock_read = false;
  if (!engine->options.hardware || (engine->options.source != SOURCE_AUTO &&
                                    engine->options.source != SOURCE_BPF))
    return;
  if (engine->clock == NULL &&
      engine->time_ns >= engine->clock_backoff.until_ns)
    open_clock(engine, source);
  if (engine->clock != NULL)
    read_clock(engine, source);
}

/* ---------------------------------------------------------------------------
 * A core
 */

static void explain_clock(struct source *source, const struct core *core) {
  snprintf(source->reason, sizeof(source->reason),
           "the idle clock has not run on core %d, or its value there is wrong",
           core->number);
}

/* The source can be used if the idle clock has already run on the core. */
int bpf_open(struct engine *engine, const struct core *core,
             struct source *source) {
  uint64_t halted_ns;
  int status = engine->clock_read
                   ? idle_clock_core(engine->clock, core->number, &halted_ns)
                   : -EAGAIN;
  if (status != 0)
    explain_clock(source, core);
  return status;
}

static void bounds_bpf(struct core_totals *growth, const struct engine *engine,
                       const struct core *core) {
  double bracket_ns = (double)engine->clock->bracket_ns;
  double since_ns = (double)engine->clock->time_ns - (double)core->steal_at_ns +
                    core->row_bracket_ns / 2;
  growth->end_over = growth->end_under = bracket_ns;
  growth->under = core->blind_ns - core->reading_blind_ns;
  growth->end_under +=
      engine->blind_ns + since_ns; /* its halts are not known yet */
  if (engine->topology.may_be_virtual) {
    growth->end_lacks = bracket_ns + since_ns + TICK_REST_NS;
    growth->lacks_idle = true;
  }
  if (core_has_steal(core)) {
    growth->stolen = core->steal_ns - core->reading_steal_ns;
    growth->end_over += since_ns + (1 + core_is_stolen_from(engine, core)) *
                                       COLUMN_RESOLUTION_NS;
  } else if (engine->topology.may_be_virtual &&
             (!engine->stat_valid || engine->stat_still)) {
    growth->stolen = growth->unhalted;
  }
}

int bpf_read(struct engine *engine, struct core *core,
             struct source_reading *reading) {
  struct core_totals *growth = &core->sample.growth;
  if (!engine->clock_read)
    return -EAGAIN;
  int status =
      idle_clock_core(engine->clock, core->number, &reading->halted_ns);
  if (status != 0) {
    explain_clock(&engine->sources[core->source_index], core);
    return status;
  }
  reading->time_ns = (uint64_t)engine->clock->time_ns;
  reading->off_ns = 2 * (double)engine->clock->bracket_ns;
  if (core->reading_time_ns > 0) {
    growth->wall = (double)(reading->time_ns - core->reading_time_ns);
    growth->unhalted =
        growth->wall - (double)(reading->halted_ns - core->halted_ns);
  }
  return 0;
}

void bpf_keep(struct engine *engine, struct core *core,
              const struct source_reading *reading) {
  struct core_sample *sample = &core->sample;
  struct core_totals *growth = &sample->growth;
  if (sample->end_ns > 0) {
    bounds_bpf(growth, engine, core);
    if (sample->stat_valid) {
      sample->progress_ns = core_stat_sum(growth);
      sample->monotonic_ns = growth->stat_wall;
    }
  }
  core->halted_ns = reading->halted_ns;
  core->reading_steal_ns = core->steal_ns;
  core->reading_blind_ns = core->blind_ns;
}
