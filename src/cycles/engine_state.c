/* Answers callers' questions about the engine after a sample. */
#include "engine_private.h"

#include <math.h>

const struct core *engine_cores(const struct engine *engine,
                                size_t *cores_len) {
  *cores_len = engine->cores_len;
  return engine->cores;
}

const struct engine_options *engine_options(const struct engine *engine) {
  return &engine->options;
}

const struct machine *engine_machine(const struct engine *engine) {
  return engine->options.machine;
}

const struct topology *engine_topology(const struct engine *engine) {
  return &engine->topology;
}

const struct procstat *engine_procstat(const struct engine *engine) {
  return engine->stat_valid ? &engine->stat : NULL;
}

const struct engine_counts *engine_counts(const struct engine *engine) {
  return &engine->counts;
}

uint64_t engine_time_ns(const struct engine *engine) { return engine->time_ns; }

bool engine_tick_sampled(const struct engine *engine) {
  for (int i = 0; i < engine->candidates_len; i++)
    if (engine->candidates[i].proof == PROOF_TICK_SAMPLED)
      return true;
  return false;
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
  return engine->topology.hypervisor && engine->stat_valid &&
         !is_used(engine, PROCSTAT_STEAL);
}

bool engine_has_source(const struct engine *engine) {
  bool any_online = false;
  engine_for_each_online(core, engine) {
    if (core->source != SOURCE_NONE)
      return true;
    any_online = true;
  }
  return !any_online;
}

const char *engine_source_reason(const struct engine *engine,
                                 enum source source) {
  const char *trouble = "";
  for (int i = 0; i < engine->candidates_len; i++) {
    const struct candidate *candidate = &engine->candidates[i];
    if (candidate->source != source)
      continue;
    if (candidate->reason[0] != '\0')
      return candidate->reason;
    trouble = candidate->trouble;
  }
  return trouble;
}

/* ---------------------------------------------------------------------------
 * Windows
 */

/* Returns unhalted time minus off_ns, as a share of wall time. */
static double share_of_wall(const struct core_totals *from,
                            const struct core_totals *to, double off_ns) {
  double wall_ns = to->wall - from->wall;
  if (from->epoch != to->epoch || !(wall_ns > 0))
    return NAN;
  return fmin(fmax((to->unhalted - from->unhalted - off_ns) / wall_ns, 0), 1);
}

double engine_load(const struct core_totals *from,
                   const struct core_totals *to) {
  return share_of_wall(from, to, 0);
}

double engine_load_low(const struct core_totals *from,
                       const struct core_totals *to) {
  return share_of_wall(from, to, to->stolen - from->stolen);
}

double engine_frequency_hz(const struct core_totals *from,
                           const struct core_totals *to) {
  double wall_ns = to->wall - from->wall, mperf = to->mperf - from->mperf;
  if (from->epoch != to->epoch || !(wall_ns > 0) || !(mperf > 0))
    return NAN;
  double base_hz = 1e9 * (to->base_cycles - from->base_cycles) / wall_ns;
  return base_hz * (to->aperf - from->aperf) / mperf;
}
