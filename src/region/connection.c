#include "percore_config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "connection.h"
#include "message.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* With these a file cannot be cut, punched or written through a descriptor
 * while it is mapped here. */
enum {
  SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL,
  MAX_STRAY = 16 /* messages that nobody asked for, dropped in one look */
};

void region_connection_init(struct region_connection *connection) {
  *connection =
      (struct region_connection){.socket = -1, .memfd = -1, .pidfd = -1};
}

void region_connection_close(struct region_connection *connection) {
  region_close_fd(&connection->socket);
  region_close_fd(&connection->memfd);
  region_close_fd(&connection->pidfd);
  region_connection_init(connection);
}

/* The pid may have been given to another process since; but then this
 * connection has ended, too, and that is looked at as well. */
void region_connection_learn_peer(struct region_connection *connection) {
  struct ucred peer = {.uid = (uid_t)-1};
  socklen_t size = sizeof(peer);
  if (getsockopt(connection->socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) !=
      0)
    return;
  connection->uid = peer.uid;
  connection->pid = peer.pid;
  region_close_fd(&connection->pidfd);
  if (peer.pid > 0)
    connection->pidfd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
}

/* The socket itself. A link is not followed: who may make one in the directory
 * could lead root to where the look alone waits, such as an automounter; and of
 * a file system that somebody mounted there nothing is asked. */
static int find_socket(const char *path) {
  struct statx status;
  int file = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0 || (statx(file, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
                         STATX_TYPE, &status) == 0 &&
                   S_ISSOCK(status.stx_mode)))
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

static int open_connection(struct region_connection *connection,
                           const char *path, bool deaf) {
  region_connection_init(connection);
  int file = find_socket(path);
  if (file < 0)
    return -1;
  connection->socket =
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  bool connected = connection->socket >= 0 &&
                   (!deaf || shutdown(connection->socket, SHUT_RD) == 0) &&
                   connect_to(connection->socket, file) == 0;
  region_close_fd(&file);
  if (connected) {
    region_connection_learn_peer(connection);
    return 0;
  }
  int error = errno;
  region_connection_close(connection);
  errno = error;
  return -1;
}

int region_connection_open(struct region_connection *connection,
                           const char *path) {
  return open_connection(connection, path, false);
}

int region_connection_probe(struct region_connection *connection,
                            const char *path) {
  int status = open_connection(connection, path, true);
  connection->receiving = REGION_PROBED;
  return status;
}

/* ---------------------------------------------------------------------------
 * Messages
 */

bool region_is_sealed(int fd) {
  int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & SEALS) == SEALS;
}

const char *region_connection_take_memory(struct region_connection *connection,
                                          struct region_passed *passed) {
  struct stat status;
  if (passed->count == 0)
    return "it came without memory";
  if (!region_is_sealed(passed->fds[0]))
    return "its memory is not sealed";
  if (fstat(passed->fds[0], &status) != 0 || status.st_size <= 0)
    return "its memory has no size";
  connection->size = (uint64_t)status.st_size;
  connection->memfd = region_passed_take(passed, 0);
  return NULL;
}

int region_connection_hello(struct region_connection *connection, int wait_ms,
                            const char **why) {
  struct region_message message;
  struct region_passed passed;
  *why = NULL;
  int status = region_message_await(
      connection->socket, region_now_ms() + wait_ms, &message, &passed);
  if (status != 0 && errno == EPROTO) {
    *why = "its producer sends what is no message";
  } else if (status == 0) {
    *why = message.type == REGION_HELLO
               ? region_connection_take_memory(connection, &passed)
               : "its producer does not say hello";
    status = *why == NULL ? 0 : -1;
    errno = EPROTO;
  }
  region_passed_close(&passed);
  return status;
}

bool region_connection_lost_process(
    const struct region_connection *connection) {
  struct pollfd ended = {.fd = connection->pidfd, .events = POLLIN};
  return connection->pidfd >= 0 && poll(&ended, 1, 0) > 0;
}

/* Nothing is expected but answers that came too late; they are dropped. */
static bool is_open(struct region_connection *connection) {
  struct region_message message;
  struct region_passed passed;
  for (int i = 0; i < MAX_STRAY; i++) {
    int status = region_message_receive(connection->socket, &message, &passed);
    region_passed_close(&passed);
    if (status != 0)
      return errno == EAGAIN || errno == EINTR;
  }
  return true;
}

/* Both directions are shut down as soon as the other side is closed. */
static bool is_shut(const struct region_connection *connection) {
  struct pollfd end = {.fd = connection->socket};
  return poll(&end, 1, 0) > 0 && (end.revents & POLLHUP) != 0;
}

bool region_connection_is_alive(struct region_connection *connection) {
  if (connection->socket < 0 ||
      (connection->receiving == REGION_NOTHING_MORE ? is_shut(connection)
                                                    : !is_open(connection)))
    return false;
  return !region_connection_lost_process(connection);
}

int region_connection_reset(struct region_connection *connection,
                            uint32_t table, uint32_t row, int wait_ms) {
  struct region_message message = {.type = REGION_RESET,
                                   .request = ++connection->requests,
                                   .table = table,
                                   .row = row};
  uint32_t request = message.request;
  if (connection->receiving == REGION_NOTHING_MORE) {
    errno = ENOTSUP;
    return -1;
  }
  if (!region_message_send(connection->socket, &message, NULL, 0))
    return -1;
  int64_t deadline = region_now_ms() + wait_ms;
  do {
    struct region_passed passed;
    int status =
        region_message_await(connection->socket, deadline, &message, &passed);
    region_passed_close(&passed);
    if (status != 0) {
      if (errno == EAGAIN)
        errno = ETIMEDOUT;
      return -1;
    }
  } while (message.request != request && region_now_ms() < deadline);
  if (message.request != request) {
    errno = ETIMEDOUT;
    return -1;
  }
  if (message.type == REGION_RESET)
    return 0;
  errno = message.argument != 0 && message.argument < 4096
              ? (int)message.argument
              : EPROTO;
  return -1;
}
