/* connection.h: how a reader comes to a region, and knows that its producer
 * lives. After HELLO nothing can be received through a connection. */
#ifndef PERCORE_REGION_CONNECTION_H
#define PERCORE_REGION_CONNECTION_H

#include "message.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct region_connection {
  int socket; /* -1 if there is none */
  int memfd;  /* -1 before HELLO */
  int pidfd;  /* -1 where the producer's pid cannot be seen */
  pid_t pid;  /* as seen from here; 0 if it cannot be seen */
  uid_t uid;  /* who made the socket; -1 if not known */
  uint64_t size;
};

void region_connection_init(struct region_connection *connection);
void region_connection_close(struct region_connection *connection);

/* Connects to a socket; never blocks. 0, or -1 with errno of connect(2). */
int region_connection_open(struct region_connection *connection,
                           const char *path);

/* Learns which process listens, by a connection through which nothing can be
 * received and that is closed again. The same result. */
int region_connection_probe(struct region_connection *connection,
                            const char *path);

/* Learns which process listens on the other side of the socket. */
void region_connection_learn_peer(struct region_connection *connection);

/* Waits for HELLO for at most this many milliseconds. 0 when the memory is
 * here and sealed as it must be; -1 with EAGAIN (nothing came yet), ECONNRESET,
 * or EPROTO and a reason. */
int region_connection_hello(struct region_connection *connection, int wait_ms,
                            const char **why);

/* True while the connection has not ended; meaningful after HELLO. */
bool region_connection_is_open(const struct region_connection *connection);

/* True if the producer's process can be seen from here and has ended. */
bool region_connection_lost_process(const struct region_connection *connection);

/* ---------------------------------------------------------------------------
 * What is wrong with a producer
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

/* Sets errno and a reason. Returns -1. */
int region_fail(enum region_offence fault, const char **why);

/* Whether a descriptor is memory with every seal of a region. */
bool region_is_sealed(int fd);

/* Judges what was received in place of HELLO, or with it. status is that of
 * region_message_receive. */
enum region_offence region_judge_hello(int status,
                                       const struct region_message *message,
                                       const struct region_passed *passed);

/* Shuts the socket down for receiving. True if nothing is queued that would
 * have to be received or closed. */
bool region_socket_is_empty(int socket);

/* Takes the memory that came with a faultless HELLO. -1 with a reason if it has
 * no size. */
int region_connection_take_memory(struct region_connection *connection,
                                  struct region_passed *passed,
                                  const char **why);

#endif
