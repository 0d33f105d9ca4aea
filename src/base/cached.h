/* cached: opens a file that the kernel has in its cache of names. */
#ifndef PERCORE_BASE_CACHED_H
#define PERCORE_BASE_CACHED_H

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20
#endif

/* Opens a file with O_PATH and without taking the lock of its directory, which
 * a process that lists the directory could hold for ever. A tmpfs keeps the
 * names of all files in the cache, so a name that is not there does not exist:
 * ENOENT. Linux before 5.12 cannot look in the cache alone. */
static inline int cached_open(const char *path, int flags) {
  const struct open_how how = {.flags = (unsigned)(O_PATH | O_CLOEXEC | flags),
                               .resolve = RESOLVE_CACHED};
  int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
  if (fd < 0 && errno == EAGAIN)
    errno = ENOENT;
  else if (fd < 0 && (errno == ENOSYS || errno == EINVAL || errno == EPERM))
    fd = open(path, O_PATH | O_CLOEXEC | flags);
  return fd;
}

#endif
