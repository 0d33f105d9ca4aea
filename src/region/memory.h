/* memory.h: checks for room, maps, and provides the memory of regions. */
#ifndef PERCORE_REGION_MEMORY_H
#define PERCORE_REGION_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* The prefix of /proc and /sys; "" except in tests. */
extern const char *region_memory_root;

/* Bytes that can be taken now without reaching a limit: the minimum of
 * MemAvailable and, for every control group above this process (v1 and v2), its
 * limit minus its usage without page cache. UINT64_MAX if nothing is known. Not
 * a guarantee, because other processes take memory too. */
uint64_t region_memory_room(void);

/* Bytes. A large part of a region begins on a multiple of REGION_HUGE_PAGE, and
 * so does the mapping if possible, so that the part can lie in huge pages. */
#define REGION_HUGE_PAGE ((uint64_t)2 << 20)
#define REGION_LARGE_PART (4 * REGION_HUGE_PAGE)

/* Maps a region. After mlockall(MCL_FUTURE), a normal mapping would allocate
 * every page of a sparse region, so this maps without access, unlocks, and only
 * then allows access. NULL with errno. */
void *region_memory_map(int fd, uint64_t size, int protection);

/* Maps private memory for a sink, which takes no pages until it is written. If
 * `at` is not NULL, replaces the mapping there. NULL with errno. */
void *region_memory_sink(void *at, uint64_t size);

/* Provides memory for a range of a mapped region. 0, or -1 with ENOMEM or the
 * errno of fallocate(2). */
int region_memory_provide(int fd, unsigned char *map, uint64_t offset,
                          uint64_t length, uint64_t page_size);

/* Turns provided memory into huge pages where a huge page lies completely
 * within the range, if the kernel supports it (MADV_COLLAPSE, Linux 6.1, unless
 * shmem_enabled is "deny") and has huge pages.
 *
 * A huge page needs one TLB entry instead of 512, for which random updates of a
 * large table wait: with 1e6 rows of 4 counters and percore_prefetch, an update
 * took 10 to 30 cycles in small pages and 0 to 2 in huge pages (make bench).
 * But each huge page takes some milliseconds, in which users of its memory
 * wait. The kernel also waits for every core to flush its page lists, which
 * interrupts polling threads but may never happen on a core with a busy
 * SCHED_FIFO thread. So only calls that may block do this. */
void region_memory_make_huge(unsigned char *map, uint64_t offset,
                             uint64_t length);

/* Makes the kernel take memory for this range from the core's NUMA node if
 * there is room. */
void region_memory_prefer(void *start, uint64_t length, int core);

/* The number of cores that this machine can have, at least 1. */
uint32_t region_possible_cores(void);

#endif
