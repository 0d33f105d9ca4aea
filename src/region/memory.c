/* memory.c: asks how much memory is free, and maps and allocates that of
 * regions. */
#include "percore_config.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "layout.h"
#include "memory.h"

#include "base/cancellation.h"
#include "base/file.h"
#include "base/portable.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

const char *region_memory_root = "";

/* Texts of files are on the heap, because a thread of the application may have
 * a small stack. */
enum { TEXT_SIZE = 8192 };
static void free_text(char **text) { free(*text); }
#define TEXT_ON_HEAP(name)                                                     \
  char *name __attribute__((cleanup(free_text))) = malloc(TEXT_SIZE)

/* Returns what follows `key` in the line that starts with it, or NULL. */
static char *after(char *text, const char *key) {
  size_t length = strlen(key);
  char *line = text;
  while (line != NULL && strncmp(line, key, length) != 0) {
    line = strchr(line, '\n');
    line = line != NULL ? line + 1 : NULL;
  }
  return line != NULL ? line + length : NULL;
}

static bool number_of(char *text, const char *key, uint64_t *number) {
  const char *found = after(text, key);
  return found != NULL && sscanf(found, "%" SCNu64, number) == 1;
}

/* ---------------------------------------------------------------------------
 * Room
 */

#define CGROUPS "/sys/fs/cgroup"

/* Reads a file of a control group. Returns false if it does not exist. */
static bool read_cgroup(char *text, const char *group, const char *file) {
  return file_read(text, TEXT_SIZE, "%s/sys/fs/cgroup%s/%s", region_memory_root,
                   group, file) > 0;
}

/* Returns how many bytes can be allocated in a control group (v2), without
 * regard to its ancestors. UINT64_MAX: no limit is known. */
static uint64_t room_in_cgroup(const char *group, char *text) {
  static const char *const page_cache[] = {"inactive_file ", "active_file "};
  uint64_t limit, used, part;
  if (!read_cgroup(text, group, "memory.max") || !number_of(text, "", &limit) ||
      !read_cgroup(text, group, "memory.current") ||
      !number_of(text, "", &used))
    return UINT64_MAX; /* the group does not exist, or its limit is "max" */
  (void)read_cgroup(text, group, "memory.stat");
  for (int i = 0; i < 2; i++)
    if (number_of(text, page_cache[i], &part))
      used -= part < used ? part : used;
  return limit > used ? limit - used : 0;
}

uint64_t region_memory_room(void) {
  NOT_CANCELLED;
  TEXT_ON_HEAP(groups);
  TEXT_ON_HEAP(text);
  uint64_t room = UINT64_MAX, kilobytes;
  if (groups == NULL || text == NULL)
    return 0;
  (void)file_read(text, TEXT_SIZE, "%s/proc/meminfo", region_memory_root);
  if (number_of(text, "MemAvailable:", &kilobytes))
    room = kilobytes * 1024;
  (void)file_read(groups, TEXT_SIZE, "%s/proc/self/cgroup", region_memory_root);
  char *group = after(groups, "0::");
  if (group == NULL)
    return room;
  group[strcspn(group, "\n")] = '\0';
  for (char *end = group + strlen(group); end != NULL;
       end = strrchr(group, '/')) {
    *end = '\0';
    uint64_t here = room_in_cgroup(group, text);
    room = here < room ? here : room;
  }
  return room;
}

/* ---------------------------------------------------------------------------
 * Mapping and providing
 */

/* Finds unused addresses that begin on a huge page. Returns NULL if there are
 * none or the process may not lock this much memory; the kernel then chooses
 * the addresses.
 */
static void *free_addresses(uint64_t size) {
  unsigned char *found =
      mmap(NULL, size + REGION_HUGE_PAGE, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED)
    return NULL;
  munmap(found, size + REGION_HUGE_PAGE);
  return found + -(uintptr_t)found % REGION_HUGE_PAGE;
}

/* Unlocks a mapping that was made without access, and then allows access.
 * Returns NULL with errno if this fails or if the mapping failed. */
static void *open_mapping(void *map, uint64_t size, int protection) {
  if (map == MAP_FAILED)
    return NULL;
  if (munlock(map, size) == 0 && mprotect(map, size, protection) == 0)
    return map;
  int saved = errno;
  munmap(map, size);
  errno = saved;
  return NULL;
}

/* The address is only a hint, because another thread may map memory there
 * first. */
void *region_memory_map(int fd, uint64_t size, int protection) {
  void *hint = size >= REGION_HUGE_PAGE ? free_addresses(size) : NULL;
  return open_mapping(mmap(hint, size, PROT_NONE, MAP_SHARED, fd, 0), size,
                      protection);
}

