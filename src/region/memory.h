/* memory.h: maps the memory of regions, allocates it, and checks how much is
 * free. */
#ifndef PERCORE_REGION_MEMORY_H
#define PERCORE_REGION_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Prepended to paths in /proc and /sys; "" except in tests. */
extern const char *region_memory_root;

/* Returns how many bytes can be allocated now without reaching a limit. This is
 * MemAvailable or, if less, what the control groups of this process and their
 * ancestors (cgroup v2) still allow: the limit of a group minus its usage
 * without page cache. Returns UINT64_MAX if no limit is known. This is not a
 * guarantee, because other processes also allocate memory. */
uint64_t region_memory_room(void);

/* In bytes. A part of a region with at least REGION_LARGE_PART bytes begins at
 * a multiple of REGION_HUGE_PAGE. If possible, the mapping also does, so that
 * the part can be in huge pages.
 */
#define REGION_HUGE_PAGE ((uint64_t)2 << 20)
#define REGION_LARGE_PART (4 * REGION_HUGE_PAGE)

/* Maps a region. After mlockall(MCL_FUTURE), a normal mapping would allocate
 * every page of a sparse region, so this maps without access, unlocks the
 * mapping, and only then allows access. Returns NULL with errno on failure. */
void *region_memory_map(int fd, uint64_t size, int protection);

/* Maps private memory for a sink; a page is allocated when it is first written.
 * Returns NULL with errno on failure. */
void *region_memory_sink(uint64_t size);

/* Makes private memory at the addresses of a region, in a forked child that has
 * not inherited the region's mapping, or a part of it (`mapped`). Makes only
 * system calls. Returns false if this fails: something else is there. */
bool region_memory_drop(void *map, uint64_t size, bool mapped);

/* Allocates memory for a range of a mapped region, without a descriptor. *room
 * is how many bytes are known to be free, at first 0. Returns 0, or -1 with
 * ENOMEM, with ENOSPC if the file system has no room, or with ENOSYS before
 * Linux 5.14. */
int region_memory_provide(unsigned char *map, uint64_t offset, uint64_t length,
                          uint64_t page_size, uint64_t *room);

/* Turns allocated memory into huge pages wherever a huge page fits completely
 * within the range, if the kernel supports this (MADV_COLLAPSE, Linux 6.1,
 * unless shmem_enabled is "deny") and has huge pages.
 *
 * A huge page needs one TLB entry instead of 512, and random updates of a large
 * table spend their time on TLB misses: with 1e6 rows of 4 counters and
 * percore_prefetch, an update took 10 to 30 cycles in small pages and 0 to 2 in
 * huge pages (make bench-peers). But making a huge page takes some
 * milliseconds, during which threads that use its memory wait. The kernel also
 * waits for every core to flush its page lists, which interrupts polling
 * threads but may never happen on a core with a busy SCHED_FIFO thread. So this
 * is only called where blocking is allowed. */
void region_memory_make_huge(unsigned char *map, uint64_t offset,
                             uint64_t length);

/* Makes the kernel allocate this range on the NUMA node on which the calling
 * thread runs, if that node has enough free memory, whoever allocates it. */
void region_memory_prefer(void *start, uint64_t length);

/* Returns how many cores this machine can have, at least 1. */
uint32_t region_possible_cores(void);

#endif
