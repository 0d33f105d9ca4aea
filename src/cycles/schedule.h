/* schedule: computes when the sampler must sample. The caller reads the clocks.
 *
 * Windows are measured on CLOCK_MONOTONIC, which cannot be set. Snapshots are
 * taken at multiples of the interval on CLOCK_REALTIME, so that all hosts of a
 * fleet take them at the same times. If CLOCK_REALTIME is stepped, the schedule
 * computes the next multiple again.
 */
#ifndef PERCORE_SCHEDULE_H
#define PERCORE_SCHEDULE_H

#include "loadavg.h"

#include <stdbool.h>
#include <stdint.h>

struct schedule {
  uint64_t interval_ns;
  uint64_t sample_interval_ns;
  uint64_t next_sample_ns;       /* CLOCK_MONOTONIC; UINT64_MAX: never */
  uint64_t next_load_average_ns; /* CLOCK_MONOTONIC */
  uint64_t next_grid_ns; /* CLOCK_REALTIME, a multiple of the interval */
  uint64_t origin_ns;    /* where multiples are counted from; usually 0 */
};

enum {
  SCHEDULE_SAMPLE = 1,
  SCHEDULE_LOAD_AVERAGE = 2,
  SCHEDULE_INTERVAL = 4,
};

struct schedule_due {
  unsigned what;     /* the flags above, one for each thing that is due */
  uint64_t stamp_ns; /* time stamp of the snapshot, with SCHEDULE_INTERVAL */
  uint64_t late_ns;  /* how long the most overdue deadline has been due */
  bool late;         /* a deadline on CLOCK_MONOTONIC is overdue by more than
                        SCHEDULE_LATE_NS */
};

#define SCHEDULE_LATE_NS (LOADAVG_INTERVAL_NS / 2)

/* If sample_interval_ns is 0, or not less than interval_ns, nothing is sampled
 * between snapshots except for the load averages, every LOADAVG_INTERVAL_NS.
 *
 * If from_here is true, intervals begin now rather than at multiples of the
 * interval, so that the first snapshot covers a whole interval. */
void schedule_start(struct schedule *schedule, uint64_t interval_ns,
                    uint64_t sample_interval_ns, bool from_here,
                    uint64_t monotonic_ns, uint64_t realtime_ns);

/* Returns how long to sleep. A step of CLOCK_REALTIME during the sleep is
 * noticed at the next sample. */
uint64_t schedule_wait_ns(const struct schedule *schedule,
                          uint64_t monotonic_ns, uint64_t realtime_ns);

/* Returns what is due, and moves each deadline that was due into the future. */
struct schedule_due schedule_take(struct schedule *schedule,
                                  uint64_t monotonic_ns, uint64_t realtime_ns);

#endif
