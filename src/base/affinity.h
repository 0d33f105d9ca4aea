/* affinity: pins threads to cores. */
#ifndef PERCORE_BASE_AFFINITY_H
#define PERCORE_BASE_AFFINITY_H

#include <errno.h>
#include <sched.h>
#include <stddef.h>

/* Pins the calling thread to one core. Supports core numbers above 1023, which
 * do not fit in glibc's cpu_set_t. Returns 0 or -errno. */
static inline int affinity_pin(int core) {
  cpu_set_t *set = CPU_ALLOC(core + 1);
  size_t size = CPU_ALLOC_SIZE(core + 1);
  if (set == NULL)
    return -ENOMEM;
  CPU_ZERO_S(size, set);
  CPU_SET_S((size_t)core, size, set);
  int status = sched_setaffinity(0, size, set) == 0 ? 0 : -errno;
  CPU_FREE(set);
  return status;
}

#endif
