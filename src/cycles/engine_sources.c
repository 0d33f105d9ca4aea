/* Which source each core uses, and when the idle clock is needed. */
#include "engine_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CLOCK_RETRY_FIRST_NS (10 * NS_PER_S)
#define CLOCK_RETRY_MAX_NS (600 * NS_PER_S)
#define CLOCK_KEEP_NS (600 * NS_PER_S)

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
  const struct source *idle = engine_source(engine, SOURCE_IDLE);
  if (!engine->stat_valid || idle->proof == PROOF_REFUTED)
    return "the source idle is unavailable here";
  if (engine_tick_sampled(engine))
    return "on this kernel the source idle is sampled at the tick";
  if (engine_softirq_is_idle(engine))
    return "this kernel counts softirqs on an idle core as idle";
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

static void close_clock(struct engine *engine, struct source *source,
                        const char *why, const char *error) {
  idle_clock_close(engine->clock);
  engine->clock = NULL;
  source->available = false;
  snprintf(source->reason, sizeof(source->reason), "%s%s", why, error);
}

/* Unloads the clock if no core has needed it for CLOCK_KEEP_NS: it runs in
 * every interrupt of the machine. */
static void unload_clock(struct engine *engine, struct source *source) {
  engine->clock_purpose = NULL;
  close_clock(engine, source,
              "the idle clock was unloaded, because no core needs it now", "");
  engine_say(engine, JOURNAL_INFO, "source bpf: %s", source->reason);
}

/* Sets clock_purpose, which lets the clock be loaded, only if the clock is
 * needed: loading it interrupts every core of the machine, and afterwards the
 * clock runs in every interrupt. */
void engine_consider_clock(struct engine *engine) {
  struct source *source = engine_source(engine, SOURCE_BPF);
  const char *purpose;
  if (engine->options.source != SOURCE_AUTO || !engine->options.hardware ||
      engine->options.no_bpf ||
      (source->available && (engine->clock_purpose == NULL ||
                             engine->clock->programs.pinned)))
    return;
  purpose = counter_serves(engine) ? NULL : find_misses(engine);
  if (purpose != NULL) {
    engine->clock_needed_ns = engine->time_ns;
    if (engine->clock_purpose == NULL)
      engine->clock_backoff = (struct backoff){0};
    engine->clock_purpose = purpose;
  } else if (engine->clock != NULL &&
             engine->time_ns - engine->clock_needed_ns >= CLOCK_KEEP_NS) {
    unload_clock(engine, source);
  }
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
           : engine->options.no_bpf
               ? "UseBPF false forbids loading it, and no clock is pinned"
               : "it is loaded only if named (Source \"bpf\") or if the source "
                 "idle is known to miss work");
}

