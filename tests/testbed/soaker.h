/* soaker: measures a lower bound of a core's load without a counter. A thread
 * of the lowest scheduling class runs whenever no other work wants the core,
 * and adds up the time in which it could not run. */
#ifndef TESTBED_SOAKER_H
#define TESTBED_SOAKER_H

#include <stdint.h>

struct soak {
  uint64_t total_ns;
  uint64_t lost_ns; /* time that other work took */
};

/* Moves the calling thread to the core and into SCHED_IDLE, where it remains,
 * and measures for duration_ns. The core does not halt while this function
 * measures. Returns 0 or -errno; -ENODEV if the core went offline. */
int soak_core(struct soak *soak, int core, uint64_t duration_ns);

#endif
