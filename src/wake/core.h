/* core: reads what the kernel says about a core's idle states, and runs
 * functions on a core. */
#ifndef PERCORE_WAKE_CORE_H
#define PERCORE_WAKE_CORE_H

#include "wake.h"

#include <pthread.h>

/* Reads the core's idle states, in the kernel's order. `root` precedes every
 * path; "" is this machine. Without a cpuidle driver, or if the core is
 * offline, there is one state, whose name is "idle" here, and nothing is known
 * about it. */
void wake_core_states(const char *root, int core, struct wake_states *states);

/* Subtracts earlier counts of the states. Returns how many idle states the core
 * has entered in between, or -1 if that is unknown; `states` is then undefined.
 */
int64_t wake_states_since(struct wake_states *states,
                          const struct wake_states *before);

/* Returns false if the core is offline. The core must exist. */
bool wake_core_is_online(int core);

/* Calls run(argument) in a thread on the core, and returns the result of run.
 * If the thread cannot run on the core, writes the reason to `why` and returns
 * -ETIMEDOUT after two seconds, or -EINTR as soon as goes_on(context) returns
 * false; goes_on may be NULL. */
int wake_core_run(int core, int (*run)(void *argument), void *argument,
                  bool (*goes_on)(void *context), void *context,
                  char why[WHY_SIZE]);

/* Moves a thread to the other cores, so that it can end even if other threads
 * keep this core busy. */
void wake_core_leave(int core, pthread_t thread);

#endif
