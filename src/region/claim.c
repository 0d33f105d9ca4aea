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
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "claim.h"
#include "layout.h"
#include "message.h"
#include "receive.h"

#include "base/cached.h"

enum { LOCK_MODE = 0640, SOCKET_MODE = 0660, BACKLOG = 128, TRIES = 16 };

/* How long to wait for the removal of the files. */
enum { REMOVE_MS = 200 };

/* True if this file is still at the path. */
static bool is_at(const char *path, dev_t device, ino_t inode) {
  struct stat status;
  int file = cached_open(path, O_NOFOLLOW);
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

/* Sets the mode before listen(2), because the directory's group may connect as
 * soon as the socket listens. */
static int bind_listener(struct region_claim *claim) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  struct stat file;
  memcpy(address.sun_path, claim->socket_path, sizeof(address.sun_path));
  claim->listener =
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (claim->listener < 0 ||
      (unlink(claim->socket_path) != 0 && errno != ENOENT) ||
      bind(claim->listener, (struct sockaddr *)&address, sizeof(address)) != 0)
    return -1;
  if (chmod(claim->socket_path, SOCKET_MODE) != 0 ||
      lstat(claim->socket_path, &file) != 0) {
    int saved = errno;
    unlink(claim->socket_path);
    return region_failed(saved);
  }
  claim->device = file.st_dev;
  claim->inode = file.st_ino;
  return 0;
}

/* What a process that claims a name answers, with two descriptors: the lock and
 * the listener, or twice the listener if the lock is held already. */
struct answer {
  int error; /* 0: the name is claimed */
  dev_t device;
  ino_t inode;
};

static void remove_files(const struct region_claim *claim) {
  if (claim->listener >= 0 && region_claim_is_found(claim))
    unlink(claim->socket_path);
  unlink(claim->lock_path);
}

/* Takes the lock and binds the socket. *claim has no descriptors. */
static void take_files(struct region_claim *claim, bool has_lock,
                       struct answer *answer) {
  bool locks = !has_lock && take_lock(claim) == 0;
  if ((has_lock || locks) && bind_listener(claim) == 0) {
    *answer = (struct answer){.device = claim->device, .inode = claim->inode};
    return;
  }
  *answer = (struct answer){.error = errno};
  if (locks)
    unlink(claim->lock_path);
  region_claim_close(claim);
}

/* Claims the name and answers. The parent closes the socket if it gives up. */
static void claim_for(const struct region_claim *claim, bool has_lock,
                      int parent) {
  struct region_claim own = *claim;
  struct answer answer;
  own.lock = own.listener = own.answers = -1;
  take_files(&own, has_lock, &answer);
  int fds[] = {has_lock ? own.listener : own.lock, own.listener};
  if (!region_packet_send(parent, &answer, sizeof(answer), fds,
                          answer.error == 0 ? 2 : 0) &&
      answer.error == 0)
    remove_files(&own);
  region_close_fd(&own.lock);
  region_close_fd(&own.listener);
}

/* Whoever lists the directory can hold its lock for ever, and a process that
 * waits for it in open(2), bind(2) or unlink(2) can be ended by no signal. So
 * these functions run in other processes, in which all signals are blocked. */
static pid_t start_process(sigset_t *before) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, before);
  return (pid_t)syscall(SYS_clone, 0L, 0L, 0L, 0L, 0L);
}

/* A name may be taken for long, or its directory be missing, and is tried again
 * every two seconds: a process that is started each time would copy the page
 * tables of this one, which then takes a fault for each page. */
static bool has_directory(const struct region_claim *claim) {
  char path[REGION_PATH_SIZE];
  memcpy(path, claim->lock_path, sizeof(path));
  *strrchr(path, '/') = '\0';
  int directory = cached_open(path, O_DIRECTORY);
  bool found = directory >= 0;
  region_close_fd(&directory);
  return found;
}

/* True if a process serves the name. */
static bool is_served(const struct region_claim *claim) {
  struct region_connection probe;
  bool served = region_connection_open(&probe, claim->socket_path) == 0;
  region_connection_close(&probe);
  return served;
}

static int start_claim(struct region_claim *claim) {
  bool has_lock = is_ours(claim);
  sigset_t before;
  int ends[2];
  if (region_receive_is_held_up(&claim->child))
    return region_failed(ETIMEDOUT);
  if (!has_directory(claim))
    return -1;
  if (!has_lock && is_served(claim))
    return region_failed(EADDRINUSE);
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return -1;
  claim->child = start_process(&before);
  if (claim->child == 0) {
    region_keep_only(ends[1], ends[1]);
    claim_for(claim, has_lock, ends[1]);
    _exit(0);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (claim->child < 0) { /* a limit or a filter: without protection */
    claim_for(claim, has_lock, ends[1]);
    claim->child = 0;
  }
  close(ends[1]);
  claim->answers = ends[0];
  return 0;
}

/* listen(2) must be called by this process, which readers take for that of the
 * producer. */
int region_claim_take(struct region_claim *claim, int wait_ms) {
  struct region_passed passed;
  struct answer answer;
  if (claim->answers < 0 && start_claim(claim) != 0)
    return -1;
  if (region_poll(claim->answers, POLLIN, wait_ms) == 0)
    return region_failed(ETIMEDOUT);
  ssize_t size =
      region_packet_receive(claim->answers, &answer, sizeof(answer), &passed);
  region_close_fd(&claim->answers);
  for (struct timespec pause = {.tv_nsec = 100000};
       region_receive_is_held_up(&claim->child);) /* it is about to end */
    nanosleep(&pause, NULL);
  if (size != sizeof(answer) || (answer.error == 0 && passed.count != 2))
    return region_failed(size < 0 ? errno : EMFILE);
  if (answer.error != 0)
    return region_failed(answer.error);
  if (is_ours(claim)) {
    close(passed.fds[0]);
  } else {
    region_close_fd(&claim->lock);
    claim->lock = passed.fds[0];
  }
  region_close_fd(&claim->listener);
  claim->listener = passed.fds[1];
  claim->device = answer.device;
  claim->inode = answer.inode;
  return listen(claim->listener, BACKLOG);
}

int region_claim_init(struct region_claim *claim, const char *region,
                      const struct percore_options *options) {
  *claim = (struct region_claim){.lock = -1, .listener = -1, .answers = -1};
  return region_path(claim->lock_path, REGION_PATH_SIZE, options->runtime_dir,
                     region, options->instance, "lock") == 0
             ? region_path(claim->socket_path, REGION_PATH_SIZE,
                           options->runtime_dir, region, options->instance,
                           "sock")
             : -1;
}

bool region_claim_is_found(const struct region_claim *claim) {
  return is_at(claim->socket_path, claim->device, claim->inode);
}

/* The process keeps the lock file open, so that nobody has the name before the
 * files are gone. */
void region_claim_release(struct region_claim *claim) {
  struct timespec pause = {.tv_nsec = 1000000};
  sigset_t before;
  if (is_ours(claim)) {
    pid_t child = start_process(&before);
    if (child == 0) {
      region_keep_only(claim->lock, claim->lock);
      remove_files(claim);
      _exit(0);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (child < 0)
      remove_files(claim);
    for (int i = 0;
         child > 0 && i < REMOVE_MS && region_receive_is_held_up(&child); i++)
      nanosleep(&pause, NULL);
  }
  region_claim_close(claim);
  (void)region_receive_is_held_up(&claim->child);
}

void region_claim_close(struct region_claim *claim) {
  region_close_fd(&claim->listener);
  region_close_fd(&claim->lock);
  region_close_fd(&claim->answers);
}
