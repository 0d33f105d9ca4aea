/* figures_private: the figures object, for the files that implement it:
 *
 *   figures.c        loads, averages and columns, from the engine's totals
 *   figures_files.c  files and clocks that are read once in an interval
 */
#ifndef PERCORE_FIGURES_PRIVATE_H
#define PERCORE_FIGURES_PRIVATE_H

#include "cpuidle.h"
#include "engine_private.h"
#include "figures.h"
#include "schedstat.h"

#include <math.h>

/* The totals at which a core's current windows began. All zeros until the core
 * has been seen; no totals have the epoch 0, so its first windows have no
 * load. */
struct core_windows {
  struct core_totals sample, average, interval;
  double busy;     /* in the last interval */
  double min, max; /* NAN until the interval's first sample window has ended */
  struct loadavg load_average[FIGURES_PERIODS_MAX];
  /* CLOCK_MONOTONIC of the last update of load_average; 0 before the first
   * update. */
  uint64_t averaged_ns;
  uint64_t cpuidle_ns;
  struct cpuidle cpuidle;
  /* The last values from /proc/schedstat; wait_time_ns is 0 before the first
   * reading. */
  uint64_t wait_time_ns, wait_ns;
};

struct figures {
  struct figures_options options;
  const struct engine *engine;
  struct loadavg run_queue[FIGURES_PERIODS_MAX];
  uint64_t run_queue_ns;
  struct schedstat schedstat;
  bool has_schedstat;            /* schedstat was read in this interval */
  struct softirq_clock *softirq; /* NULL: not wanted, or out of memory */
  /* Pages that are never written take no memory. */
  struct core_windows windows[CORES_MAX];
};

static inline double ratio(double part, double whole) {
  return whole > 0 ? part / whole : NAN;
}

static inline double between_0_and_1(double share) {
  return isnan(share) ? NAN : fmin(fmax(share, 0), 1);
}

/* Reads the files and clocks that each describe all cores. */
void figures_files_read(struct figures *figures);

/* Fills in one core's idle states, scheduler counts, and time in softirqs. */
void figures_files_interval(const struct figures *figures,
                            struct core_windows *windows,
                            struct core_figures *core);

#endif
