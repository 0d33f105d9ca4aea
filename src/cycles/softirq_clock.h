/* softirq_clock: how much of its time each core spends in hard interrupts and
 * in softirqs, as measured by programs in the kernel (softirq_clock.bpf.c). One
 * system call reads all cores without disturbing any of them.
 *
 * Time is measured from tracepoint to tracepoint, so no figure includes the
 * time to enter and to leave an interrupt. */
#ifndef PERCORE_CYCLES_SOFTIRQ_CLOCK_H
#define PERCORE_CYCLES_SOFTIRQ_CLOCK_H

#include "engine.h"
#include "softirq_words.h"

#include <stdbool.h>

/* Shares of wall time, 0 to 1. A hard interrupt that interrupts a softirq
 * counts only as a hard interrupt, so `hard` + `softirq` <= 1. `context` and
 * `vector` are two ways to divide `softirq`. */
struct softirq_figures {
  double hard, softirq;
  double context[SOFTIRQ_CONTEXTS];
  double vector[SOFTIRQ_VECTORS]; /* NAN: the vector has not run on any core */
};

struct softirq_clock;

/* Creates a clock whose programs are not loaded yet. `engine` must outlive the
 * clock. Returns NULL if out of memory. */
struct softirq_clock *softirq_clock_open(const struct engine *engine);
void softirq_clock_close(struct softirq_clock *clock);

/* Reads all cores. If the clock is not loaded and a try is due, loads it first.
 * The journal receives one message when the clock cannot be used, and no other
 * message until it can be used again. */
void softirq_clock_read(struct softirq_clock *clock);

/* Returns the figures of one core for its window, which begins at the previous
 * call for the core and ends at the last read. All are NAN if they are unknown
 * or if the clock is NULL. */
struct softirq_figures softirq_clock_core(struct softirq_clock *clock,
                                          int core);

/* Returns a name such as "net_rx". */
const char *softirq_vector_name(int vector);

#endif
