/* connection.h: connects a reader to a producer, receives the region, and
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
  int socket;    /* -1 if not connected */
  int memfd;     /* -1 until HELLO */
  int pidfd;     /* -1 if the producer's pid is not visible here */
  pid_t pid;     /* in this pid namespace; 0 if not visible */
  uid_t uid;     /* the user of the listening process; -1 if unknown */
  uint64_t size; /* size of the memory */
};

void region_connection_init(struct region_connection *connection);
void region_connection_close(struct region_connection *connection);

/* Connects to a socket; never blocks. Returns 0, or -1 with the errno of
 * connect(2). */
int region_connection_open(struct region_connection *connection,
                           const char *path);

/* Waits at most wait_ms milliseconds until something has arrived. */
bool region_connection_await(const struct region_connection *connection,
                             int wait_ms);

/* True unless the connection has ended. Call only after HELLO. */
bool region_connection_is_open(const struct region_connection *connection);

/* True if the producer's process is visible here and has ended. */
bool region_connection_lost_process(const struct region_connection *connection);

/* ---------------------------------------------------------------------------
 * Offences: reasons for refusing what a producer sends
 */

enum region_offence {
  REGION_NO_OFFENCE,
  REGION_NO_MESSAGE,
  REGION_NO_HELLO,
  REGION_NO_MEMORY,
  REGION_NOT_SEALED,
  REGION_SENDS_MORE,
  REGION_HELD_UP
};

/* Describes an offence in *fault. Returns -1. */
int region_offend(enum region_offence offence, struct region_fault *fault);

/* True if a descriptor refers to memory with all seals that a region must have.
 */
bool region_is_sealed(int fd);

/* Checks a message that should be HELLO, and the descriptors that were passed
 * with it. status is the result of region_message_receive. Returns
 * REGION_NO_OFFENCE if they are valid. */
enum region_offence region_check_hello(int status,
                                       const struct region_message *message,
                                       const struct region_passed *passed);

/* Shuts down the receiving direction of the socket. Returns true if its queue
 * is empty; a message left there might carry descriptors. */
bool region_socket_is_empty(int socket);

/* Takes over the memory that was passed with a valid HELLO. Returns false and
 * sets *fault if the memory is empty. */
bool region_connection_take_memory(struct region_connection *connection,
                                   struct region_passed *passed,
                                   struct region_fault *fault);

#endif
