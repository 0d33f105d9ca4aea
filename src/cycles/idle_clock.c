#include "idle_clock.h"

#include "cpuidle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------
 * Opening
 */

bool idle_clock_state0_polls(const struct machine *machine,
                             const struct core_set *cores) {
  struct cpuidle cpuidle;
  core_set_for_each(core, cores) {
    if (cpuidle_read(&cpuidle, machine, core) > 0)
      return cpuidle.state[0].poll;
  }
  return true;
}

static int open_or_load(struct idle_clock *clock, bool load,
                        char why[WHY_SIZE]) {
  const struct machine *machine = clock->kernel.machine;
  int status =
      machine->clocks->open(&clock->kernel.programs, CLOCK_IDLE, NULL, why);
  if (status != -ENOENT || !load)
    return status;
  bool polls = idle_clock_state0_polls(machine, &clock->kernel.possible);
  return machine->clocks->open(&clock->kernel.programs, CLOCK_IDLE, &polls,
                               why);
}

int idle_clock_open(struct idle_clock **result, const struct machine *machine,
                    const struct core_set *possible, bool load,
                    char why[WHY_SIZE]) {
  struct idle_clock *clock = calloc(1, sizeof(*clock));
  if (clock == NULL)
    return why_fails(why, -ENOMEM, "out of memory");
  kernel_clock_init(&clock->kernel, machine, possible);
  int status = open_or_load(clock, load, why);
  if (status != 0) {
    free(clock);
    return status;
  }
  *result = clock;
  return 0;
}

void idle_clock_close(struct idle_clock *clock) {
  if (clock == NULL)
    return;
  clock->kernel.machine->clocks->close(&clock->kernel.programs);
  free(clock);
}

/* ---------------------------------------------------------------------------
 * Reading
 */

int idle_clock_core(struct idle_clock *clock, int core, uint64_t *halted_ns) {
  const struct kernel_clock *kernel = &clock->kernel;
  int64_t *sum_ns = &clock->halted_ns[core];
  if (!core_set_has(&kernel->possible, core) || kernel->time_ns == 0)
    return -ENODATA;
  int64_t word = clock->words[kernel->places[core]];
  if (word == 0) {
    kernel->machine->clocks->start(&kernel->programs, core);
    return -ENODATA;
  }
  if (!kernel_clock_advance(kernel, kernel->time_ns, word, sum_ns)) {
    *sum_ns = 0;
    return -ERANGE;
  }
  *halted_ns = (uint64_t)*sum_ns;
  return 0;
}
