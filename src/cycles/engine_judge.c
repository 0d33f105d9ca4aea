#include "engine_private.h"

#include "loadavg.h"

#include <math.h>
#include <stdio.h>

/* Against time_enabled, which the kernel takes from the same TSC but for what
 * it learns anew after a migration. */
#define TSC_RATE_TOLERANCE 0.001

/* ---------------------------------------------------------------------------
 * How the kernel accounts for time
 */

void engine_find_accounting(struct engine *engine) {
  static const char *const names[KERNEL_MEMBERS] = {
      [KERNEL_IDLE_STEALTIME] = "idle_stealtime",
      [KERNEL_IDLE_DYNTICK] = "idle_dyntick",
      [KERNEL_PREV_IRQ_TIME] = "prev_irq_time",
  };
  btf_find(engine->options.machine, names, engine->kernel_has, KERNEL_MEMBERS);
}

/* Has any core had time in this column since boot? */
static bool column_is_used(const struct engine *engine,
                           enum procstat_column column) {
  core_set_for_each(core, &engine->stat.cores) {
    if (engine->stat.rows[core].ns[column] > 0)
      return true;
  }
  return false;
}

/* A kernel that samples interrupts at the tick never finds one in the column
 * irq, because the tick does not come within another interrupt. */
bool engine_softirq_is_idle(const struct engine *engine) {
  return engine->kernel_has[KERNEL_IDLE_DYNTICK] && engine->stat_valid &&
         !(engine->kernel_has[KERNEL_PREV_IRQ_TIME] &&
           column_is_used(engine, PROCSTAT_IRQ));
}

bool engine_steal_is_unknown(const struct engine *engine) {
  return engine->topology.hypervisor && engine->stat_valid &&
         !column_is_used(engine, PROCSTAT_STEAL);
}

static void say_softirq_is_idle(struct engine *engine) {
  if (engine->softirq_said || !engine_softirq_is_idle(engine))
    return;
  for (size_t i = 0; i < engine->cores_len; i++)
    engine->softirq_said |= engine->states[i].source == SOURCE_IDLE;
  if (engine->softirq_said)
    journal_say(&engine->options.journal, JOURNAL_WARNING,
                "this kernel counts softirq on an idle core as idle: loads of "
                "the source idle lack it (a hardware source has it, or a "
                "kernel with CONFIG_IRQ_TIME_ACCOUNTING)");
}

/* ---------------------------------------------------------------------------
 * Counters
 */

static double share(double from, double to, double wall_ns) {
  return wall_ns > 0 ? (to - from) / wall_ns : NAN;
}

/* The TSC runs at another rate than before: this virtual machine has moved to
 * another host, and what was proven there has to be proven here. */
static void watch_tsc(struct engine *engine, const struct core *core,
                      const struct core_total *from,
                      const struct core_total *to) {
  if (core->candidate < 0 || from->epoch != to->epoch)
    return;
  struct candidate *candidate = &engine->candidates[core->candidate];
  /* Of one and the same read: it does not matter when that was done. */
  double rate = share(from->base_cycles, to->base_cycles,
                      core->enabled_ns - core->judged_enabled_ns);
  if (candidate->tsc < 0 || !(rate > 0))
    return;
  double moved = fabs(rate / candidate->tsc_per_ns - 1);
  if (candidate->tsc_per_ns > 0 && moved > TSC_RATE_TOLERANCE) {
    candidate->proof = PROOF_PENDING;
    journal_say(&engine->options.journal, JOURNAL_NOTICE,
                "the TSC went from %.6f to %.6f GHz (a live migration?); "
                "source %s is to be proven again",
                candidate->tsc_per_ns, rate, source_name(candidate->source));
  }
  if (candidate->tsc_per_ns == 0 || moved > TSC_RATE_TOLERANCE)
    candidate->tsc_per_ns = rate;
}

/* Under a hypervisor that reports no steal, the kernel may be wrong instead. */
static void doubt(struct engine *engine, const struct engine_core *state,
                  struct candidate *candidate, double hardware, double kernel) {
  snprintf(candidate->trouble, sizeof(candidate->trouble),
           "it read %.1f %% on core %d where the kernel was not idle for %.1f "
           "%%; as this hypervisor reports no steal, either may be right",
           100 * hardware, state->core, 100 * kernel);
  if (!candidate->doubt_said)
    journal_say(&engine->options.journal, JOURNAL_WARNING, "source %s: %s",
                source_name(candidate->source), candidate->trouble);
  candidate->doubt_said = true;
}

/* Condemns the source of a core that has seen too little for too long. */
static void judge_source(struct engine *engine, struct core *core,
                         const struct engine_core *state) {
  const struct core_total *from = &core->judged, *to = &state->total;
  if (state->source < 0 || state->source == SOURCE_IDLE ||
      from->stat_epoch != to->stat_epoch)
    return;
  double wall_ns = to->stat_wall - from->stat_wall;
  double steal = share(from->stat_steal, to->stat_steal, wall_ns);
  double kernel = 1 - share(from->stat_idle, to->stat_idle, wall_ns) - steal -
                  share(from->stat_guest, to->stat_guest, wall_ns);
  double hardware = engine_load(from, to);
  if (!condemn_judge(&core->condemn, hardware, kernel, steal,
                     engine->stat.bracket_ns, engine_tick_sampled(engine)))
    return;
  struct candidate *candidate = &engine->candidates[core->candidate];
  if (engine_steal_is_unknown(engine)) {
    doubt(engine, state, candidate, hardware, kernel);
    return;
  }
  snprintf(candidate->reason, sizeof(candidate->reason),
           "it read %.1f %% where the kernel was not idle for %.1f %%, three "
           "windows of 4.6 s running",
           100 * hardware, 100 * kernel);
  core->rests_until_ns[core->candidate] = engine->time_ns + CONDEMN_REST_NS;
}

void engine_judge(struct engine *engine) {
  if (engine->time_ns < engine->judge_at_ns)
    return;
  engine->judge_at_ns = engine->time_ns + LOADAVG_INTERVAL_NS;
  candidates_mind_guests(engine->candidates, engine->candidates_len,
                         engine->options.machine);
  for (size_t i = 0; i < engine->cores_len; i++) {
    struct core *core = &engine->cores[i];
    const struct core_total *total = &engine->states[i].total;
    if (!engine->states[i].online)
      continue;
    judge_source(engine, core, &engine->states[i]);
    watch_tsc(engine, core, &core->judged, total);
    core->judged = *total;
    core->judged_enabled_ns = core->enabled_ns;
  }
  say_softirq_is_idle(engine);
}
