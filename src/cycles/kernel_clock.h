/* kernel_clock: code that the idle clock and the softirq clock share, because
 * both read words that programs in the kernel keep for each core.
 *
 * A word >= 0 is the total length of past spans, that is, of halts, interrupts
 * or softirqs, in nanoseconds. A negative word is such a total minus the
 * instant at which the current span began. Instants are CLOCK_MONOTONIC of the
 * initial time namespace. */
#ifndef PERCORE_CYCLES_KERNEL_CLOCK_H
#define PERCORE_CYCLES_KERNEL_CLOCK_H

#include "core_set.h"
#include "machine.h"

#include <stdbool.h>
#include <stdint.h>

/* The bracket is the time between the readings of CLOCK_MONOTONIC before and
 * after the words are read, and the largest error of a sum. A read with a
 * longer bracket than the first is repeated, one with a longer bracket than the
 * second is not used. */
#define KERNEL_CLOCK_BRACKET_NS INT64_C(1000000)
#define KERNEL_CLOCK_BRACKET_MAX_NS INT64_C(100000000)

struct kernel_clock {
  const struct machine *machine;
  struct programs programs;
  struct core_set possible;
  int cores;                 /* number of possible cores */
  int16_t places[CORES_MAX]; /* index of each possible core in the words */
  int64_t offset_ns;         /* CLOCK_MONOTONIC here less that of the words */
  int64_t time_ns;    /* CLOCK_MONOTONIC of the last read; 0: it failed */
  int64_t bracket_ns; /* of the last read and, if longer, of the one before */
  int64_t last_bracket_ns;
};

void kernel_clock_init(struct kernel_clock *clock,
                       const struct machine *machine,
                       const struct core_set *possible);

/* Reads the words of all possible cores, in ascending order, and then the time.
 * Returns 0, an -errno of programs_read, or -EAGAIN if every
 * read took more than KERNEL_CLOCK_BRACKET_MAX_NS. */
int kernel_clock_read(struct kernel_clock *clock, void *words);

/* Sets *sum_ns, the sum at the last read or 0, to the sum that a word
 * represents at the instant `at_ns`. The new sum can be a little less than the
 * former one if a span ended while the words were being read; it then stays as
 * it was. Returns false if no clock can have written the word. */
bool kernel_clock_advance(const struct kernel_clock *clock, int64_t at_ns,
                          int64_t word, int64_t *sum_ns);

#endif
