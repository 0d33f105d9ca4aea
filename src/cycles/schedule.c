#include "schedule.h"

/* Deadlines that are less than this apart share a sample, because a second
 * sample would add little precision. */
#define COALESCE_NS UINT64_C(1000000)

/* The windows of a snapshot are at least a tenth of an interval, because
 * shorter windows are mostly rounding error. */
#define LEAST_WINDOW(interval_ns) ((interval_ns) / 10)

static uint64_t last_multiple(const struct schedule *schedule,
                              uint64_t time_ns) {
  return time_ns - (time_ns - schedule->origin_ns) % schedule->interval_ns;
}

static uint64_t next_multiple(const struct schedule *schedule,
                              uint64_t time_ns) {
  return last_multiple(schedule, time_ns) + schedule->interval_ns;
}

void schedule_start(struct schedule *schedule, uint64_t interval_ns,
                    uint64_t sample_interval_ns, bool from_here,
                    uint64_t monotonic_ns, uint64_t realtime_ns) {
  *schedule = (struct schedule){
      .interval_ns = interval_ns,
      .sample_interval_ns = sample_interval_ns,
      .next_sample_ns =
          sample_interval_ns > 0 && sample_interval_ns < interval_ns
              ? monotonic_ns + sample_interval_ns
              : UINT64_MAX,
      .next_load_average_ns = monotonic_ns + LOADAVG_INTERVAL_NS,
      .origin_ns = from_here ? realtime_ns % interval_ns : 0,
  };
  /* The first snapshot is due after at least half an interval. */
  schedule->next_grid_ns =
      next_multiple(schedule, realtime_ns + interval_ns / 2 - 1);
}

static uint64_t earlier(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t until(uint64_t deadline_ns, uint64_t now_ns) {
  return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

uint64_t schedule_wait_ns(const struct schedule *schedule,
                          uint64_t monotonic_ns, uint64_t realtime_ns) {
  uint64_t wait_ns = until(schedule->next_grid_ns, realtime_ns);
  wait_ns = earlier(wait_ns, until(schedule->next_sample_ns, monotonic_ns));
  return earlier(wait_ns, until(schedule->next_load_average_ns, monotonic_ns));
}

/* Returns true if the clock was set back by more than an interval. It could
 * then take hours until the clock reaches next_grid_ns. After a smaller step,
 * next_grid_ns remains correct, because the snapshot for the multiple before it
 * has already been taken. */
static bool stepped_back(const struct schedule *schedule,
                         uint64_t realtime_ns) {
  return schedule->next_grid_ns > realtime_ns + 2 * schedule->interval_ns;
}

static void take_grid(struct schedule *schedule, uint64_t realtime_ns,
                      struct schedule_due *due) {
  if (stepped_back(schedule, realtime_ns))
    schedule->next_grid_ns = next_multiple(schedule, realtime_ns);
  if (realtime_ns < schedule->next_grid_ns)
    return;
  uint64_t multiple_ns = last_multiple(schedule, realtime_ns);
  uint64_t late_ns = realtime_ns - schedule->next_grid_ns;
  uint64_t off_ns = realtime_ns - multiple_ns;
  due->what |= SCHEDULE_INTERVAL;
  due->stamp_ns =
      off_ns > schedule->interval_ns / 100 ? realtime_ns : multiple_ns;
  /* If the snapshot is more than an interval late, its lateness is ignored:
   * either the clock was stepped, or the deadlines on CLOCK_MONOTONIC are just
   * as late. */
  if (late_ns > due->late_ns && late_ns < schedule->interval_ns)
    due->late_ns = late_ns;
  /* A snapshot that is nearly an interval late also replaces the next
   * snapshot. */
  schedule->next_grid_ns = next_multiple(
      schedule, realtime_ns + LEAST_WINDOW(schedule->interval_ns) - 1);
}

/* Takes a CLOCK_MONOTONIC deadline if it is due: advances it past now by whole
 * periods, to keep the rhythm. */
static void take_deadline(uint64_t *deadline_ns, uint64_t period_ns,
                          uint64_t now_ns, unsigned what,
                          struct schedule_due *due) {
  if (now_ns + COALESCE_NS < *deadline_ns)
    return;
  uint64_t late_ns = until(now_ns, *deadline_ns);
  if (late_ns > due->late_ns)
    due->late_ns = late_ns;
  due->what |= what;
  *deadline_ns += period_ns;
  if (*deadline_ns <= now_ns)
    *deadline_ns += (now_ns - *deadline_ns) / period_ns * period_ns + period_ns;
}

struct schedule_due schedule_take(struct schedule *schedule,
                                  uint64_t monotonic_ns, uint64_t realtime_ns) {
  struct schedule_due due = {0};
  take_deadline(&schedule->next_sample_ns, schedule->sample_interval_ns,
                monotonic_ns, SCHEDULE_SAMPLE, &due);
  take_deadline(&schedule->next_load_average_ns, LOADAVG_INTERVAL_NS,
                monotonic_ns, SCHEDULE_LOAD_AVERAGE, &due);
  due.late = due.late_ns > SCHEDULE_LATE_NS;
  take_grid(schedule, realtime_ns, &due);
  return due;
}
