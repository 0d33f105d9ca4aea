#include "percore_config.h"

#include "message.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

union control {
  struct cmsghdr header;
  char bytes[CMSG_SPACE(REGION_MAX_PASSED * sizeof(int))];
};

static void find_passed(struct msghdr *header, struct region_passed *passed) {
  for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part != NULL;
       part = CMSG_NXTHDR(header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
      continue;
    size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(&passed->fds[passed->count], CMSG_DATA(part), count * sizeof(int));
    passed->count += (int)count;
  }
}

ssize_t region_packet_receive(int socket, void *bytes, size_t size,
                              struct region_passed *passed) {
  struct iovec part = {.iov_base = bytes, .iov_len = size};
  union control control;
  struct msghdr header = {.msg_iov = &part,
                          .msg_iovlen = 1,
                          .msg_control = &control,
                          .msg_controllen = sizeof(control)};
  passed->count = 0;
  ssize_t got =
      recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
  if (got >= 0)
    find_passed(&header, passed);
  return got;
}

bool region_packet_send(int socket, const void *bytes, size_t size,
                        const int *fds, int count) {
  struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
  union control control;
  struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
  if (count > 0) {
    size_t length = (size_t)count * sizeof(int);
    memset(&control, 0, CMSG_SPACE(length));
    header.msg_control = &control;
    header.msg_controllen = CMSG_SPACE(length);
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(length);
    memcpy(CMSG_DATA(rights), fds, length);
  }
  return sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

int region_message_receive(int socket, struct region_message *message,
                           struct region_passed *passed) {
  ssize_t size =
      region_packet_receive(socket, message, sizeof(*message), passed);
  if (size < 0)
    return -1;
  if (size == sizeof(*message) && message->magic == REGION_MESSAGE_MAGIC &&
      message->version == REGION_MESSAGE_VERSION &&
      message->length == sizeof(*message))
    return 0;
  return region_failed(size == 0 ? ECONNRESET : EPROTO);
}

int64_t region_now_ms(void) {
  return (int64_t)(clock_now_ns(CLOCK_MONOTONIC) / 1000000);
}

int region_message_await(int socket, int64_t until_ms,
                         struct region_message *message,
                         struct region_passed *passed) {
  for (;;) {
    if (region_message_receive(socket, message, passed) == 0)
      return 0;
    if (errno != EAGAIN && errno != EINTR)
      return -1;
    int64_t left = until_ms - region_now_ms();
    struct pollfd ready = {.fd = socket, .events = POLLIN};
    errno = EAGAIN;
    if (left <= 0 || (poll(&ready, 1, (int)left) < 0 && errno != EINTR))
      return -1;
  }
}

bool region_message_send(int socket, struct region_message *message,
                         const int *fds, int count) {
  message->magic = REGION_MESSAGE_MAGIC;
  message->version = REGION_MESSAGE_VERSION;
  message->length = sizeof(*message);
  return region_packet_send(socket, message, sizeof(*message), fds, count);
}

int region_passed_take(struct region_passed *passed, int number) {
  if (number >= passed->count)
    return -1;
  int fd = passed->fds[number];
  passed->fds[number] = -1;
  return fd;
}

/* Turns SO_LINGER off before closing a descriptor, because the sender of a
 * socket can set SO_LINGER to make its last close block. */
void region_passed_close(struct region_passed *passed) {
  static const struct linger none = {0};
  int saved = errno;
  for (int i = 0; i < passed->count; i++)
    if (passed->fds[i] >= 0) {
      (void)setsockopt(passed->fds[i], SOL_SOCKET, SO_LINGER, &none,
                       sizeof(none));
      close(passed->fds[i]);
    }
  passed->count = 0;
  errno = saved;
}
