/* message.h: sends and receives the messages of a connection, with descriptors.
 * Private to the serving and the reading side. */
#ifndef PERCORE_REGION_MESSAGE_H
#define PERCORE_REGION_MESSAGE_H

#include "layout.h"

#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

enum { REGION_MAX_PASSED = 253 }; /* SCM_MAX_FD: per message */

struct region_passed {
  int count;
  int fds[REGION_MAX_PASSED];
};

/* Receive and send a packet of a size that both sides know, with descriptors;
 * never block. region_packet_receive returns the size of the packet (0: an
 * empty packet or the end of the connection), or -1 with errno. */
ssize_t region_packet_receive(int socket, void *bytes, size_t size,
                              struct region_passed *passed);
bool region_packet_send(int socket, const void *bytes, size_t size,
                        const int *fds, int count);

/* Receives a message; never blocks. 0, or -1 with errno: EAGAIN, ECONNRESET,
 * EPROTO (not a message). The caller owns the passed descriptors in any case.
 */
int region_message_receive(int socket, struct region_message *message,
                           struct region_passed *passed);

/* The same, but waits until a time of region_now_ms; tries at least once. */
int region_message_await(int socket, int64_t until_ms,
                         struct region_message *message,
                         struct region_passed *passed);

int64_t region_now_ms(void); /* CLOCK_MONOTONIC */

/* Fills in the constant members and sends the message; never blocks. False with
 * errno if it cannot be sent. */
bool region_message_send(int socket, struct region_message *message,
                         const int *fds, int count);

/* Takes a descriptor out of the set, by its index; -1 if there is none. */
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
