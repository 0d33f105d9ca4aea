/* connection.h: connects a reader to a producer, and
 * reports whether the producer is alive. After HELLO, a connection receives
 * nothing more. */
#ifndef PERCORE_REGION_CONNECTION_H
#define PERCORE_REGION_CONNECTION_H

#include "fault.h"
#include "message.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct region_connection {
  int file;   /* the socket's file, until it is connected to; -1 */
  int socket; /* -1 if not connected */
  int memfd;  /* -1 until HELLO */
  int pidfd;  /* -1 if the producer's pid is not visible here */
  /* These stay known when the connection is closed. */
  pid_t pid;   /* in this pid namespace; 0 if not visible */
  uid_t uid;   /* the user of the listening process; -1 if unknown */
  uid_t owner; /* of the socket's file */
};

void region_connection_init(struct region_connection *connection);
void region_connection_close(struct region_connection *connection);

/* Finds the socket at a path, and so learns its owner. Returns 0, or -1 with
 * errno: ENOTSOCK, if the path is that of something else. */
int region_connection_find(struct region_connection *connection,
                           const char *path);

/* Connects to the socket that was found; never blocks. Returns 0, or -1 with
 * the errno of connect(2). */
int region_connection_open(struct region_connection *connection);

/* True unless the connection has ended. Call only after HELLO. */
bool region_connection_is_open(const struct region_connection *connection);

/* True if the producer's process is visible here and has ended. */
bool region_connection_lost_process(const struct region_connection *connection);

/* True if a descriptor refers to memory with all seals that a region must have.
 */
bool region_is_sealed(int fd, struct region_fault *fault);

#endif
