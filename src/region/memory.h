/* memory.h: memory of a region: how much may be taken, mapping, providing. */
#ifndef PERCORE_REGION_MEMORY_H
#define PERCORE_REGION_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Under which /proc and /sys are looked up; "" but in tests. */
extern const char *region_memory_root;

/* Bytes that can be taken now without reaching a limit: the least of
 * MemAvailable and, for every control group above this process (v1 and v2), its
 * limit less what it uses, file pages that can be given up not counted.
 * UINT64_MAX if nothing is known. A check, not a promise: others take memory,
 * too. */
uint64_t region_memory_room(void);

/* Bytes. A large part of a region begins on a multiple of it, and the mapping
 * does, if there is room for that: the part can lie in huge pages. */
#define REGION_HUGE_PAGE ((uint64_t)2 << 20)
#define REGION_LARGE_PART (4 * REGION_HUGE_PAGE)

/* Maps a region. A process that called mlockall(MCL_FUTURE) must not get every
 * page of a sparse region: it is mapped without access, unlocked, and only then
 * made accessible. NULL with errno. */
void *region_memory_map(int fd, uint64_t size, int protection);

/* Private memory of the same shape that costs nothing until touched: sinks.
 * NULL with errno. at may be NULL, else it replaces what is there. */
void *region_memory_sink(void *at, uint64_t size);

/* Provides memory for bytes of a mapped region. Returns 0, or -1 with ENOMEM or
 * what fallocate(2) says. */
int region_memory_provide(int fd, unsigned char *map, uint64_t offset,
                          uint64_t length, uint64_t page_size);

/* Makes huge pages of memory that was provided, of those that lie in this range
 * wholly, where the kernel does that (MADV_COLLAPSE, Linux 6.1; whatever
 * shmem_enabled says, but for "deny") and has some to give.
 *
 * A huge page needs one entry of the TLB and not 512, which is what a random
 * update of a large table waits for: 1e6 rows of 4 counters took 10 to 30
 * cycles an update with percore_prefetch in small pages, and 0 to 2 in huge
 * ones (make bench). But it takes some ms for each, in which who uses these
 * pages waits; and the kernel waits for every core to put away pages that it
 * has just taken, for which a thread that polls is interrupted, and one of
 * SCHED_FIFO not. So it is done only for who asked to wait. */
void region_memory_make_huge(unsigned char *map, uint64_t offset,
                             uint64_t length);

/* Memory to come in this range is taken from the node of the core, if there is
 * room; nothing happens on machines with one node. */
void region_memory_prefer(void *start, uint64_t length, int core);

/* Cores this machine can have, at least 1. */
uint32_t region_possible_cores(void);

#endif
