/* message.h: sends and receives the messages of a connection and the
 * descriptors passed with them. Private to the files that serve and read
 * regions. */
#ifndef PERCORE_REGION_MESSAGE_H
#define PERCORE_REGION_MESSAGE_H

#include "layout.h"

#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

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

/* Receives a message without blocking. Returns 0, or -1 with errno: EAGAIN,
 * ECONNRESET, or EPROTO (not a message). The caller owns the passed descriptors
 * in every case. */
int region_message_receive(int socket, struct region_message *message,
                           struct region_passed *passed);

/* Like region_message_receive, but waits for a message until region_now_ms()
 * reaches the given time. Tries at least once. */
int region_message_await(int socket, int64_t until_ms,
                         struct region_message *message,
                         struct region_passed *passed);

int64_t region_now_ms(void); /* CLOCK_MONOTONIC */

/* Fills in the constant members and sends the message without blocking. Returns
 * false with errno if it cannot be sent. */
bool region_message_send(int socket, struct region_message *message,
                         const int *fds, int count);

/* Takes descriptor `number` out of the set and returns it, or -1 if the set
 * does not contain it. */
int region_passed_take(struct region_passed *passed, int number);

/* Closes the remaining descriptors. Keeps errno. */
void region_passed_close(struct region_passed *passed);

/* Closes a descriptor unless it is -1, and makes it -1. Keeps errno. */
static inline void region_close_fd(int *fd) {
  int saved = errno;
  if (*fd >= 0)
    close(*fd);
  *fd = -1;
  errno = saved;
}

#endif
