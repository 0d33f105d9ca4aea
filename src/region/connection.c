/* connection.c: connects to a producer's socket without waiting for a lock of
 * the directory, and notices when the producer ends. */
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

#include "base/cached.h"
#include "base/portable.h"

void region_connection_init(struct region_connection *connection) {
  *connection = (struct region_connection){
      .socket = -1, .memfd = -1, .pidfd = -1, .uid = (uid_t)-1};
}

void region_connection_close(struct region_connection *connection) {
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

/* Opens the file of a socket without following a symbolic link. Otherwise, a
 * user with write access to the directory could make root look up a path that
 * blocks, such as an automounter's. For the same reason, statx must not
 * query the file system of the file. */
static int find_socket(const char *path) {
  int file = cached_open(path, O_NOFOLLOW);
  if (file < 0 || S_ISSOCK(portable_mode(file)))
    return file;
  close(file);
  errno = ENOTSOCK;
  return -1;
}

static int connect_to(int socket, int file) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d",
           file);
  return connect(socket, (struct sockaddr *)&address, sizeof(address));
}

int region_connection_open(struct region_connection *connection,
                           const char *path) {
  region_connection_init(connection);
  int file = find_socket(path);
  if (file < 0)
    return -1;
  connection->socket =
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  bool connected =
      connection->socket >= 0 && connect_to(connection->socket, file) == 0;
  region_close_fd(&file);
  if (connected) {
    learn_peer(connection);
    return 0;
  }
  int error = errno;
  region_connection_close(connection);
  errno = error;
  return -1;
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
