/* softirq_clock_kernel: the softirq clock's part in the kernel. Loads the
 * programs of softirq_clock.bpf.c and reads their words, all by bpf(2).
 *
 * Functions return 0 or -errno.
 */
#ifndef PERCORE_CYCLES_SOFTIRQ_CLOCK_KERNEL_H
#define PERCORE_CYCLES_SOFTIRQ_CLOCK_KERNEL_H

#include "softirq_words.h"

#include <stddef.h>

#define SOFTIRQ_CLOCK_LINKS_MAX 32

struct softirq_clock_kernel {
  int map;
  int links[SOFTIRQ_CLOCK_LINKS_MAX];
};

/* A clock that is not loaded. Closing it is allowed. */
void softirq_clock_kernel_init(struct softirq_clock_kernel *clock);
void softirq_clock_kernel_close(struct softirq_clock_kernel *clock);

/* Loads and attaches a clock, which runs until it is closed. Attaching
 * interrupts every core some 150 times. If it fails, `why` explains it. */
int softirq_clock_kernel_load(struct softirq_clock_kernel *clock, char *why,
                              size_t why_size);

/* Reads the words of all possible cores, in rising core numbers. `words` must
 * have room for CORES_MAX + 1. -EINVAL: `cores` is not the number of possible
 * cores. */
int softirq_clock_kernel_read(const struct softirq_clock_kernel *clock,
                              struct softirq_words *words, int cores);

#endif
