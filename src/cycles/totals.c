#include "totals.h"

#include <math.h>

/* The largest share of a window that may be unknown. */
#define UNKNOWN_MAX 0.1

double engine_load(const struct core_totals *from,
                   const struct core_totals *to) {
  double wall_ns = to->wall - from->wall, unknown = to->unknown - from->unknown;
  if (from->epoch != to->epoch || !(wall_ns > 0) ||
      unknown > UNKNOWN_MAX * (wall_ns + unknown))
    return NAN;
  return fmin(fmax((to->unhalted - from->unhalted) / wall_ns, 0), 1);
}

double engine_idle_poll(const struct core_totals *from,
                        const struct core_totals *to) {
  double wall_ns = to->stat_wall - from->stat_wall;
  double polled_ns = fmin(to->stat_polled - from->stat_polled,
                          to->stat_idle - from->stat_idle);
  return from->stat_epoch == to->stat_epoch && wall_ns > 0
             ? fmin(polled_ns / wall_ns, 1)
             : NAN;
}

double engine_frequency_hz(const struct core_totals *from,
                           const struct core_totals *to) {
  double wall_ns = to->base_wall - from->base_wall;
  double mperf = to->mperf - from->mperf;
  if (from->epoch != to->epoch || !(wall_ns > 0) || !(mperf > 0))
    return NAN;
  double base_hz = 1e9 * (to->base_cycles - from->base_cycles) / wall_ns;
  return base_hz * (to->aperf - from->aperf) / mperf;
}

static double between(double least, double value, double most) {
  return fmin(fmax(value, least), most);
}

/* Returns how far `unhalted` may be too large at the end of a window, because
 * columns are truncated or because of a pause. */
static double end_over(const struct core_totals *from,
                       const struct core_totals *to) {
  double lacks = to->lacks - from->lacks + to->end_lacks;
  for (int i = 0; i < PROCSTAT_STEAL && to->end_lacks > 0; i++)
    if (to->stat_ns[i] > from->stat_ns[i] &&
        (to->lacks_idle || (i != PROCSTAT_IDLE && i != PROCSTAT_IOWAIT)))
      lacks += COLUMN_RESOLUTION_NS;
  return fmax(to->end_over, lacks);
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
               (to->over - from->over) - end_over(from, to) - from->end_under;
  double high = unhalted + (to->under - from->under) + unknown + to->end_under +
                from_over;
  return (struct bounds){.low = between(0, low / span, load),
                         .high = between(load, high / span, 1)};
}
