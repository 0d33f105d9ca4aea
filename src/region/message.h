/* message.h: the messages of a connection, and the descriptors with them.
 * Private to who serves and who reads. */
#ifndef PERCORE_REGION_MESSAGE_H
#define PERCORE_REGION_MESSAGE_H

#include "layout.h"

#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

enum { REGION_MAX_PASSED = 253 }; /* SCM_MAX_FD: with one message */

struct region_passed {
  int count;
  int fds[REGION_MAX_PASSED];
};

/* A packet of a size that both sides know, with descriptors; never blocks.
 * Returns the size of what came (0: the other side has ended, or an empty
 * packet), or -1 with errno. */
ssize_t region_packet_receive(int socket, void *bytes, size_t size,
                              struct region_passed *passed);
bool region_packet_send(int socket, const void *bytes, size_t size,
                        const int *fds, int count);

/* One message; never blocks. 0, or -1 with errno: EAGAIN, ECONNRESET, EPROTO
 * (no message). What came with it, even with no message, is the caller's. */
int region_message_receive(int socket, struct region_message *message,
                           struct region_passed *passed);

/* The same, but waits until a time of region_now_ms; looks once in any case. */
int region_message_await(int socket, int64_t until_ms,
                         struct region_message *message,
                         struct region_passed *passed);

int64_t region_now_ms(void); /* CLOCK_MONOTONIC */

/* Fills in what every message has; never blocks. False if it cannot be sent. */
bool region_message_send(int socket, struct region_message *message,
                         const int *fds, int count);

/* The descriptor of that number, which is the caller's then; -1 if there is
 * none. */
int region_passed_take(struct region_passed *passed, int number);

/* Closes the others. Keeps errno. */
void region_passed_close(struct region_passed *passed);

/* -1 is nothing. Keeps errno. */
static inline void region_close_fd(int *fd) {
  int saved = errno;
  if (*fd >= 0)
    close(*fd);
  *fd = -1;
  errno = saved;
}

#endif
