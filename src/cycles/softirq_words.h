/* softirq_words: what the softirq clock keeps in the kernel for each core. Both
 * the programs (softirq_clock.bpf.c) and their reader include this file.
 *
 * Like the word of the idle clock, a word >= 0 is the total length of past
 * spans, and a negative word is such a total minus the instant at which the
 * current span began. Instants of `hard` are CLOCK_MONOTONIC of the initial
 * time namespace. Instants of `softirq` are CLOCK_MONOTONIC minus the sum of
 * all hard interrupts: this clock stops while `hard` is negative. So a hard
 * interrupt within a softirq counts only as a hard interrupt, and no two words
 * ever count the same nanosecond. */
#ifndef PERCORE_SOFTIRQ_WORDS_H
#define PERCORE_SOFTIRQ_WORDS_H

#ifdef __bpf__
typedef __s64 int64_t;
#else
#include <stdint.h>
#endif

/* Where a softirq ran: what it interrupted, or the thread that ran it. */
enum softirq_context {
  SOFTIRQ_IDLE,
  SOFTIRQ_TASKS, /* every task except ksoftirqd */
  SOFTIRQ_KSOFTIRQD,
  SOFTIRQ_CONTEXTS,
};

/* The number of the kernel's softirq vectors, from HI_SOFTIRQ to
 * RCU_SOFTIRQ. */
#define SOFTIRQ_VECTORS 10

struct softirq_words {
  int64_t hard;
  int64_t open; /* 1 + index of the negative word in `softirq`; 0: none */
  int64_t softirq[SOFTIRQ_CONTEXTS * SOFTIRQ_VECTORS];
};

#endif
