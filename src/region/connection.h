/* connection.h: how a reader comes to a region, and knows that its producer
 * lives. */
#ifndef PERCORE_REGION_CONNECTION_H
#define PERCORE_REGION_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Who receives what the producer sends. */
enum region_receiving {
  REGION_BY_READER,
  REGION_PROBED,      /* nobody: nothing can be sent, from the beginning on */
  REGION_BY_RECEIVER, /* up to HELLO: the socket leads to it; receiver.h */
  REGION_NOTHING_MORE /* since HELLO nothing can be sent */
};

struct region_connection {
  int socket; /* -1 if there is none */
  enum region_receiving receiving;
  int memfd; /* -1 before HELLO */
  int pidfd; /* -1 where the producer's pid cannot be seen */
  pid_t pid; /* as seen from here; 0 if it cannot be seen */
  uid_t uid; /* who made the socket */
  uint64_t size;
  uint32_t requests; /* made so far */
};

void region_connection_init(struct region_connection *connection);

/* Connects to a socket; never blocks. 0, or -1 with errno of connect(2). */
int region_connection_open(struct region_connection *connection,
                           const char *path);

/* The same, to see who listens: nothing can be received, nor be there to be
 * closed. */
int region_connection_probe(struct region_connection *connection,
                            const char *path);

/* Waits for HELLO for at most so many milliseconds. 0 when the descriptor is
 * here and sealed as it must be; -1 with EAGAIN (nothing came yet), ECONNRESET,
 * or EPROTO and a reason. */
int region_connection_hello(struct region_connection *connection, int wait_ms,
                            const char **why);

/* Learns who listens on the other side of the socket. */
void region_connection_learn_peer(struct region_connection *connection);

/* A memfd with all seals that a region has to have. */
bool region_is_sealed(int fd);

/* The memory that came with HELLO, if it is sealed as it must be; or what is
 * wrong with it. */
struct region_passed;
const char *region_connection_take_memory(struct region_connection *connection,
                                          struct region_passed *passed);

/* The producer's process can be seen from here, and has ended. */
bool region_connection_lost_process(const struct region_connection *connection);

/* No end of the connection and, where it can be seen, a living process. */
bool region_connection_is_alive(struct region_connection *connection);

/* Asks the producer to reset; tables as the directory counts them. Waits for
 * the answer. 0, or -1 with errno: EPERM, ETIMEDOUT; ENOTSUP after a
 * receiver; ... */
int region_connection_reset(struct region_connection *connection,
                            uint32_t table, uint32_t row, int wait_ms);

void region_connection_close(struct region_connection *connection);

#endif
