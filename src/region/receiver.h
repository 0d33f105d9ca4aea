/* receiver.h: processes that receive what producers send, so that a reader need
 * not.
 *
 * Closing a received descriptor can block forever: a FUSE server may never
 * answer FLUSH, no signal ends that wait, and the process cannot exit either.
 * So a reader learns which process listens by a connection through which
 * nothing can be received. A reception then connects, receives HELLO, and
 * forwards two descriptors: memory that is a sealed memfd, which is safe to
 * close, and the connection, through which nothing more can be received.
 *
 *   reader --- receiver        forked while the reader is small; holds nothing
 *      |          \            that a producer sent
 *      +------- reception      one process for all pending connections
 *
 * A reception never closes a descriptor that it refuses. It shuts its
 * connections down and exits; nobody waits for that. The readers that it leaves
 * without an answer ask again, which makes a new one. A user whose producer was
 * refused has a reception for each connection from then on, and few of them.
 *
 * One thread at a time.
 */
#ifndef PERCORE_REGION_RECEIVER_H
#define PERCORE_REGION_RECEIVER_H

#include "connection.h"

struct region_receiver;

/* NULL if out of memory. The process is forked by the first of the functions
 * that need it; the reader's children are not visible to waitpid(-1), and no
 * SIGCHLD comes of them. */
struct region_receiver *region_receiver_new(void);

/* Forks now. 0, or -1 with errno. */
int region_receiver_start(struct region_receiver *receiver);

/* Ends the process until it is needed again; waits for that for at most 100 ms.
 * Connections that have had their HELLO go on. */
void region_receiver_rest(struct region_receiver *receiver);

void region_receiver_free(struct region_receiver *receiver);

/* As region_connection_hello, by a reception; path is that of the probe. It
 * blocks in fork(2) only if a receiver was killed. errno also EBUSY or EUSERS
 * (processes hold what the same user sent, or there are too many of them), and
 * those of connect(2). */
int region_receiver_hello(struct region_receiver *receiver,
                          struct region_connection *connection,
                          const char *path, int wait_ms, const char **why);

/* Has a reception ask the producer, who listens as that user, to reset; tables
 * as the directory counts them. Waits for the answer. 0, or -1 with errno:
 * EPERM, ETIMEDOUT, ... */
int region_receiver_reset(struct region_receiver *receiver, const char *path,
                          uid_t uid, uint32_t table, uint32_t row, int wait_ms);

#endif
