/* clock: reads clocks in nanoseconds, and converts nanoseconds to timespecs. */
#ifndef PERCORE_BASE_CLOCK_H
#define PERCORE_BASE_CLOCK_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define NS_PER_S UINT64_C(1000000000)
#define HOUR_NS (3600 * NS_PER_S)

static inline uint64_t clock_now_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Returns CLOCK_MONOTONIC here less that of the initial time namespace, which
 * is the one of BPF programs, from the contents of /proc/self/timens_offsets.
 */
static inline int64_t clock_offset_ns(const char *timens_offsets) {
  int64_t s, ns;
  return sscanf(timens_offsets, "monotonic %" SCNd64 " %" SCNd64, &s, &ns) == 2
             ? s * (int64_t)NS_PER_S + ns
             : 0;
}

static inline struct timespec timespec_of_ns(uint64_t ns) {
  return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S),
                           .tv_nsec = (long)(ns % NS_PER_S)};
}

#endif
