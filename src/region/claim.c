/* claim.c: claims a name, and manages the socket at which readers find the
 * region.
 *
 * A name belongs to the process that holds an exclusive flock on the name's
 * lock file, as long as that file is still at its path. A process that takes
 * the lock may replace an existing socket. The owner removes both files when it
 * ends; after a crash they stay. flock does not need write permission, so every
 * member of the directory's group can take over a name, because the group can
 * read the lock file. A process can replace a leftover socket if it may remove
 * it. In a directory with the sticky bit, only the owner of the socket, the
 * owner of the directory, and root may do so.
 */
#include "percore_config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "claim.h"
#include "layout.h"
#include "message.h"

enum { LOCK_MODE = 0640, GROUP_MODE = 0660, ALL_MODE = 0666 };
enum { BACKLOG = 128, TRIES = 16 };

/* True if this file is still at the path. */
static bool is_at(const char *path, dev_t device, ino_t inode) {
  struct stat status;
  int file = open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
  bool found = file >= 0 && fstat(file, &status) == 0 &&
               status.st_dev == device && status.st_ino == inode;
  region_close_fd(&file);
  return found;
}

static bool is_ours(const struct region_claim *claim) {
  struct stat file;
  return fstat(claim->lock, &file) == 0 &&
         is_at(claim->lock_path, file.st_dev, file.st_ino);
}

/* Opens without O_CREAT first, because in a sticky directory the kernel refuses
 * O_CREAT for another user's file (fs.protected_regular). Sets the mode only if
 * this call created the file. */
static int open_lock(const char *path) {
  enum { FLAGS = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK };
  int fd = open(path, FLAGS);
  if (fd >= 0 || errno != ENOENT)
    return fd;
  fd = open(path, FLAGS | O_CREAT | O_EXCL, LOCK_MODE);
  if (fd >= 0)
    (void)fchmod(fd, LOCK_MODE);
  return fd;
}

/* Locks the lock file. A process that releases the name removes the file, so
 * the lock may be on a file that is no longer at the path; this then tries
 * again. */
static int take_lock(struct region_claim *claim) {
  for (int i = 0; i < TRIES; i++) {
    claim->lock = open_lock(claim->lock_path);
    if (claim->lock < 0 && errno == EEXIST)
      continue;
    if (claim->lock < 0)
      return -1;
    if (flock(claim->lock, LOCK_EX | LOCK_NB) != 0) {
      region_close_fd(&claim->lock);
      return errno == EWOULDBLOCK ? region_failed(EADDRINUSE) : -1;
    }
    if (is_ours(claim))
      return 0;
    region_close_fd(&claim->lock);
  }
  return region_failed(EADDRINUSE);
}

/* Binds a new socket in place of the one at the path, if any, and listens. Sets
 * the mode before listen(2), because the directory's group may connect as soon
 * as the socket listens. */
static int make_listener(struct region_claim *claim) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  struct stat file;
  memcpy(address.sun_path, claim->socket_path, sizeof(address.sun_path));
  region_close_fd(&claim->listener);
  claim->inode = 0;
  claim->listener =
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (claim->listener < 0 ||
      (unlink(claim->socket_path) != 0 && errno != ENOENT) ||
      bind(claim->listener, (struct sockaddr *)&address, sizeof(address)) != 0)
    return -1;
  if (chmod(claim->socket_path, claim->mode) != 0 ||
      lstat(claim->socket_path, &file) != 0 ||
      listen(claim->listener, BACKLOG) != 0) {
    int saved = errno;
    unlink(claim->socket_path);
    return region_failed(saved);
  }
  claim->device = file.st_dev;
  claim->inode = file.st_ino;
  return 0;
}

static int take(struct region_claim *claim) {
  bool had_lock = is_ours(claim);
  if (!had_lock) {
    region_close_fd(&claim->lock);
    if (take_lock(claim) != 0)
      return -1;
  }
  if (make_listener(claim) == 0)
    return 0;
  int error = errno;
  region_close_fd(&claim->listener);
  if (!had_lock)
    unlink(claim->lock_path); /* the next attempt closes it */
  return region_failed(error);
}

static void set_number(struct region_claim *claim, unsigned number) {
  size_t at = claim->number_at;
  claim->number = number;
  snprintf(claim->lock_path + at, REGION_PATH_SIZE - at, "%u.lock", number);
  snprintf(claim->socket_path + at, REGION_PATH_SIZE - at, "%u.sock", number);
}

/* True if the last attempt failed because of another process's files. Keeps
 * errno. A lock file of another group cannot be opened. */
static bool is_taken(const struct region_claim *claim) {
  struct stat file;
  int error = errno;
  bool taken = error == EADDRINUSE || error == EPERM ||
               (error == EACCES && lstat(claim->lock_path, &file) == 0);
  errno = error;
  return taken;
}

/* Skips numbers that a process has, and those that a dead process of another
 * user has left behind in a sticky directory. */
static int take_lowest(struct region_claim *claim) {
  errno = EADDRINUSE;
  for (unsigned number = 1; number <= REGION_LAST_NUMBER && is_taken(claim);
       number++) {
    set_number(claim, number);
    if (take(claim) == 0) {
      claim->number_at = 0;
      return 0;
    }
  }
  return -1;
}

int region_claim_take(struct region_claim *claim) {
  return claim->number_at != 0 ? take_lowest(claim) : take(claim);
}

int region_claim_init(struct region_claim *claim, const char *region,
                      const struct percore_options *options) {
  bool any = region_instance_is_any(options->instance);
  const char *dir = options->runtime_dir;
  const char *instance = any ? REGION_LONGEST_NUMBER : options->instance;
  *claim =
      (struct region_claim){.lock = -1,
                            .listener = -1,
                            .mode = options->all_users ? ALL_MODE : GROUP_MODE};
  if (region_path(claim->lock_path, REGION_PATH_SIZE, dir, region, instance,
                  "lock") != 0 ||
      region_path(claim->socket_path, REGION_PATH_SIZE, dir, region, instance,
                  "sock") != 0)
    return -1;
  if (any)
    claim->number_at =
        strlen(claim->socket_path) - strlen(REGION_LONGEST_NUMBER ".sock");
  return 0;
}

bool region_claim_is_same(const struct region_claim *claim,
                          const struct region_claim *other) {
  size_t at = claim->number_at;
  return at == other->number_at &&
         strncmp(claim->socket_path, other->socket_path,
                 at != 0 ? at : REGION_PATH_SIZE) == 0;
}

bool region_claim_is_found(const struct region_claim *claim) {
  return is_at(claim->socket_path, claim->device, claim->inode);
}

void region_claim_release(struct region_claim *claim) {
  if (is_ours(claim)) {
    if (region_claim_is_found(claim))
      unlink(claim->socket_path);
    unlink(claim->lock_path);
  }
  region_claim_close(claim);
}

void region_claim_close(struct region_claim *claim) {
  region_close_fd(&claim->listener);
  region_close_fd(&claim->lock);
}