enum { PRIVATE = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE };

void *region_memory_sink(uint64_t size) {
  return open_mapping(mmap(NULL, size, PROT_NONE, PRIVATE, -1, 0), size,
                      PROT_READ | PROT_WRITE);
}

/* Where nothing may be mapped, something may be all the same: another fork
 * handler may have mapped memory there. It must not be overwritten. */
bool region_memory_drop(void *map, uint64_t size, bool mapped) {
  enum { ALL = PROT_READ | PROT_WRITE };
  int flags = PRIVATE | (mapped ? MAP_FIXED : MAP_FIXED_NOREPLACE);
  void *at = mmap(map, size, ALL, flags, -1, 0);
  if (at == map)
    return true;
  /* The limits on private memory do not apply to shared memory. */
  flags = (flags & ~MAP_PRIVATE) | MAP_SHARED;
  return mmap(map, size, ALL, flags, -1, 0) == map ||
         mmap(map, size, PROT_NONE, flags, -1, 0) == map;
}

/* Lets the kernel make each page writable. Unlike an access by this program, it
 * does not end in SIGBUS when the file system is full, and unlike fallocate(2),
 * it does not begin anew after each signal. */
static int write_pages(unsigned char *map, uint64_t start, uint64_t end) {
  int rc;
  do
    rc = madvise(map + start, end - start, MADV_POPULATE_WRITE);
  while (rc != 0 && (errno == EAGAIN || errno == EINTR));
  return rc;
}

/* Checks the free memory first, because the kernel kills a process whose
 * control group exceeds its limit. */
int region_memory_provide(unsigned char *map, uint64_t offset, uint64_t length,
                          uint64_t page_size, uint64_t *room) {
  NOT_CANCELLED;
  uint64_t start = offset / page_size * page_size;
  uint64_t end = (offset + length + page_size - 1) / page_size * page_size;
  if (end - start > *room)
    *room = region_memory_room();
  if (end - start > *room)
    return region_failed(ENOMEM);
  *room -= end - start;
  if (write_pages(map, start, end) == 0)
    return 0;
  int error = errno == EFAULT ? ENOSPC : errno == EINVAL ? ENOSYS : errno;
  /* Gives back what it has got of a file system that is now full. The first and
   * the last page may have other contents. */
  start = (offset + page_size - 1) / page_size * page_size;
  end = (offset + length) / page_size * page_size;
  if (start < end)
    (void)madvise(map + start, end - start, MADV_REMOVE);
  return region_failed(error);
}

/* The small pages must be mapped first; otherwise Linux 6.1 does not map the
 * huge page. If pages are not 4 KiB, huge pages have a different size. */
void region_memory_make_huge(unsigned char *map, uint64_t offset,
                             uint64_t length) {
  uint64_t start =
      (offset + REGION_HUGE_PAGE - 1) / REGION_HUGE_PAGE * REGION_HUGE_PAGE;
  uint64_t end = (offset + length) / REGION_HUGE_PAGE * REGION_HUGE_PAGE;
  if (start < end && sysconf(_SC_PAGESIZE) == 4096 &&
      region_memory_room() > 2 * REGION_HUGE_PAGE)
    (void)madvise(map + start, end - start, MADV_COLLAPSE);
}

void region_memory_prefer(void *start, uint64_t length) {
  enum { MAX_NODES = 1024, BITS = 8 * sizeof(unsigned long) };
  unsigned long nodes[MAX_NODES / BITS] = {0};
  unsigned node;
  if (portable_getnode(&node) != 0 || node >= MAX_NODES)
    return;
  nodes[node / BITS] = 1ul << node % BITS;
  (void)syscall(SYS_mbind, start, length, MPOL_PREFERRED, nodes, MAX_NODES + 1,
                0);
}

uint32_t region_possible_cores(void) {
  NOT_CANCELLED;
  char text[256];
  unsigned last;
  (void)file_read(text, sizeof(text), "%s/sys/devices/system/cpu/possible",
                  region_memory_root);
  /* Finds the last number in "0", "0-7" or "0-3,8-11". */
  size_t end = strcspn(text, "\n");
  while (end > 0 && text[end - 1] >= '0' && text[end - 1] <= '9')
    end--;
  if (sscanf(text + end, "%u", &last) == 1 && last < 8192)
    return last + 1;
  long cores = sysconf(_SC_NPROCESSORS_CONF);
  return cores > 0 ? (uint32_t)cores : 1;
}
