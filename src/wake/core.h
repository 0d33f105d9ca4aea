/* core: the idle states of a core as cpuidle counts them, and how to run on a
 * core. */
#ifndef PERCORE_WAKE_CORE_H
#define PERCORE_WAKE_CORE_H

#include "wake.h"

/* Stores the numbers that the names of the core's idle states have in `points`,
 * in the kernel's order, and returns how many these are. Without a cpuidle
 * driver the kernel has a single idle state, called "idle" here. */
int wake_core_states(int core, struct wake_points *points,
                     int states[WAKE_STATES_MAX]);

/* How many idle states the core has entered since boot; -1: cpuidle has no
 * driver for it. */
int64_t wake_core_usage(int core);

/* Moves this thread to the core while `run` runs, whose negative errno it
 * returns. Writes to `why` only if the thread could not be moved. */
int wake_core_run(int core, int (*run)(void *context), void *context,
                  char why[WAKE_WHY_SIZE]);

#endif
