/* portable: what percore uses and what older kernel headers, older C libraries
 * or musl lack. */
#ifndef PERCORE_BASE_PORTABLE_H
#define PERCORE_BASE_PORTABLE_H

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btf.h>
#include <linux/futex.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
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

/* Stores the mode and the owner of an open file. Unlike fstat, does not ask a
 * file system that answers over the network or in another process. Returns 0,
 * or -1 with errno set. */
static inline int portable_stat(int fd, mode_t *mode, uid_t *owner) {
  struct {
    uint32_t mask, blksize;
    uint64_t attributes;
    uint32_t nlink, uid, gid;
    uint16_t mode;
    uint16_t others[113];
  } status; /* struct statx, which C libraries declare in different headers */
  const int flags = AT_EMPTY_PATH | 0x4000; /* AT_STATX_DONT_SYNC */
  const unsigned wanted = 1 | 8;            /* STATX_TYPE, STATX_UID */
  if (syscall(SYS_statx, fd, "", flags, wanted, &status) != 0)
    return -1;
  *mode = status.mode;
  *owner = status.uid;
  return 0;
}

/* Returns the word of a robust mutex that the kernel knows, futex(2): the tid
 * of its owner or 0, and FUTEX_OWNER_DIED. No function tells it. */
static inline unsigned portable_mutex_word(const pthread_mutex_t *mutex) {
#ifdef __GLIBC__
  return (unsigned)__atomic_load_n(&mutex->__data.__lock, __ATOMIC_ACQUIRE);
#else /* musl */
  return (unsigned)__atomic_load_n((const int *)mutex + 1, __ATOMIC_ACQUIRE);
#endif
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
