/* schedule: when the sampler samples, as arithmetic without a clock.
 *
 * Two clocks are at work. Windows are measured on CLOCK_MONOTONIC, which no one
 * sets. Snapshots are wanted at multiples of the interval of CLOCK_REALTIME, so
 * that all hosts of a fleet agree on them; that clock may be stepped, and then
 * the next multiple is looked up anew.
 */
#ifndef PERCORE_SCHEDULE_H
#define PERCORE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

struct schedule {
  uint64_t interval_ns;
  uint64_t sample_interval_ns;
  uint64_t next_sample_ns;       /* CLOCK_MONOTONIC */
  uint64_t next_load_average_ns; /* CLOCK_MONOTONIC */
  uint64_t next_grid_ns;         /* CLOCK_REALTIME, a multiple of interval */
  uint64_t origin_ns;            /* what multiples are counted from; mostly 0 */
};

enum {
  SCHEDULE_SAMPLE = 1,
  SCHEDULE_LOAD_AVERAGE = 2,
  SCHEDULE_INTERVAL = 4,
};

struct schedule_due {
  unsigned what;     /* of the flags above */
  uint64_t stamp_ns; /* with SCHEDULE_INTERVAL: the snapshot's time */
  uint64_t late_ns;  /* behind the earliest deadline that was due */
  bool late;         /* by more than three sample intervals */
};

void schedule_start(struct schedule *schedule, uint64_t interval_ns,
                    uint64_t sample_interval_ns, uint64_t monotonic_ns,
                    uint64_t realtime_ns);

/* The same, but intervals begin now: the first snapshot covers a whole
 * interval. */
void schedule_start_here(struct schedule *schedule, uint64_t interval_ns,
                         uint64_t sample_interval_ns, uint64_t monotonic_ns,
                         uint64_t realtime_ns);

/* How long to sleep. A step of CLOCK_REALTIME meanwhile is seen at the next
 * sample. */
uint64_t schedule_wait_ns(const struct schedule *schedule,
                          uint64_t monotonic_ns, uint64_t realtime_ns);

/* What is due now; advances the deadlines past it. */
struct schedule_due schedule_take(struct schedule *schedule,
                                  uint64_t monotonic_ns, uint64_t realtime_ns);

#endif
