/* portable: what percore uses and what older kernel headers, older C libraries
 * or musl lack. */
#ifndef PERCORE_BASE_PORTABLE_H
#define PERCORE_BASE_PORTABLE_H

#include "base/clock.h"

#include <errno.h>
#include <linux/btf.h>
#include <linux/futex.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---------------------------------------------------------------------------
 * Kernel headers
 */

/* Enumerators, which #ifdef does not see, of Linux 5.16 and 6.0 */
#define BTF_KIND_DECL_TAG 17
#define BTF_KIND_ENUM64 19

#ifndef PERF_PMU_TYPE_SHIFT /* Linux 5.13 */
#define PERF_PMU_TYPE_SHIFT 32
#endif

/* ---------------------------------------------------------------------------
 * System calls
 */

static inline int portable_gettid(void) { return (int)syscall(SYS_gettid); }

/* Stores the NUMA node of the core that the caller runs on. Returns 0, or -1
 * with errno set. */
static inline int portable_getnode(unsigned *node) {
  return (int)syscall(SYS_getcpu, NULL, node, NULL);
}

/* ---------------------------------------------------------------------------
 * A semaphore
 */

/* Unlike sem_t, can be waited for until a time of CLOCK_MONOTONIC with any C
 * library. One thread waits for it at a time. Initialized with 0. */
struct semaphore {
  atomic_uint count;
};

static inline void semaphore_post(struct semaphore *semaphore) {
  if (atomic_fetch_add(&semaphore->count, 1) == 0)
    syscall(SYS_futex, &semaphore->count, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Returns true after it has taken one from the count; false: errno is ETIMEDOUT
 * or EINTR. */
static inline bool semaphore_wait(struct semaphore *semaphore,
                                  uint64_t until_ns) {
  const struct timespec until = timespec_of_ns(until_ns);
  unsigned count = atomic_load(&semaphore->count);
  while (count == 0 ||
         !atomic_compare_exchange_weak(&semaphore->count, &count, count - 1)) {
    if (count == 0 &&
        syscall(SYS_futex, &semaphore->count, FUTEX_WAIT_BITSET_PRIVATE, 0,
                &until, NULL, FUTEX_BITSET_MATCH_ANY) != 0 &&
        errno != EAGAIN)
      return false;
    count = atomic_load(&semaphore->count);
  }
  return true;
}

#endif
