/* memory.c: asks how much memory is free, and maps and allocates that of
 * regions. */
#include "percore_config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "layout.h"
#include "memory.h"

#include "base/cancellation.h"
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

/* Files are read into the heap, because a thread of the application may have a
 * small stack. */
struct file {
  char path[4096], text[8192];
};

static void free_file(struct file **file) { free(*file); }
#define FILE_ON_HEAP(name)                                                     \
  struct file *name __attribute__((cleanup(free_file))) = malloc(sizeof(*name))

/* Reads a file below region_memory_root. Returns false if it cannot be read. */
static __attribute__((format(printf, 2, 3))) bool
read_file(struct file *file, const char *format, ...) {
  va_list arguments;
  if (file == NULL)
    return false;
  int root = snprintf(file->path, sizeof(file->path), "%s", region_memory_root);
  va_start(arguments, format);
  vsnprintf(file->path + root, sizeof(file->path) - (size_t)root, format,
            arguments);
  va_end(arguments);
  int fd = open(file->path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return false;
  ssize_t length = read(fd, file->text, sizeof(file->text) - 1);
  close(fd);
  file->text[length > 0 ? length : 0] = '\0';
  return length >= 0;
}

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

/* Returns how many bytes can be allocated in a control group (v2), without
 * regard to its ancestors. UINT64_MAX: no limit is known. */
static uint64_t room_in_cgroup(const char *group, struct file *file) {
  static const char *const page_cache[] = {"inactive_file ", "active_file "};
  uint64_t limit, used, part;
  if (!read_file(file, CGROUPS "%s/memory.max", group) ||
      !number_of(file->text, "", &limit))
    return UINT64_MAX; /* the group does not exist, or its limit is "max" */
  if (!read_file(file, CGROUPS "%s/memory.current", group) ||
      !number_of(file->text, "", &used))
    return UINT64_MAX;
  if (!read_file(file, CGROUPS "%s/memory.stat", group))
    return limit > used ? limit - used : 0;
  for (int i = 0; i < 2; i++)
    if (number_of(file->text, page_cache[i], &part))
      used -= part < used ? part : used;
  return limit > used ? limit - used : 0;
}

uint64_t region_memory_room(void) {
  NOT_CANCELLED;
  FILE_ON_HEAP(groups);
  FILE_ON_HEAP(file);
  uint64_t room = UINT64_MAX, kilobytes;
  if (read_file(file, "/proc/meminfo") &&
      number_of(file->text, "MemAvailable:", &kilobytes))
    room = kilobytes * 1024;
  if (!read_file(groups, "/proc/self/cgroup"))
    return room;
  char *group = after(groups->text, "0::");
  if (group == NULL)
    return room;
  group[strcspn(group, "\n")] = '\0';
  for (char *end = group + strlen(group); end != NULL;
       end = strrchr(group, '/')) {
    *end = '\0';
    uint64_t here = room_in_cgroup(group, file);
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
  if (at != MAP_FAILED) { /* a kernel before 4.17 */
    munmap(at, size);
    return false;
  }
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
  FILE_ON_HEAP(file);
  if (read_file(file, "/sys/devices/system/cpu/possible")) {
    const char *text = file->text;
    /* Finds the last number in "0", "0-7" or "0-3,8-11". */
    size_t end = strcspn(text, "\n"), start = end;
    while (start > 0 && text[start - 1] >= '0' && text[start - 1] <= '9')
      start--;
    unsigned last;
    if (sscanf(text + start, "%u", &last) == 1 && last < 8192)
      return last + 1;
  }
  long cores = sysconf(_SC_NPROCESSORS_CONF);
  return cores > 0 ? (uint32_t)cores : 1;
}
