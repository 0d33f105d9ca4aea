/* connection.c: connects to a producer's socket, and notices when the producer
 * ends. */
#include "percore_config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "connection.h"

#include "base/portable.h"

void region_connection_init(struct region_connection *connection) {
  *connection = (struct region_connection){
      .file = -1, .socket = -1, .memfd = -1, .pidfd = -1, .uid = (uid_t)-1};
}

void region_connection_close(struct region_connection *connection) {
  region_close_fd(&connection->file);
  region_close_fd(&connection->socket);
  region_close_fd(&connection->memfd);
  region_close_fd(&connection->pidfd);
}

/* The pid may have been reused by another process, but then this connection has
 * also ended, and callers check for that. */
static void learn_peer(struct region_connection *connection) {
  struct ucred peer = region_peer(connection->socket);
  connection->uid = peer.uid;
  connection->pid = peer.pid;
  if (peer.pid > 0)
    connection->pidfd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
}

/* Does not follow a symbolic link. Otherwise, a user with write access to the
 * directory could make root look up a path that blocks, such as an
 * automounter's. For the same reason, statx must not query the file system of
 * the file. */
int region_connection_find(struct region_connection *connection,
                           const char *path) {
  mode_t mode;
  region_connection_init(connection);
  connection->file = open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
  if (connection->file < 0)
    return -1;
  if (portable_stat(connection->file, &mode, &connection->owner) == 0 &&
      S_ISSOCK(mode))
    return 0;
  region_connection_close(connection);
  return region_failed(ENOTSOCK);
}

int region_connection_open(struct region_connection *connection) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d",
           connection->file);
  connection->socket =
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  bool connected = connection->socket >= 0 &&
                   connect(connection->socket, (struct sockaddr *)&address,
                           sizeof(address)) == 0;
  region_close_fd(&connection->file);
  if (connected) {
    learn_peer(connection);
    return 0;
  }
  int error = errno;
  region_connection_close(connection);
  return region_failed(error);
}

bool region_connection_is_open(const struct region_connection *connection) {
  /* POLLHUP means that both directions are shut down, as they are after the
   * peer has closed its socket. */
  return connection->socket >= 0 &&
         (region_poll(connection->socket, 0, 0) & POLLHUP) == 0;
}

bool region_connection_lost_process(
    const struct region_connection *connection) {
  if (connection->pidfd >= 0)
    return region_poll(connection->pidfd, POLLIN, 0) != 0;
  return connection->pid > 0 && kill(connection->pid, 0) != 0 && errno == ESRCH;
}

bool region_is_sealed(int fd, struct region_fault *fault) {
  int seals = fcntl(fd, F_GET_SEALS);
  return (seals >= 0 && (seals & REGION_SEALS) == REGION_SEALS) ||
         region_breaks(fault, REGION_RULE_SEALS,
                       "its memory is not a sealed memfd");
}
