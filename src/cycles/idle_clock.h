/* idle_clock: how long each core has been halted, as the clock in the kernel
 * has it (idle_clock.bpf.c). One system call reads all cores and disturbs none.
 *
 * The clock sees a halt end with its first interrupt; the entry into that
 * interrupt, some dozens of instructions, counts as halted. It does not see
 * stolen time: a core that runs but was taken off its processor is not halted.
 * Polling in an idle state is not a halt.
 */
#ifndef PERCORE_CYCLES_IDLE_CLOCK_H
#define PERCORE_CYCLES_IDLE_CLOCK_H

#include "core_set.h"
#include "machine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Values are exact to this, because the clock is read before and after the
 * words. */
#define IDLE_CLOCK_BRACKET_NS UINT64_C(1000000)

struct idle_clock;

struct idle_clock_reading {
  uint64_t time_ns;   /* CLOCK_MONOTONIC */
  uint64_t halted_ns; /* never steps back, nor beyond time_ns */
};

/* Opens the clock that root has pinned or, if there is none and `load` says so,
 * loads one, which runs until it is closed. A machine has one clock at a time.
 * Returns 0, or -errno with `why`. */
int idle_clock_open(struct idle_clock **clock, const struct machine *machine,
                    bool load, char *why, size_t why_size);
void idle_clock_close(struct idle_clock *clock);
bool idle_clock_is_pinned(const struct idle_clock *clock);

/* Reads all cores. Returns 0; -EAGAIN if no read took less than
 * IDLE_CLOCK_BRACKET_NS; or another -errno, after which the clock can only be
 * closed: -ENOLINK if it no longer runs, because its pins have gone or because
 * a core went through idle states while its word stood still. */
int idle_clock_read(struct idle_clock *clock);

/* Begins anew with cores that came or went. */
void idle_clock_restart(struct idle_clock *clock, int core);

/* What the last read says of one core. A core on which the clock has not run
 * yet is interrupted to start it, where this process loaded the clock. Returns
 * 0; -ENODATA if the last read failed or the clock has not run on this core;
 * -ERANGE if its word cannot be right. */
int idle_clock_core(struct idle_clock *clock, int core,
                    struct idle_clock_reading *reading);

/* Whether idle state 0 of this machine polls, which a clock is told when it is
 * loaded. */
bool idle_clock_state0_polls(const struct machine *machine);

#endif
