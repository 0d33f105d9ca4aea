#include "candidate.h"

#include "core.h"

#include <errno.h>

int candidate_open(const struct candidate *candidate, struct perf_group *group,
                   const struct machine *machine, int core, bool pinned) {
  return perf_group_open(group, machine, core, candidate->events,
                         candidate->events_len, pinned);
}

/* Returns how much an event counted between two readings. `event` is its index
 * in the group; if it is -1, returns 0. The unsigned subtraction is correct
 * even if the counter wrapped. */
static double counted(const struct perf_reading *from,
                      const struct perf_reading *to, int event) {
  return event < 0 ? 0 : (double)(to->value[event] - from->value[event]);
}

int candidate_window(const struct candidate *candidate,
                     const struct perf_reading *from,
                     const struct perf_reading *to, struct core_totals *growth,
                     double *running) {
  if (to->time_enabled_ns <= from->time_enabled_ns)
    return -ESTALE;
  if (to->time_running_ns <= from->time_running_ns)
    return -EAGAIN;
  double wall_ns = (double)(to->time_enabled_ns - from->time_enabled_ns);
  double running_ns = (double)(to->time_running_ns - from->time_running_ns);
  double unhalted = counted(from, to, 0);
  double tsc = counted(from, to, candidate->tsc);
  /* The TSC is counted in the same group, only while the other counters run, so
   * its count is not scaled. */
  double base = candidate->denominator == DENOMINATOR_TSC
                    ? tsc
                    : candidate->base_frequency_hz * running_ns / 1e9;
  if (!(base > 0))
    return -EAGAIN;
  *running = running_ns / wall_ns;
  growth->wall = wall_ns;
  growth->unhalted = unhalted / base * wall_ns;
  growth->base_cycles = (candidate->tsc >= 0 ? tsc : base) / *running;
  growth->mperf = candidate->aperf >= 0 ? unhalted : 0;
  growth->aperf = counted(from, to, candidate->aperf);
  growth->smi = counted(from, to, candidate->smi);
  return 0;
}
