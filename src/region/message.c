/* message.c: sends and receives packets with descriptors, and asks questions.
 */
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

int64_t region_now_ms(void) {
  return (int64_t)(clock_now_ns(CLOCK_MONOTONIC) / 1000000);
}

/* poll(2) is never restarted after a signal. */
short region_poll(int fd, short events, int wait_ms) {
  struct pollfd ready = {.fd = fd, .events = events};
  int64_t end_ms = region_now_ms() + wait_ms;
  int count = poll(&ready, 1, wait_ms);
  while (count < 0 && errno == EINTR) {
    int64_t left_ms = end_ms - region_now_ms();
    count = poll(&ready, 1, left_ms > 0 ? (int)left_ms : 0);
  }
  return count > 0 ? ready.revents : 0;
}

bool region_message_send(int socket, struct region_message *message,
                         const int *fds, int count) {
  message->magic = REGION_MESSAGE_MAGIC;
  message->version = REGION_MESSAGE_VERSION;
  message->length = sizeof(*message);
  return region_packet_send(socket, message, sizeof(*message), fds, count);
}

/* Returns 0 or an errno. recv(2) discards what was passed with a message: no
 * descriptor is installed that close(2) could flush. */
static int await_answer(int socket, uint32_t request, int64_t until_ms) {
  struct region_message answer = {.request = request + 1};
  while (answer.request != request) {
    int64_t left_ms = until_ms - region_now_ms();
    if (left_ms <= 0 || region_poll(socket, POLLIN, (int)left_ms) == 0)
      return ETIMEDOUT;
    ssize_t size =
        recv(socket, &answer, sizeof(answer), MSG_DONTWAIT | MSG_TRUNC);
    if (size <= 0)
      return size == 0 ? ECONNRESET : errno;
    if (size != sizeof(answer))
      answer.request = request + 1;
  }
  if (answer.type != REGION_ERROR)
    return 0;
  uint64_t error = answer.argument;
  return error > 0 && error < 4096 ? (int)error : EPROTO;
}

int region_message_ask(int socket, struct region_message *question,
                       int wait_ms) {
  int64_t until_ms = region_now_ms() + wait_ms;
  if (!region_message_send(socket, question, NULL, 0))
    return -1;
  int error = await_answer(socket, question->request, until_ms);
  return error == 0 ? 0 : region_failed(error);
}
