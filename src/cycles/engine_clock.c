/* Opens the idle clock when it is needed, and notices when it stops. */
#include "engine_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

_Static_assert(CANDIDATE_REASON_MAX >= PROGRAMS_WHY_SIZE,
               "a reason has no room for that of the clock");

#define CLOCK_RETRY_FIRST_NS (10 * NS_PER_S)
#define CLOCK_RETRY_MAX_NS (600 * NS_PER_S)

/* If a core spends more than this share of its time in softirqs, the idle
 * source may miss part of them. The kernel samples softirqs at the tick, so a
 * smaller share may be due to chance. */
#define SOFTIRQ_SHARE_MIN 0.05

/* ---------------------------------------------------------------------------
 * Whether to load the clock
 */

/* Returns the number of a core that spends so much time in softirqs that the
 * idle source may miss some of them, or -1 if there is no such core. */
static int core_with_softirq(const struct engine *engine) {
  engine_for_each_online(core, engine) {
    const struct core_totals *from = &core->judged, *to = &core->total;
    double wall_ns = to->stat_wall - from->stat_wall;
    double softirq_ns =
        to->stat_ns[PROCSTAT_SOFTIRQ] - from->stat_ns[PROCSTAT_SOFTIRQ];
    if (from->stat_epoch == to->stat_epoch && wall_ns > 0 &&
        softirq_ns > SOFTIRQ_SHARE_MIN * wall_ns)
      return core->number;
  }
  return -1;
}

/* Writes to `text` why the idle source misses work on this machine, or "" if
 * there is no sign that it does. */
static void find_misses(const struct engine *engine, char *text, size_t size) {
  int core = core_with_softirq(engine);
  text[0] = '\0';
  if (engine_tick_sampled(engine))
    snprintf(text, size,
             "on this kernel the source idle is sampled at the tick");
  else if (engine_softirq_is_idle(engine))
    snprintf(text, size, "this kernel counts softirqs on an idle core as idle");
  else if (core >= 0)
    snprintf(text, size,
             "core %d spends a lot of time in softirqs, and the source idle "
             "may miss part of it",
             core);
}

static bool has_purpose(const struct engine *engine) {
  return engine->clock_purpose[0] != '\0';
}

static bool counter_serves(const struct engine *engine) {
  engine_for_each_online(core, engine) {
    if (source_is_counter(core->source))
      return true;
  }
  return false;
}

/* Sets clock_purpose, which lets the clock be loaded, only if the clock is
 * needed: loading it interrupts every core of the machine, and afterwards the
 * clock runs in every interrupt. */
void engine_consider_clock(struct engine *engine) {
  const struct candidate *candidate = engine_candidate(engine, SOURCE_BPF);
  if (engine->options.source != SOURCE_AUTO || has_purpose(engine) ||
      !engine->options.hardware || candidate->available ||
      counter_serves(engine))
    return;
  find_misses(engine, engine->clock_purpose, sizeof(engine->clock_purpose));
  if (has_purpose(engine))
    engine->clock_backoff = (struct backoff){0};
}

/* ---------------------------------------------------------------------------
 * Opening and reading
 */

/* Sets the candidate's reason: why no clock was loaded although none is
 * pinned. */
static void explain_not_loaded(const struct engine *engine,
                               struct candidate *candidate) {
  snprintf(candidate->reason, sizeof(candidate->reason), "%s",
           topology_any_isolated(&engine->topology)
               ? "loading it would interrupt isolated cores: pin it before the "
                 "fast path starts (percore clock --pin)"
               : "it is loaded only if named (Source \"bpf\") or if the source "
                 "idle is known to miss work");
}

static void read_clock(struct engine *engine, struct candidate *candidate) {
  int status = idle_clock_read(engine->clock);
  engine->clock_read = status == 0;
  if (status == 0 || status == -EAGAIN)
    return;
  idle_clock_close(engine->clock);
  engine->clock = NULL;
  candidate->available = false;
  snprintf(candidate->reason, sizeof(candidate->reason), "%s%s",
           status == -ENOLINK ? "the idle clock no longer runs: its pins were "
                                "removed, or it missed halts"
                              : "cannot read the idle clock: ",
           status == -ENOLINK ? "" : strerror(-status));
  backoff_extend(&engine->clock_backoff, engine->time_ns, CLOCK_RETRY_FIRST_NS,
                 CLOCK_RETRY_MAX_NS);
}

/* Reads the clock of every core once. This starts the clock on cores where it
 * has not run yet, so that the first sample produces a load for every core. */
static void start_cores(struct engine *engine) {
  struct idle_clock_reading reading;
  if (idle_clock_read(engine->clock) == 0)
    core_set_for_each(core, &engine->topology.online) {
      idle_clock_core(engine->clock, core, &reading);
    }
}

static void open_clock(struct engine *engine, struct candidate *candidate) {
  bool wanted = engine->options.source == SOURCE_BPF || has_purpose(engine);
  bool load = wanted && !topology_any_isolated(&engine->topology);
  int status =
      idle_clock_open(&engine->clock, engine->options.machine,
                      &engine->topology.possible, load, candidate->reason);
  if (status != 0) {
    if (status == -ENOENT && !load)
      explain_not_loaded(engine, candidate);
    backoff_extend(&engine->clock_backoff, engine->time_ns,
                   CLOCK_RETRY_FIRST_NS, CLOCK_RETRY_MAX_NS);
    return;
  }
  start_cores(engine);
  engine->clock_backoff.wait_ns = 0;
  candidate->available = true;
  /* The clock needs no proof: on a core where it has not run, it produces no
   * load. */
  candidate->proof = PROOF_PROVEN;
  candidate->reason[0] = '\0';
  if (has_purpose(engine) && !idle_clock_is_pinned(engine->clock))
    engine_say(engine, JOURNAL_INFO,
               "the idle clock of source bpf is loaded: %s",
               engine->clock_purpose);
}

const char *engine_clock_unseen(const struct engine *engine) {
  return engine->clock != NULL ? idle_clock_unseen(engine->clock) : "";
}

void engine_read_clock(struct engine *engine) {
  struct candidate *candidate = engine_candidate(engine, SOURCE_BPF);
  engine->clock_read = false;
  if (!engine->options.hardware || (engine->options.source != SOURCE_AUTO &&
                                    engine->options.source != SOURCE_BPF))
    return;
  if (engine->clock == NULL &&
      engine->time_ns >= engine->clock_backoff.until_ns)
    open_clock(engine, candidate);
  if (engine->clock != NULL)
    read_clock(engine, candidate);
}
