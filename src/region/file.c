/* file.c: makes and opens the files of regions, and tells whether somebody can
 * still count in one. */
#include "percore_config.h"

#include "file.h"

#include "process.h"

#include "base/cancellation.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { USER_MODE = 0640, ALL_MODE = 0644 };

static void close_fd(int *fd) {
  int saved = errno;
  if (*fd >= 0)
    close(*fd);
  *fd = -1;
  errno = saved;
}

/* ---------------------------------------------------------------------------
 * Making
 */

int region_file_make(struct region_new_file *file, const char *dir,
                     const char *name, const char *instance, bool all_users) {
  enum { FLAGS = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW };
  uint64_t id;
  int rc = -1;
  *file = (struct region_new_file){.dir = -1, .fd = -1};
  if (getrandom(&id, sizeof(id), 0) != sizeof(id))
    return -1;
  snprintf(file->name, sizeof(file->name), ".%s%s%s.%016" PRIx64, name,
           instance != NULL ? "@" : "", instance != NULL ? instance : "", id);
  file->dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (file->dir >= 0)
    file->fd = openat(file->dir, file->name, FLAGS, USER_MODE);
  if (file->fd >= 0)
    rc = fchmod(file->fd, all_users ? ALL_MODE : USER_MODE);
  close_fd(&file->fd);
  if (rc != 0)
    (void)region_file_finish(file, false);
  return rc;
}

int region_file_begin(struct region_new_file *file) {
  file->fd = openat(file->dir, file->name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  return file->fd >= 0 ? 0 : -1;
}

/* Asks as a reader would. */
static bool is_locked(int fd, bool *known) {
  struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};
  *known = fcntl(fd, F_OFD_GETLK, &lock) == 0;
  return *known && lock.l_type != F_UNLCK;
}

bool region_file_lock(struct region_new_file *file) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
  bool known, locked = fcntl(file->fd, F_OFD_SETLK, &lock) == 0;
  close_fd(&file->fd);
  int fd = openat(file->dir, file->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  locked = locked && fd >= 0 && is_locked(fd, &known);
  close_fd(&fd);
  return locked;
}

/* The name has a random number of 64 bits, so it replaces no other. */
int region_file_finish(struct region_new_file *file, bool publish) {
  int rc = -1, saved = errno;
  if (publish)
    rc = renameat(file->dir, file->name, file->dir, file->name + 1);
  if (rc != 0 && file->dir >= 0) {
    saved = publish ? errno : saved;
    (void)unlinkat(file->dir, file->name, 0);
  }
  close_fd(&file->fd);
  close_fd(&file->dir);
  errno = saved;
  return rc;
}

/* ---------------------------------------------------------------------------
 * Opening
 */

int region_file_open(struct region_file *file, int dir, const char *name,
                     struct region_fault *fault) {
  enum { FLAGS = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };
  struct stat of_dir, status;
  NOT_CANCELLED;
  *file = (struct region_file){.owner = (uid_t)-1};
  file->fd = openat(dir, name, FLAGS);
  if (file->fd < 0 || fstat(dir, &of_dir) != 0 ||
      fstat(file->fd, &status) != 0) {
    int error = errno;
    close_fd(&file->fd);
    return region_fails(fault, error, "") - 1;
  }
  if (!S_ISREG(status.st_mode) || status.st_nlink != 1 ||
      status.st_dev != of_dir.st_dev) {
    close_fd(&file->fd);
    return region_fails(fault, ENOTSUP,
                        "it is not a regular file of the directory with this "
                        "name only") -
           1;
  }
  file->inode = status.st_ino;
  file->owner = status.st_uid;
  file->size = (uint64_t)status.st_size;
  return 0;
}

void region_file_close(struct region_file *file) { close_fd(&file->fd); }

/* If the kernel cannot tell, because of an overlay or another machine, the word
 * `ended` does, or the process that the header names must be gone; if nothing
 * can tell, somebody may still count. */
bool region_file_is_over(int fd, const struct region_header *header,
                         uint64_t ended) {
  bool known = false;
  NOT_CANCELLED;
  if ((header->flags & REGION_LOCK_TELLS) != 0 &&
      region_process_is_of_this_boot(header)) {
    bool locked = is_locked(fd, &known);
    if (known)
      return !locked;
  }
  return ended != 0 || region_process_is_over(header);
}
