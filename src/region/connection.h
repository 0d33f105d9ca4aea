/* connection.h: connects a reader to a producer, receives the region, and tells
 * whether the producer lives. After HELLO, a connection can receive nothing. */
#ifndef PERCORE_REGION_CONNECTION_H
#define PERCORE_REGION_CONNECTION_H

#include "fault.h"
#include "message.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct region_connection {
  int socket;    /* -1 if there is none */
  int memfd;     /* -1 before HELLO */
  int pidfd;     /* -1 where the producer's pid cannot be seen */
  pid_t pid;     /* as seen from here; 0 if it cannot be seen */
  uid_t uid;     /* the user who listens; -1 if unknown */
  uint64_t size; /* of the memory */
};

void region_connection_init(struct region_connection *connection);
void region_connection_close(struct region_connection *connection);

/* Connects to a socket; never blocks. 0, or -1 with errno of connect(2). */
int region_connection_open(struct region_connection *connection,
                           const char *path);

/* Learns which process listens by a connection that can receive nothing, and
 * closes it. Returns the same. */
int region_connection_probe(struct region_connection *connection,
                            const char *path);

/* Learns which process listens at the other end of the socket. */
void region_connection_learn_peer(struct region_connection *connection);

/* Waits at most wait_ms milliseconds for HELLO. 0 if the memory has come and is
 * sealed; -1 with a fault: EAGAIN (nothing came yet), ECONNRESET or EPROTO. */
int region_connection_hello(struct region_connection *connection, int wait_ms,
                            struct region_fault *fault);

/* True while the connection has not ended; meaningful after HELLO. */
bool region_connection_is_open(const struct region_connection *connection);

/* True if the producer's process can be seen from here and has ended. */
bool region_connection_lost_process(const struct region_connection *connection);

/* ---------------------------------------------------------------------------
 * Offences of producers, as one process reports them to another
 */

enum region_offence {
  REGION_NO_OFFENCE,
  REGION_NO_MESSAGE,
  REGION_NO_HELLO,
  REGION_NO_MEMORY,
  REGION_NOT_SEALED,
  REGION_SENDS_MORE,
  REGION_HELD_UP,
  REGION_TOO_MANY
};

/* Fills the fault. Returns -1. */
int region_offend(enum region_offence offence, struct region_fault *fault);

/* True if a descriptor is memory with every seal of a region. */
bool region_is_sealed(int fd);

/* Judges the message that should be HELLO and the descriptors that came with
 * it. status is that of region_message_receive. */
enum region_offence region_judge_hello(int status,
                                       const struct region_message *message,
                                       const struct region_passed *passed);

/* Shuts the receiving direction of the socket down. True if nothing is queued
 * that would have to be received or closed. */
bool region_socket_is_empty(int socket);

/* Takes the memory that came with a valid HELLO. False with a fault if it has
 * no size. */
bool region_connection_take_memory(struct region_connection *connection,
                                   struct region_passed *passed,
                                   struct region_fault *fault);

#endif
