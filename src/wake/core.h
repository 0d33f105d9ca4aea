/* core: the idle states of a core as cpuidle counts them, and how to run on a
 * core. */
#ifndef PERCORE_WAKE_CORE_H
#define PERCORE_WAKE_CORE_H

#include "wake.h"

#include <pthread.h>

/* Stores the number in `points` of each idle state of the core, in the kernel's
 * order, and returns how many idle states there are. Without a cpuidle driver
 * the kernel has a single idle state, called "idle" here. */
int wake_core_states(int core, struct wake_points *points,
                     int states[WAKE_STATES_MAX]);

/* How many idle states the core has entered since boot; -1: cpuidle has no
 * driver for it. */
int64_t wake_core_usage(int core);

/* Runs `run` in a thread on the core, and returns its status. Writes to `why`
 * only if it did not run there. -ETIMEDOUT: the core was never free. -EINTR:
 * the core was not free before goes_on returned false. goes_on is called again
 * and again, and may be NULL. */
int wake_core_run(int core, int (*run)(void *context),
                  bool (*goes_on)(void *context), void *context,
                  char why[WAKE_WHY_SIZE]);

/* Moves a thread from the core to others, so that it can end even if it never
 * gets the core. */
void wake_core_leave(int core, pthread_t thread);

#endif
