#include "bounds.h"

#include "engine_private.h"

#include <math.h>

static double between(double least, double value, double most) {
  return fmin(fmax(value, least), most);
}

struct bounds bounds_of(const struct core_totals *from,
                        const struct core_totals *to) {
  double load = engine_load(from, to);
  if (isnan(load))
    return (struct bounds){NAN, NAN};
  double unknown = to->unknown - from->unknown;
  double span = to->wall - from->wall + unknown;
  double unhalted = to->unhalted - from->unhalted;
  double from_over = from->end_over;
  if (from_over >= 2 * COLUMN_RESOLUTION_NS &&
      to->stat_ns[PROCSTAT_IOWAIT] == from->stat_ns[PROCSTAT_IOWAIT])
    from_over -= COLUMN_RESOLUTION_NS;
  double low = unhalted - (to->stolen - from->stolen) -
               (to->over - from->over) - to->end_over - from->end_under;
  double high = unhalted + (to->under - from->under) + unknown + to->end_under +
                from_over;
  return (struct bounds){.low = between(0, low / span, load),
                         .high = between(load, high / span, 1)};
}

void bounds_counter(struct core_totals *growth, const struct source *source,
                    double running, double tsc_change) {
  double wall = growth->wall, unhalted = growth->unhalted;
  double low = source->rate_low > 0 ? source->rate_low : SOURCE_RATE_MIN;
  double high = source->rate_high > 0 ? source->rate_high : SOURCE_RATE_MAX;
  growth->over = (1 - running) * unhalted +
                 fmax(unhalted - unhalted / high, 0) + tsc_change * wall;
  growth->under = (1 - running) * (wall - unhalted) +
                  fmax(fmin(unhalted / low, wall) - unhalted, 0) +
                  tsc_change * wall;
  growth->end_over = growth->end_under = COUNTER_SKEW_NS;
}

/* True if a hypervisor has ever stolen time from the core. */
static bool has_steal(const struct core *core) {
  return core->row.ns[PROCSTAT_STEAL] > 0;
}

void bounds_bpf(struct core_totals *growth, const struct engine *engine,
                const struct core *core) {
  double bracket_ns = (double)engine->clock->bracket_ns;
  double since_ns = (double)engine->clock->time_ns -
                    (double)core->steal_at_ns + core->row_bracket_ns / 2;
  growth->end_over = growth->end_under = bracket_ns;
  if (has_steal(core)) {
    growth->stolen = core->steal_ns - core->reading_steal_ns;
    growth->end_over += COLUMN_RESOLUTION_NS + since_ns;
  } else if (engine->topology.may_be_virtual &&
             (!engine->stat_valid || engine->stat_still)) {
    growth->stolen = growth->unhalted;
  }
}

/* Returns an upper bound of the carry at the end of the sample. */
static double carry_after(const struct core_totals *growth, struct core *core) {
  double steal = growth->stat_steal;
  if (growth->stat_idle > 0)
    core->carry_ns = core->steal_before_ns;
  core->carry_ns += steal;
  core->steal_before_ns = steal;
  return core->carry_ns;
}

/* A poll is counted when it ends. It takes up to a sixteenth of a tick, or a
 * whole tick if no other idle state may be used. */
#define POLL_NS (COLUMN_RESOLUTION_NS / 16)

/* Adds the errors of the time of polling. It includes interrupts, which idle
 * time leaves out, so that they are counted twice, and steal. */
static void bounds_polled(struct core_totals *growth, const struct core *core,
                          bool apart) {
  double polled = growth->stat_polled;
  double twice = fmax(growth->unhalted - polled, 0) + growth->end_over +
                 (apart ? growth->stat_steal : 0);
  growth->over +=
      core->sample.polled_began_early ? polled : fmin(polled, twice);
  growth->end_over += polled > 0 ? core->sample.polled_late_ns : 0;
  growth->end_under += polled > 0 ? COLUMN_RESOLUTION_NS : POLL_NS;
}

void bounds_idle(struct core_totals *growth, struct engine *engine,
                 struct core *core) {
  bool apart = engine_steal_is_apart(engine);
  bool steal = has_steal(core);
  double rest = fmax(growth->wall - growth->unhalted, 0);
  double off_ns = core->sample.bracket_ns / 2;
  bool unsure = core->proof == PROOF_TICK_SAMPLED ||
                (core->sample.filled &&
                 engine_source(engine, SOURCE_IDLE)->proof != PROOF_PROVEN);
  growth->stolen = apart ? 0 : growth->stat_steal;
  growth->end_over = off_ns + (steal ? 3 : 2) * COLUMN_RESOLUTION_NS;
  growth->end_under = off_ns;
  if (apart && steal)
    growth->end_under += carry_after(growth, core) + COLUMN_RESOLUTION_NS;
  if (core->driver.polls)
    bounds_polled(growth, core, apart);
  if (unsure)
    growth->over = growth->unhalted;
  growth->under = engine->idle_misses || unsure
                      ? rest
                      : fmin(rest, IDLE_LOOP_NS * core_halts(engine, core));
}
