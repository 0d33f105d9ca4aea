/* cached: opens a file that the kernel has in its cache of names. */
#ifndef PERCORE_BASE_CACHED_H
#define PERCORE_BASE_CACHED_H

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20
#endif

/* A tmpfs keeps the names of all its files in the cache. */
static inline bool cached_knows_all(const char *path) {
  char directory[256];
  struct statfs kind;
  const char *end = strrchr(path, '/');
  snprintf(directory, sizeof(directory), "%.*s",
           end != NULL ? (int)(end - path) : 0, path);
  return statfs(directory, &kind) == 0 && kind.f_type == TMPFS_MAGIC;
}

/* Opens a file with O_PATH. In a tmpfs, such as /run, this does not take the
 * lock of the directory, which a process that lists it could hold for ever: a
 * name that is not in the cache does not exist. Linux before 5.12 cannot look
 * in the cache alone. */
static inline int cached_open(const char *path, int flags) {
  const struct open_how how = {.flags = (unsigned)(O_PATH | O_CLOEXEC | flags),
                               .resolve = RESOLVE_CACHED};
  int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
  if (fd >= 0 || errno == ENOENT)
    return fd;
  if (errno != EAGAIN || !cached_knows_all(path))
    return open(path, O_PATH | O_CLOEXEC | flags);
  errno = ENOENT;
  return -1;
}

#endif
