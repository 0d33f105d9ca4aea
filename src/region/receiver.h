/* receiver.h: processes that receive what producers send, so that the reader
 * does not have to.
 *
 * Closing a received descriptor can block forever: a FUSE server may never
 * answer FLUSH. No signal ends that wait, and the process cannot exit either.
 * So the reader first learns which process listens, by a connection that can
 * receive nothing. Then a reception connects, receives HELLO, and forwards two
 * descriptors: memory that is a sealed memfd, which is safe to close, and the
 * connection, after shutting down its receiving direction.
 *
 *   reader --- receiver        forked while the reader is small; holds nothing
 *      |          \            that a producer sent
 *      +------- reception      one process for all pending connections
 *
 * A reception never closes a descriptor that it refuses. It shuts its
 * connections down and exits, and nobody waits for that. Readers that get no
 * answer from it ask again, and a new reception starts. From then on, each
 * connection of the user whose producer was refused gets a reception of its
 * own, and the number of these is limited.
 *
 * One thread at a time.
 */
#ifndef PERCORE_REGION_RECEIVER_H
#define PERCORE_REGION_RECEIVER_H

#include "connection.h"

struct region_receiver;

/* NULL with ENOMEM. The first function that needs the process forks it.
 * waitpid(-1) does not see the process, and it causes no SIGCHLD. */
struct region_receiver *region_receiver_new(void);

/* Forks now. 0, or -1 with errno. */
int region_receiver_start(struct region_receiver *receiver);

/* Ends the process until it is needed again; waits at most 100 ms for it to
 * exit. Connections that have had their HELLO go on. */
void region_receiver_rest(struct region_receiver *receiver);

void region_receiver_free(struct region_receiver *receiver);

/* Like region_connection_hello, but a reception receives; path is that of the
 * probe. Blocks in fork(2) only if somebody killed the process. Further errors
 * are EBUSY and EUSERS (too many processes wait, or one of them cannot exit)
 * and those of connect(2). */
int region_receiver_hello(struct region_receiver *receiver,
                          struct region_connection *connection,
                          const char *path, int wait_ms,
                          struct region_fault *fault);

/* Asks the producer, which must run as that user, for a reset, and waits for
 * the answer. Tables by the directory's numbers. 0, or -1 with errno: EPERM,
 * ETIMEDOUT, ... */
int region_receiver_reset(struct region_receiver *receiver, const char *path,
                          uid_t uid, uint32_t table, uint32_t row, int wait_ms);

#endif
