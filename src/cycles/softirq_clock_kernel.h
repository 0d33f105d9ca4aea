/* softirq_clock_kernel: loads the programs of softirq_clock.bpf.c into the
 * kernel. programs_read reads their words. */
#ifndef PERCORE_CYCLES_SOFTIRQ_CLOCK_KERNEL_H
#define PERCORE_CYCLES_SOFTIRQ_CLOCK_KERNEL_H

#include "programs.h"

/* Loads and attaches the programs, which run until they are closed. Attaching
 * interrupts every core about 150 times. Returns 0, or -errno with the reason
 * in `why`. */
int softirq_clock_kernel_load(struct programs *programs,
                              char why[PROGRAMS_WHY_SIZE]);

#endif
