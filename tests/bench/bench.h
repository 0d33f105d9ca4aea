/* bench.h: helpers for benchmarks: a clock of CPU time, medians, and the length
 * of a core cycle. */
#ifndef PERCORE_BENCH_H
#define PERCORE_BENCH_H

#include <sched.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"

/* Returns the CPU time of this thread, which does not include the time of other
 * tasks. */
static inline uint64_t now_ns(void) {
  return clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
}

static inline int bench_compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Sorts the values. */
static inline double median(double *values, size_t count) {
  qsort(values, count, sizeof(*values), bench_compare);
  return values[count / 2];
}

static inline void pin(int core) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET((size_t)core, &cpus);
  sched_setaffinity(0, sizeof(cpus), &cpus);
}

/* Returns how many nanoseconds a dependent add takes, which is one cycle on
 * current cores: the least of some tries. */
static inline double cycle_of(int tries, int adds) {
  double best = 1e9;
  for (int i = 0; i < tries; i++) {
    uint64_t x = 1, start = now_ns();
    for (int k = 0; k < adds; k++) {
      x += (uint64_t)k;
      __asm__ volatile("" : "+r"(x));
    }
    double ns = (double)(now_ns() - start) / adds;
    best = ns < best ? ns : best;
  }
  return best;
}

static inline double cycle_ns(void) { return cycle_of(300, 1000000); }

/* Returns the length of a cycle at this moment, because the frequency of a core
 * varies with the load of the others. Takes 20 us. */
static inline double cycle_now_ns(void) { return cycle_of(3, 20000); }

#endif
