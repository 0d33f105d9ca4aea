#include "engine_private.h"

#include "cpuidle.h"
#include "loadavg.h"

#include <math.h>
#include <stdio.h>

/* The rate of the TSC is measured against time_enabled, which the kernel
 * computes from the same TSC, so the rate normally stays the same. A relative
 * change larger than this means that this machine was migrated. */
#define TSC_RATE_TOLERANCE 0.001

#define POLLED_SAID_MIN 0.05

static double share(double from, double to, double wall_ns) {
  return wall_ns > 0 ? (to - from) / wall_ns : NAN;
}

/* If the rate of the TSC has changed, this virtual machine was moved to another
 * host, so the core's source must be proven again. The window in which it was
 * moved has a rate in between, so the rate must be the same in two windows. */
static void watch_tsc(struct engine *engine, struct core *core) {
  const struct core_totals *from = &core->judged, *to = &core->total;
  if (core->source_index < 0 || from->epoch != to->epoch)
    return;
  struct source *source = &engine->sources[core->source_index];
  double rate =
      share(from->base_cycles, to->base_cycles, to->wall - from->wall);
  if (source->tsc < 0 || !(rate > 0))
    return;
  bool settled = fabs(rate / core->tsc_per_ns - 1) <= TSC_RATE_TOLERANCE;
  core->tsc_per_ns = rate;
  if (source->tsc_per_ns == 0)
    source->tsc_per_ns = rate;
  if (!settled || fabs(rate / source->tsc_per_ns - 1) <= TSC_RATE_TOLERANCE)
    return;
  source->proof = PROOF_PENDING;
  engine_say(engine, JOURNAL_NOTICE,
             "the TSC went from %.6f to %.6f GHz (a live migration?); source "
             "%s must be proven again",
             source->tsc_per_ns, rate, source_name(source->kind));
  source->tsc_per_ns = rate;
}

/* ---------------------------------------------------------------------------
 * Condemnation
 */

bool engine_condemns(int *low_windows, double hardware, double kernel,
                     double steal, uint64_t bracket_ns, bool tick_sampled) {
  if (tick_sampled || !isfinite(hardware) || !isfinite(kernel) ||
      !isfinite(steal))
    return false;
  double margin = CONDEMN_POINTS + steal +
                  2 * (double)bracket_ns / (double)LOADAVG_INTERVAL_NS;
  *low_windows = hardware < kernel - margin ? *low_windows + 1 : 0;
  if (*low_windows < CONDEMN_WINDOWS)
    return false;
  *low_windows = 0;
  return true;
}

/* Returns why the kernel's figure may be wrong instead of the source's, or
 * NULL. */
static const char *find_doubt(struct engine *engine) {
  if (engine_source(engine, SOURCE_IDLE)->proof != PROOF_PROVEN)
    return "the kernel's idle time is not proven";
  if (engine_steal_is_unknown(engine))
    return "if this machine is virtual, its hypervisor reports no stolen time";
  return NULL;
}

/* Reports a source that read too low, without condemning it. */
static void doubt(struct engine *engine, const struct core *core,
                  struct source *source, double hardware, double kernel,
                  const char *why) {
  snprintf(source->reason, sizeof(source->reason),
           "it read %.1f %% on core %d while the kernel measured at least "
           "%.1f %%; %s, so either may be right",
           100 * hardware, core->number, 100 * kernel, why);
  if (condition_begins(engine, CONDITION_DOUBT, true))
    engine_say(engine, JOURNAL_WARNING, "source %s: %s",
               source_name(source->kind), source->reason);
}

/* Condemns the source of a core if the source has missed work in too many
 * consecutive windows. */
static void judge_source(struct engine *engine, struct core *core) {
  const struct core_totals *from = &core->judged, *to = &core->total;
  if (core->source < 0 || core->source == SOURCE_IDLE ||
      from->stat_epoch != to->stat_epoch)
    return;
  double wall_ns = to->stat_wall - from->stat_wall;
  double steal = share(from->stat_steal, to->stat_steal, wall_ns);
  double kernel = 1 - share(from->stat_idle, to->stat_idle, wall_ns) - steal -
                  share(core_stat_guest(from), core_stat_guest(to), wall_ns);
  /* For a part of the window there are no columns. Assume that the core was
   * idle then. */
  kernel *= fmin(wall_ns / (to->wall - from->wall), 1);
  double hardware = engine_load(from, to);
  if (!engine_condemns(&core->low_windows, hardware, kernel, steal,
                       engine->stat.bracket_ns, engine_tick_sampled(engine)))
    return;
  struct source *source = &engine->sources[core->source_index];
  const char *why = find_doubt(engine);
  if (why != NULL) {
    doubt(engine, core, source, hardware, kernel, why);
    return;
  }
  snprintf(
      source->reason, sizeof(source->reason),
      "it read %.1f %% while the kernel measured at least %.1f %%, in three "
      "consecutive windows of 4.6 s",
      100 * hardware, 100 * kernel);
  core->condemned |= 1U << core->source_index;
  source->condemned_core = core->number;
  backoff_extend(&source->proof_backoff, engine->time_ns, CONDEMN_REST_NS,
                 CONDEMN_REST_MAX_NS);
}

static void say_polling(struct engine *engine, const struct core *core) {
  double polled = engine_idle_poll(&core->judged, &core->total);
  if (polled >= POLLED_SAID_MIN &&
      condition_begins(engine, CONDITION_POLLS, true))
    engine_say(
        engine, JOURNAL_NOTICE,
        "core %d, and perhaps others, polls in the idle loop instead of "
        "halting (%.0f %% of its time); loads include this time, so that "
        "all sources agree",
        core->number, 100 * polled);
}

static void say_softirq_is_idle(struct engine *engine) {
  bool any = false;
  engine_for_each_online(core, engine) { any |= core->source == SOURCE_IDLE; }
  if (any && engine_softirq_is_idle(engine) &&
      condition_begins(engine, CONDITION_SOFTIRQ_IS_IDLE, true))
    engine_say(engine, JOURNAL_WARNING,
               "this kernel counts softirqs on an idle core as idle, so loads "
               "of the source idle miss them; use a hardware source, or a "
               "kernel with CONFIG_IRQ_TIME_ACCOUNTING");
}

void engine_judge(struct engine *engine) {
  if (engine->time_ns < engine->judge_at_ns)
    return;
  engine->judge_at_ns = engine->time_ns + LOADAVG_INTERVAL_NS;
  bpf_consider(engine);
  engine_for_each_online(core, engine) {
    judge_source(engine, core);
    say_polling(engine, core);
    core->polls = true; /* looks whether it does */
    watch_tsc(engine, core);
    core->before = core->judged;
    core->judged = core->total;
  }
  say_softirq_is_idle(engine);
}
