/* name.c: claims a name, and manages the socket at which readers find the
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
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "layout.h"
#include "message.h"
#include "name.h"
#include "receive.h"

enum { LOCK_MODE = 0640, SOCKET_MODE = 0660, BACKLOG = 128, TRIES = 16 };

/* How long to wait for the removal of the files. */
enum { REMOVE_MS = 200 };

/* True if this file is still at the path. */
static bool is_at(const char *path, dev_t device, ino_t inode) {
  struct stat file;
  return lstat(path, &file) == 0 && file.st_dev == device &&
         file.st_ino == inode;
}

static bool is_ours(const struct region_name *name) {
  struct stat file;
  return fstat(name->lock, &file) == 0 &&
         is_at(name->lock_path, file.st_dev, file.st_ino);
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
static int take_lock(struct region_name *name) {
  for (int i = 0; i < TRIES; i++) {
    name->lock = open_lock(name->lock_path);
    if (name->lock < 0 && errno == EEXIST)
      continue;
    if (name->lock < 0)
      return -1;
    if (flock(name->lock, LOCK_EX | LOCK_NB) != 0) {
      region_close_fd(&name->lock);
      return errno == EWOULDBLOCK ? region_failed(EADDRINUSE) : -1;
    }
    if (is_ours(name))
      return 0;
    region_close_fd(&name->lock);
  }
  return region_failed(EADDRINUSE);
}

/* Sets the mode before listen(2), because the directory's group may connect as
 * soon as the socket listens. */
static int bind_and_listen(struct region_name *name, int fd) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  struct stat file;
  memcpy(address.sun_path, name->socket_path, sizeof(address.sun_path));
  if (unlink(name->socket_path) != 0 && errno != ENOENT)
    return -1;
  if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
    return -1;
  if (chmod(name->socket_path, SOCKET_MODE) != 0 ||
      lstat(name->socket_path, &file) != 0 || listen(fd, BACKLOG) != 0) {
    int saved = errno;
    unlink(name->socket_path);
    errno = saved;
    return -1;
  }
  name->device = file.st_dev;
  name->inode = file.st_ino;
  return 0;
}

static int make_listener(struct region_name *name) {
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return -1;
  if (bind_and_listen(name, fd) != 0) {
    region_close_fd(&fd);
    return -1;
  }
  region_close_fd(&name->listener);
  name->listener = fd;
  return 0;
}

int region_name_take(struct region_name *name, const char *region,
                     const struct percore_options *options) {
  if (region_path(name->lock_path, REGION_PATH_SIZE, options->runtime_dir,
                  region, options->instance, "lock") != 0 ||
      region_path(name->socket_path, REGION_PATH_SIZE, options->runtime_dir,
                  region, options->instance, "sock") != 0)
    return -1;
  return take_lock(name) == 0 ? make_listener(name) : -1;
}

bool region_name_is_found(const struct region_name *name) {
  return is_at(name->socket_path, name->device, name->inode);
}

int region_name_restore(struct region_name *name) {
  struct region_name again = *name;
  if (!is_ours(name)) { /* the lock file was also removed */
    if (take_lock(&again) != 0)
      return -1;
    close(name->lock);
    name->lock = again.lock;
  }
  return make_listener(name);
}

static void remove_files(const struct region_name *name) {
  if (name->listener >= 0 && region_name_is_found(name))
    unlink(name->socket_path);
  unlink(name->lock_path);
}

/* Whoever lists the directory can hold its lock for ever, and a process that
 * waits for it in unlink(2) can be ended by no signal. So another process
 * removes the files. It keeps the lock file open, so that nobody has the name
 * before they are gone. */
void region_name_release(struct region_name *name) {
  struct timespec pause = {.tv_nsec = 1000000};
  sigset_t all, before;
  if (is_ours(name)) {
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t child = (pid_t)syscall(SYS_clone, 0L, 0L, 0L, 0L, 0L);
    if (child == 0) {
      region_keep_only(name->lock, name->lock);
      remove_files(name);
      _exit(0);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (child < 0)
      remove_files(name);
    for (int i = 0;
         child > 0 && i < REMOVE_MS && region_receive_is_held_up(&child); i++)
      nanosleep(&pause, NULL);
  }
  region_name_close(name);
}

void region_name_close(struct region_name *name) {
  region_close_fd(&name->listener);
  region_close_fd(&name->lock);
}
