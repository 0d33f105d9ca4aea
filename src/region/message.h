/* message.h: the messages that hand a region over, each one packet of a
 * SOCK_SEQPACKET socket, and the descriptors passed with them. Private to the
 * files that serve and read regions. */
#ifndef PERCORE_REGION_MESSAGE_H
#define PERCORE_REGION_MESSAGE_H

#include "layout.h"

#include "base/cancellation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#define REGION_MESSAGE_MAGIC 0x50435231u
#define REGION_MESSAGE_VERSION 1

enum region_message_type {
  /* To the reader, with the descriptor of the region; argument: the size. */
  REGION_HELLO = 1,
  /* To the producer: asks it to reset a row of a table. The answer is the same
   * message. */
  REGION_RESET = 2,
  /* To the reader; argument: an errno. */
  REGION_ERROR = 3
};

struct region_message {
  uint32_t magic;
  uint16_t version;
  uint16_t type;
  uint32_t length;  /* 32 */
  uint32_t request; /* chosen by the reader and repeated in the answer */
  uint64_t argument;
  uint32_t table; /* index in the directory; UINT32_MAX: all */
  uint32_t row;   /* UINT32_MAX: all */
};
_Static_assert(sizeof(struct region_message) == 32, "");

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* With these seals, no process can truncate a region's memory, punch holes in
 * it, or write to it except through the mapping of its producer. */
enum {
  REGION_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL
};

enum { REGION_MAX_PASSED = 253 }; /* SCM_MAX_FD, the maximum per message */

struct region_passed {
  int count;
  int fds[REGION_MAX_PASSED];
};

/* Receive and send a packet with descriptors; both sides know the size of the
 * packet. Neither function blocks. region_packet_receive returns the size of
 * the packet (0: an empty packet or the end of the connection), or -1 with
 * errno. */
ssize_t region_packet_receive(int socket, void *bytes, size_t size,
                              struct region_passed *passed);
bool region_packet_send(int socket, const void *bytes, size_t size,
                        const int *fds, int count);

int64_t region_now_ms(void); /* CLOCK_MONOTONIC */

/* Waits at most wait_ms milliseconds, also if signals arrive, until a
 * descriptor has one of the events. Returns what poll(2) reports of it; 0 if
 * nothing. */
short region_poll(int fd, short events, int wait_ms);

static inline void region_pause(int ms) {
  NOT_CANCELLED;
  (void)region_poll(-1, 0, ms);
}

/* Fills in the constant members and sends the message without blocking. Returns
 * false with errno if it cannot be sent. */
bool region_message_send(int socket, struct region_message *message,
                         const int *fds, int count);

/* Sends a question and waits at most wait_ms milliseconds for its answer, which
 * is the message with the same request. Discards descriptors. Returns 0, or -1
 * with the errno of the answer, ETIMEDOUT, or another errno. */
int region_message_ask(int socket, struct region_message *question,
                       int wait_ms);

/* Returns the process at the other end of a connection; its user is -1 if it is
 * unknown. */
static inline struct ucred region_peer(int socket) {
  struct ucred peer = {.uid = (uid_t)-1};
  socklen_t size = sizeof(peer);
  (void)getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size);
  return peer;
}

/* Closes a descriptor unless it is -1, and makes it -1. Keeps errno. */
static inline void region_close_fd(int *fd) {
  int saved = errno;
  if (*fd >= 0)
    close(*fd);
  *fd = -1;
  errno = saved;
}

#endif