static void read_clock(struct engine *engine, struct source *source) {
  int status = idle_clock_read(engine->clock);
  engine->clock_read = status == 0;
  if (status == 0 || status == -EAGAIN)
    return;
  if (status == -ENOLINK)
    close_clock(engine, source,
                "the idle clock no longer runs: its pins were removed", "");
  else
    close_clock(engine, source,
                "cannot read the idle clock: ", strerror(-status));
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

void engine_read_clock(struct engine *engine) {
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
 * Sources
 */

/* Returns the sources that a core may use, as a bit mask. For isolated cores,
 * this depends on the option IsolatedCores. */
static unsigned allowed_sources(const struct engine *engine,
                                const struct core *core) {
  static const unsigned isolated[] = {
      [ISOLATED_CORES_IDLE] = 1U << SOURCE_IDLE,
      [ISOLATED_CORES_BPF] = 1U << SOURCE_BPF | 1U << SOURCE_IDLE,
      [ISOLATED_CORES_HARDWARE] = ~0U,
      [ISOLATED_CORES_SKIP] = 0,
  };
  return core_set_has(&engine->topology.isolated, core->number)
             ? isolated[engine->options.isolated_cores]
             : ~0U;
}

/* ---------------------------------------------------------------------------
 * Messages
 */

static const char *reason_to_leave(const struct engine *engine, int from,
                                   int to) {
  if (to >= 0 && to < from)
    return "a better source is available";
  const char *why = engine->sources[from].reason;
  return why[0] != '\0' ? why : "it is unavailable there now";
}

static const char *name_at(const struct engine *engine, int source) {
  return source_name(source < 0 ? SOURCE_NONE : engine->sources[source].kind);
}

/* `from` and `to` are indices of sources, or -1. */
static void say_change(const struct engine *engine,
                       const struct core_set *changed, int from, int to) {
  char list[128];
  const char *cores = core_set_count(changed) == 1 ? "core" : "cores";
  core_set_format(changed, list, sizeof(list));
  if (from < 0)
    engine_say(engine, JOURNAL_INFO, "%s %s: load comes from %s", cores, list,
               name_at(engine, to));
  else
    engine_say(engine, JOURNAL_WARNING, "%s %s: source %s gives way to %s: %s",
               cores, list, name_at(engine, from), name_at(engine, to),
               reason_to_leave(engine, from, to));
}

/* Reports changes of sources, in one line for all cores with the same change.
 */
static void say_changes(struct engine *engine) {
  engine_for_each_online(first, engine) {
    int from = first->announced, to = first->source_index;
    if (from == to)
      continue;
    struct core_set changed = {0};
    engine_for_each_online(core, engine) {
      if (core->announced != from || core->source_index != to)
        continue;
      core_set_add(&changed, core->number);
      core->announced = to;
      engine->counts.source_changes += from >= 0;
    }
    say_change(engine, &changed, from, to);
  }
}

/* If no core has a source, reports what is wrong with each source. */
static void say_no_source(struct engine *engine) {
  if (!engine_begins(engine, CONDITION_NO_SOURCE, !engine_has_source(engine)))
    return;
  for (int i = 0; i < engine->sources_len; i++) {
    const struct source *source = &engine->sources[i];
    engine_say(engine, JOURNAL_ERROR, "no source of loads: %s: %s",
               source_name(source->kind), source->reason);
  }
}

static const struct source *proven_counter(const struct engine *engine) {
  for (int i = 0; i < engine->sources_len; i++) {
    const struct source *source = &engine->sources[i];
    if (source->available && source->proof == PROOF_PROVEN &&
        source_is_counter(source->kind))
      return source;
  }
  return NULL;
}

/* Recommends a counter for isolated cores that use the idle source: isolated
 * cores often run many softirqs, some of which the idle source may miss. */
static void say_isolated(struct engine *engine) {
  const struct source *better = proven_counter(engine);
  if (better == NULL || engine->options.isolated_cores != ISOLATED_CORES_IDLE)
    return;
  char list[128];
  struct core_set isolated = engine->topology.isolated;
  core_set_intersect(&isolated, &engine->topology.online);
  core_set_intersect(&isolated, &engine->wanted);
  if (core_set_next(&isolated, -1) < 0 ||
      !engine_begins(engine, CONDITION_ISOLATED_ON_IDLE, true))
    return;
  core_set_format(&isolated, list, sizeof(list));
  engine_say(engine, JOURNAL_INFO,
             "isolated cores %s are measured by the source idle, which does "
             "not disturb them but may miss softirqs; IsolatedCores "
             "\"hardware\" uses %s there, at the cost of one interrupt per "
             "sample and core (21 to 25 us if the core is halted)",
             list, source_name(better->kind));
}

/* ---------------------------------------------------------------------------
 * Descriptors
 */

/* Returns how many more counters are needed so that every core can use the best
 * source of this machine. */
static long counters_wanted(const struct engine *engine) {
  int most = 0;
  for (int i = 0; i < engine->sources_len; i++)
    if (engine->sources[i].available &&
        engine->sources[i].proof != PROOF_REFUTED &&
        engine->sources[i].events_len > most)
      most = engine->sources[i].events_len;
  if (engine->options.ipc)
    most += 2;
  long wanted = 0;
  engine_for_each_online(core, engine) {
    if (allowed_sources(engine, core) == ~0U)
      wanted += most - core->group.events_len - core->ipc_group.events_len;
  }
  return wanted;
}

static void say_short_of_descriptors(struct engine *engine) {
  const struct perf_room *room = &engine->room;
  if (room->computed &&
      engine_begins(engine, CONDITION_SHORT_OF_DESCRIPTORS, room->missing > 0))
    engine_say(engine, JOURNAL_WARNING,
               "some cores have no hardware counter, because too few "
               "descriptors would be left for the rest of this process; raise "
               "its limit on open files by %ld (LimitNOFILE= under systemd)",
               room->missing);
}

static void say_no_frequency(struct engine *engine) {
  bool is_missing = engine->options.frequency;
  for (int i = 0; i < engine->sources_len; i++)
    is_missing &= !engine->sources[i].available || engine->sources[i].aperf < 0;
  if (engine_begins(engine, CONDITION_NO_FREQUENCY, is_missing))
    engine_say(engine, JOURNAL_INFO,
               "the frequency of cores is unavailable: only the source mperf "
               "can count it, with the event msr/aperf/");
}

static void choose_for_cores(struct engine *engine) {
  engine_for_each_online(core, engine) {
    core_choose(engine, core, allowed_sources(engine, core));
  }
}

void engine_choose_sources(struct engine *engine) {
  engine->room = (struct perf_room){.wanted = counters_wanted(engine)};
  choose_for_cores(engine);
  if (!engine_has_source(engine) && engine->clock == NULL) {
    engine_consider_clock(engine);
    engine_read_clock(engine);
    choose_for_cores(engine);
  }
  say_changes(engine);
  say_no_source(engine);
  say_short_of_descriptors(engine);
  say_isolated(engine);
  say_no_frequency(engine);
}
