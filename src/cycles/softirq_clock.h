/* softirq_clock: how much of its time each core spends in hard interrupts and
 * in softirqs, according to programs in the kernel (softirq_clock.bpf.c). One
 * system call reads all cores without disturbing any.
 *
 * Spans reach from tracepoint to tracepoint, so entering and leaving an
 * interrupt is in none of the figures. */
#ifndef PERCORE_CYCLES_SOFTIRQ_CLOCK_H
#define PERCORE_CYCLES_SOFTIRQ_CLOCK_H

#include "engine.h"
#include "softirq_words.h"

#include <stdbool.h>

/* Shares of wall time, 0 to 1. Hard interrupts count as such, even within a
 * softirq. `context` and `vector` divide `softirq` in two ways; `hard` +
 * `softirq` <= 1. */
struct softirq_figures {
  double hard, softirq;
  double context[SOFTIRQ_CONTEXTS];
  double vector[SOFTIRQ_VECTORS]; /* NAN: has not run on any core */
};

struct softirq_clock;

/* Loads nothing yet. `engine` must outlive the clock. NULL if out of memory. */
struct softirq_clock *softirq_clock_open(const struct engine *engine);
void softirq_clock_close(struct softirq_clock *clock);

/* Reads all cores. Loads the clock first if that is due, and tells the journal
 * if the clock cannot be loaded: once, until it is loaded. */
void softirq_clock_read(struct softirq_clock *clock);

/* Why the clock is not loaded; "" if it is. */
const char *softirq_clock_trouble(const struct softirq_clock *clock);

/* The figures of one core since this was last called for the core, as of the
 * last read. All NAN if they are not known or the clock is NULL; the next
 * window begins here. */
struct softirq_figures softirq_clock_core(struct softirq_clock *clock,
                                          int core);

/* Such as "net_rx". */
const char *softirq_vector_name(int vector);

#endif
