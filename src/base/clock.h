/* clock: reads clocks in nanoseconds, and converts nanoseconds to timespecs. */
#ifndef PERCORE_BASE_CLOCK_H
#define PERCORE_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_S UINT64_C(1000000000)
#define HOUR_NS (3600 * NS_PER_S)

static inline uint64_t clock_now_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static inline struct timespec timespec_of_ns(uint64_t ns) {
  return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S),
                           .tv_nsec = (long)(ns % NS_PER_S)};
}

#endif
