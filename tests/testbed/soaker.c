#include "soaker.h"

#include "base/affinity.h"
#include "base/clock.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>

/* Two successive readings of the clock are least_step_ns() apart if nothing
 * runs between them. If they are further apart than that by more than GAP_NS
 * and by more than least_step_ns(), other work ran between them. */
#define GAP_NS 150
#define CALIBRATION_NS UINT64_C(20000000)

static uint64_t now_ns(void) { return clock_now_ns(CLOCK_MONOTONIC); }

/* Gives the scheduling group of this process the lowest weight, because
 * SCHED_IDLE yields only to tasks in the same group. */
static void weaken_group(void) {
  FILE *file = fopen("/proc/self/autogroup", "we");
  if (file == NULL)
    return;
  fputs("19", file);
  fclose(file);
}

static int occupy(int core) {
  const struct sched_param none = {0};
  weaken_group();
  if (sched_setscheduler(0, SCHED_IDLE, &none) != 0)
    return -errno;
  return affinity_pin(core);
}

/* Returns the smallest difference between two successive readings of the
 * clock. */
static uint64_t least_step_ns(void) {
  uint64_t least_ns = UINT64_MAX, last_ns = now_ns(), next_ns;
  for (uint64_t end_ns = last_ns + CALIBRATION_NS; last_ns < end_ns;
       last_ns = next_ns) {
    next_ns = now_ns();
    if (next_ns - last_ns < least_ns)
      least_ns = next_ns - last_ns;
  }
  return least_ns;
}

int soak_core(struct soak *soak, int core, uint64_t duration_ns) {
  *soak = (struct soak){0};
  int status = occupy(core);
  if (status != 0)
    return status;
  const uint64_t step_ns = least_step_ns();
  const uint64_t gap_ns = step_ns + (step_ns > GAP_NS ? step_ns : GAP_NS);
  const uint64_t begin_ns = now_ns();
  uint64_t last_ns = begin_ns;
  while (last_ns - begin_ns < duration_ns) {
    uint64_t next_ns = now_ns();
    if (next_ns - last_ns > gap_ns) {
      if (sched_getcpu() != core)
        return -ENODEV;
      soak->lost_ns += next_ns - last_ns - step_ns;
    }
    last_ns = next_ns;
  }
  soak->total_ns = last_ns - begin_ns;
  return 0;
}
