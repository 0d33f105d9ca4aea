/* softirq_time: how long each core has been in interrupt handlers and in
 * softirqs of each kind, as BPF programs add it up (softirq_time.bpf.c, which
 * includes this file). A span counts when it ends. An interrupt handler within
 * a softirq does not count as softirq. */
#ifndef PERCORE_CYCLES_SOFTIRQ_TIME_H
#define PERCORE_CYCLES_SOFTIRQ_TIME_H

#ifdef __bpf__
typedef __u64 uint64_t;
#else
#include <stdint.h>
#endif

/* The kernel's softirq vectors, from HI_SOFTIRQ to RCU_SOFTIRQ, and interrupt
 * handlers. */
#define SOFTIRQ_HARD 10
#define SOFTIRQ_KINDS 11

/* What the programs keep for each core. */
struct softirq_words {
  uint64_t ns[SOFTIRQ_KINDS]; /* sums of past spans */
  /* Of the current softirq, less ns[SOFTIRQ_HARD], and of the current handler.
   * 0: none. */
  uint64_t begin[2];
};

/* Shares of a window, 0 to 1; NAN: unknown, or this kind has not yet run on the
 * core. */
struct softirq_shares {
  double all, kind[SOFTIRQ_KINDS]; /* all: without interrupt handlers */
};

struct engine;

/* Loads the BPF programs; they run until softirq_time_close. If that fails,
 * returns NULL, and the engine's journal says why. */
struct softirq_time *softirq_time_open(const struct engine *engine);
void softirq_time_close(struct softirq_time *time); /* may be NULL, as below */

/* Ends the window of all cores. */
void softirq_time_read(struct softirq_time *time);
struct softirq_shares softirq_time_core(const struct softirq_time *time,
                                        int core);

/* Returns the shares of a window of wall_ns nanoseconds on one core. */
struct softirq_shares softirq_shares(const struct softirq_words *from,
                                     const struct softirq_words *to,
                                     double wall_ns);

#endif
