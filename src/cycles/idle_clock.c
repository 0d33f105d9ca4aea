#include "idle_clock.h"

#include "cpuidle.h"
#include "kernel_clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct idle_clock {
  struct kernel_clock kernel;
  bool pinned;
  int64_t words[CORES_MAX + 1]; /* one per possible core, in ascending order */
  int64_t halted_ns[CORES_MAX]; /* at the last reading of each core */
};

/* ---------------------------------------------------------------------------
 * Opening
 */

/* True if idle state 0 polls instead of halting. It polls on x86. Elsewhere, it
 * polls if the idle driver says so. Without an idle driver, the kernel reports
 * only polling as state 0. */
static bool state0_polls(const struct machine *machine,
                         const struct core_set *cores) {
  struct cpuidle cpuidle;
  core_set_for_each(core, cores) {
    if (cpuidle_read(&cpuidle, machine, core) > 0)
      return cpuidle.state[0].poll;
  }
  return true;
}

/* True if the timer interrupt of this machine is known to have a tracepoint.
 * The timer interrupt of the local APIC has its own tracepoint. On arm64, the
 * interrupt of the system timer runs the tracepoint of device interrupts. */
static bool timer_is_known(const struct machine *machine) {
  static const char *const known[] = {"lapic", "arch_sys_timer"};
  char name[64];
  if (machine_read(
          machine, name, sizeof(name),
          "/sys/devices/system/clockevents/clockevent0/current_device") <= 0)
    return false;
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
    if (strncmp(name, known[i], strlen(known[i])) == 0)
      return true;
  return false;
}

struct idle_clock_traits idle_clock_traits(const struct machine *machine,
                                           const struct core_set *cores) {
  return (struct idle_clock_traits){.state0_polls =
                                        state0_polls(machine, cores),
                                    .timer_is_known = timer_is_known(machine)};
}

static int open_or_load(struct idle_clock *clock, bool load,
                        char why[PROGRAMS_WHY_SIZE]) {
  const struct machine *machine = clock->kernel.machine;
  if (machine->clock_open == NULL) {
    snprintf(why, PROGRAMS_WHY_SIZE, "this machine has no idle clock");
    return -ENOSYS;
  }
  int status = machine->clock_open(machine->context, CLOCK_IDLE, NULL, why);
  clock->pinned = status == 0;
  if (status != -ENOENT || !load)
    return status;
  struct idle_clock_traits traits =
      idle_clock_traits(machine, &clock->kernel.possible);
  return machine->clock_open(machine->context, CLOCK_IDLE, &traits, why);
}

int idle_clock_open(struct idle_clock **result, const struct machine *machine,
                    const struct core_set *possible, bool load,
                    char why[PROGRAMS_WHY_SIZE]) {
  struct idle_clock *clock = calloc(1, sizeof(*clock));
  if (clock == NULL) {
    snprintf(why, PROGRAMS_WHY_SIZE, "out of memory");
    return -ENOMEM;
  }
  kernel_clock_init(&clock->kernel, machine, CLOCK_IDLE, possible);
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
  const struct machine *machine = clock->kernel.machine;
  machine->clock_close(machine->context, CLOCK_IDLE);
  free(clock);
}

bool idle_clock_is_pinned(const struct idle_clock *clock) {
  return clock->pinned;
}

/* ---------------------------------------------------------------------------
 * Reading
 */

int idle_clock_read(struct idle_clock *clock) {
  return kernel_clock_read(&clock->kernel, clock->words);
}

int idle_clock_core(struct idle_clock *clock, int core,
                    struct idle_clock_reading *reading) {
  const struct kernel_clock *kernel = &clock->kernel;
  const struct machine *machine = kernel->machine;
  int64_t *former_ns = &clock->halted_ns[core];
  if (!core_set_has(&kernel->possible, core) || kernel->time_ns == 0)
    return -ENODATA;
  int64_t word = clock->words[kernel->places[core]], halted_ns;
  if (word == 0) {
    machine->clock_start(machine->context, core);
    return -ENODATA;
  }
  if (!kernel_clock_sum(kernel, kernel->time_ns - kernel->offset_ns, word,
                        &halted_ns) ||
      !kernel_clock_hold(kernel, *former_ns, &halted_ns)) {
    *former_ns = 0;
    return -ERANGE;
  }
  *former_ns = halted_ns;
  *reading = (struct idle_clock_reading){
      .time_ns = (uint64_t)kernel->time_ns,
      .bracket_ns = (uint64_t)kernel->bracket_ns,
      .halted_ns = (uint64_t)halted_ns,
  };
  return 0;
}
