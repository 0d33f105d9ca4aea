/* idle_clock: how long each core has been halted, according to a clock that
 * runs in the kernel (idle_clock.bpf.c). One system call reads all cores
 * without disturbing any of them.
 *
 * For the clock, a halt ends with the first interrupt, at its tracepoint; the
 * time to enter the interrupt still counts as halted. The clock does not see
 * stolen time: a core whose virtual CPU was descheduled while it ran does
 * not count as halted. Polling in an idle state is not a halt either.
 */
#ifndef PERCORE_CYCLES_IDLE_CLOCK_H
#define PERCORE_CYCLES_IDLE_CLOCK_H

#include "base/core_set.h"
#include "machine.h"

#include <stdbool.h>
#include <stdint.h>

/* The bracket is the time between the readings of CLOCK_MONOTONIC before and
 * after the words are read, and the largest error of a sum. A read with a
 * longer bracket than the first is repeated, one with a longer bracket than the
 * second is not used. */
#define IDLE_CLOCK_BRACKET_NS INT64_C(1000000)
#define IDLE_CLOCK_BRACKET_MAX_NS INT64_C(100000000)

struct idle_clock {
  const struct machine *machine;
  struct programs programs;
  struct core_set possible;
  int cores;                 /* number of possible cores */
  int16_t places[CORES_MAX]; /* index of each possible core in the words */
  int64_t offset_ns;         /* CLOCK_MONOTONIC here less that of the words */
  int64_t time_ns;    /* CLOCK_MONOTONIC of the last read; 0: it failed */
  int64_t bracket_ns; /* of the last read and, if longer, of the one before */
  int64_t last_bracket_ns;
  int64_t words[CORES_MAX + 1]; /* one per possible core, in ascending order */
  int64_t halted_ns[CORES_MAX]; /* at the last reading of each core */
};

/* Opens the clock that root has pinned. If no clock is pinned and `load` is
 * true, loads a clock, which runs until it is closed. Returns 0, or -errno with
 * the reason in `why`. */
int idle_clock_open(struct idle_clock **clock, const struct machine *machine,
                    const struct core_set *possible, bool load,
                    char why[WHY_SIZE]);
void idle_clock_close(struct idle_clock *clock);

/* Reads the words of all possible cores, and then the time. Returns 0, an
 * -errno of clock_calls.read, or -EAGAIN if every read took more than
 * IDLE_CLOCK_BRACKET_MAX_NS. */
int idle_clock_read(struct idle_clock *clock);

/* Sets *halted_ns to how long a core had been halted at the last reading
 * (clock->time_ns); it never decreases, and never exceeds that time. If
 * the clock has not yet run on the core and this process loaded the clock,
 * interrupts the core to start its clock. Returns 0; -ENODATA if the last read
 * failed or the clock has not yet run on this core; -ERANGE if the core's word
 * is impossible. */
int idle_clock_core(struct idle_clock *clock, int core, uint64_t *halted_ns);

/* True if idle state 0 polls instead of halting. It polls on x86. Elsewhere, it
 * polls if the idle driver of the first of these cores that has one says so.
 * Without an idle driver, the kernel reports only polling as state 0. */
bool idle_clock_state0_polls(const struct machine *machine,
                             const struct core_set *cores);

#endif
