/* cpuidle: the C-states of a core, as its idle driver reports them. */
#ifndef PERCORE_CPUIDLE_H
#define PERCORE_CPUIDLE_H

#include "machine.h"

#include <stdbool.h>
#include <stdint.h>

#define CPUIDLE_STATES_MAX 10 /* CPUIDLE_STATE_MAX of the kernel */

struct cpuidle_state {
  char name[32];    /* only letters, digits, '-', '_' and '.' */
  bool poll;        /* the core busy-waits instead of halting */
  uint64_t time_ns; /* since boot */
  uint64_t entries; /* since boot */
};

struct cpuidle {
  int states_len; /* 0 if the core has no idle driver */
  struct cpuidle_state state[CPUIDLE_STATES_MAX];
};

/* Reads the idle states of one core, stopping at the first state that cannot be
 * read. Returns the number of states read. */
int cpuidle_read(struct cpuidle *cpuidle, const struct machine *machine,
                 int core);

/* Returns how long the core has been in states that halt it, since boot. */
uint64_t cpuidle_halted_ns(const struct cpuidle *cpuidle);

/* What earlier calls have learned about the idle driver of a core. Without it,
 * each call would look for all possible states. */
struct idle_driver {
  /* The number of its states, or CPUIDLE_STATES_MAX if that is not known. Set
   * it to CPUIDLE_STATES_MAX now and then, because a driver may be loaded. */
  int states_max;
  bool polls; /* its state 0 is the one that polls */
};

/* Reads how long the core has polled in the idle loop since boot. Only state 0
 * may poll. Whether it does is seen from its name, until driver->polls is set.
 * Returns 0 or -errno: -ENOENT if no state polls, or there is no idle driver.
 */
int cpuidle_read_polled(uint64_t *polled_ns, const struct machine *machine,
                        int core, struct idle_driver *driver);

/* Reads how often the core has entered an idle state since boot. Returns 0, or
 * -ENOENT if it has no idle driver. */
int cpuidle_read_entries(uint64_t *entries, const struct machine *machine,
                         int core, struct idle_driver *driver);

/* True if this machine was booted with idle=poll or, on arm64, nohlt: no core
 * ever halts, and no idle driver counts the time. */
bool cpuidle_never_halts(const struct machine *machine);

#endif
