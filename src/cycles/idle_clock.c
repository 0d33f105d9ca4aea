#include "idle_clock.h"

#include "cpuidle.h"
#include "interrupts.h"
#include "kernel_clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How often to check whether a core has halted although its word did not
 * change. */
#define WATCH_INTERVAL_NS INT64_C(5000000000)

/* When the driver has counted this many halts since a reading, at least one
 * halt has begun after that reading. The driver counts a halt at its end, so
 * the first counted halt may have begun before the reading. */
#define WAKES_TO_BE_SURE 2

#define UNSEEN_SIZE 256

struct core_clock {
  bool known; /* the members below are valid */
  int64_t word;
  int64_t halted_ns;
  int64_t watch_at_ns; /* when to count again; 0: `wakes` is unknown */
  uint64_t wakes;      /* the count when the word was first found unchanged */
};

struct idle_clock {
  struct kernel_clock kernel;
  bool pinned;
  int64_t words[CORES_MAX + 1]; /* one per possible core, in ascending order */
  char unseen[UNSEEN_SIZE];
  char *text; /* /proc/interrupts or /proc/softirqs */
  size_t text_size;
  /* kernel.time_ns of the read after which /proc/softirqs was read into
   * `text`. */
  int64_t softirqs_ns;
  struct core_clock cores[CORES_MAX];
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
  if (machine->read_file(
          machine->context,
          "/sys/devices/system/clockevents/clockevent0/current_device", name,
          sizeof(name)) <= 0)
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

static void find_unseen(struct idle_clock *clock) {
  const struct machine *machine = clock->kernel.machine;
  machine->clock_missing(machine->context, clock->unseen, UNSEEN_SIZE);
  if (machine_read_long(machine, "/proc/interrupts", &clock->text,
                        &clock->text_size) >= 0)
    interrupts_without_tracepoint(clock->text, clock->unseen, UNSEEN_SIZE);
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
  find_unseen(clock);
  *result = clock;
  return 0;
}

void idle_clock_close(struct idle_clock *clock) {
  if (clock == NULL)
    return;
  const struct machine *machine = clock->kernel.machine;
  machine->clock_close(machine->context, CLOCK_IDLE);
  free(clock->text);
  free(clock);
}

bool idle_clock_is_pinned(const struct idle_clock *clock) {
  return clock->pinned;
}

const char *idle_clock_unseen(const struct idle_clock *clock) {
  return clock->unseen;
}

/* ---------------------------------------------------------------------------
 * Reading
 */

static const int64_t *word_of(const struct idle_clock *clock, int core) {
  return &clock->words[clock->kernel.places[core]];
}

/* If the core is halted according to its word, sets *softirqs to the number of
 * softirqs that the core has run: each new softirq should have ended the halt.
 * Returns false if the core is awake, because softirqs then do not change its
 * word, or if the softirqs cannot be read. */
static bool count_softirqs(struct idle_clock *clock, int core,
                           uint64_t *softirqs) {
  const struct kernel_clock *kernel = &clock->kernel;
  if (*word_of(clock, core) >= 0)
    return false;
  if (clock->softirqs_ns != kernel->time_ns &&
      machine_read_long(kernel->machine, "/proc/softirqs", &clock->text,
                        &clock->text_size) < 0)
    return false;
  clock->softirqs_ns = kernel->time_ns;
  return interrupts_add_softirqs(clock->text, kernel->places[core], softirqs);
}

/* Counts events that change the core's word: halts, or softirqs if the core has
 * no idle driver. Returns false if neither can be counted. */
static bool count_wakes(struct idle_clock *clock, int core, uint64_t *wakes) {
  struct cpuidle cpuidle;
  *wakes = 0;
  if (cpuidle_read(&cpuidle, clock->kernel.machine, core) == 0)
    return count_softirqs(clock, core, wakes);
  for (int i = 0; i < cpuidle.states_len; i++)
    if (!cpuidle.state[i].poll)
      *wakes += cpuidle.state[i].entries;
  return true;
}

/* Returns -ENOLINK if the core has halted or woken although its word did not
 * change, or another -errno if the words cannot be read again. A word may also
 * stay the same because the core halts or works for a long time. */
static int check_moved(struct idle_clock *clock, int core) {
  struct core_clock *state = &clock->cores[core];
  const int64_t *word = word_of(clock, core);
  int64_t time_ns = clock->kernel.time_ns;
  uint64_t wakes;
  if (*word != state->word) {
    state->watch_at_ns = 0;
    return 0;
  }
  if (time_ns < state->watch_at_ns || !count_wakes(clock, core, &wakes))
    return 0;
  /* A newly loaded idle driver counts from 0. */
  if (state->watch_at_ns == 0 || wakes < state->wakes)
    state->wakes = wakes;
  state->watch_at_ns = time_ns + WATCH_INTERVAL_NS;
  if (wakes - state->wakes < WAKES_TO_BE_SURE)
    return 0;
  /* The word may have changed after it was read and before `wakes` was counted,
   * so read it again. */
  int status = kernel_clock_read(&clock->kernel, clock->words);
  return status == 0 && *word == state->word ? -ENOLINK : status;
}

int idle_clock_read(struct idle_clock *clock) {
  int status = kernel_clock_read(&clock->kernel, clock->words);
  core_set_for_each(core, &clock->kernel.possible) {
    if (status == 0 && clock->cores[core].known)
      status = check_moved(clock, core);
  }
  if (status != 0)
    clock->kernel.time_ns = 0;
  return status;
}

int idle_clock_core(struct idle_clock *clock, int core,
                    struct idle_clock_reading *reading) {
  const struct kernel_clock *kernel = &clock->kernel;
  const struct machine *machine = kernel->machine;
  struct core_clock *state = &clock->cores[core];
  if (!core_set_has(&kernel->possible, core) || kernel->time_ns == 0)
    return -ENODATA;
  int64_t word = *word_of(clock, core), halted_ns;
  if (word == 0) {
    machine->clock_start(machine->context, core);
    return -ENODATA;
  }
  if (!kernel_clock_sum(kernel, kernel->time_ns - kernel->offset_ns, word,
                        &halted_ns) ||
      !kernel_clock_hold(kernel, state->halted_ns, &halted_ns)) {
    *state = (struct core_clock){.known = false};
    return -ERANGE;
  }
  state->known = true;
  state->word = word;
  state->halted_ns = halted_ns;
  *reading = (struct idle_clock_reading){
      .time_ns = (uint64_t)kernel->time_ns,
      .bracket_ns = (uint64_t)kernel->bracket_ns,
      .halted_ns = (uint64_t)halted_ns,
  };
  return 0;
}
