/* core: reads the idle states of a core from cpuidle, and runs functions on a
 * core. */
#ifndef PERCORE_WAKE_CORE_H
#define PERCORE_WAKE_CORE_H

#include "wake.h"

#include <pthread.h>

/* Stores the names of the core's idle states, in the kernel's order. Without a
 * cpuidle driver there is only one, which is called "idle" here. */
void wake_core_states(int core, struct wake_points *points);

/* Returns how many idle states the core has entered since boot, or -1 if
 * cpuidle has no driver for the core or the core is offline. */
int64_t wake_core_usage(int core);

/* Returns false if the core is offline. The core must exist. */
bool wake_core_is_online(int core);

/* Calls run(context) in a thread on the core, and returns the result of run. If
 * the thread cannot run on the core, writes the reason to `why` and returns
 * -ETIMEDOUT after two seconds, or -EINTR as soon as goes_on(context) returns
 * false. */
int wake_core_run(int core, int (*run)(void *context),
                  bool (*goes_on)(void *context), void *context,
                  char why[WHY_SIZE]);

/* Moves a thread to the other cores, so that it can end even if other threads
 * keep this core busy. */
void wake_core_leave(int core, pthread_t thread);

#endif
