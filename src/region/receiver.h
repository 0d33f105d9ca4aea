/* receiver.h: lets separate processes receive what producers send, so that
 * producers cannot block the reader.
 *
 * Closing a received descriptor can block forever: a FUSE server may never
 * answer FLUSH. No signal ends that wait, and the process cannot exit either.
 * So the reader first finds out which process listens, through a connection
 * that can receive nothing. Then another process, called a reception, connects,
 * receives HELLO, and forwards two descriptors: memory that is a sealed memfd,
 * which is safe to close, and the connection, after shutting down its receiving
 * direction.
 *
 *   reader --- receiver        forked while the reader is small; holds nothing
 *      |          \            that a producer sent
 *      +------- reception      one process for all pending connections
 *
 * A reception never closes a descriptor that it refuses. Instead it shuts its
 * connections down and exits, and no process waits for its exit. Readers that
 * get no answer ask again, which starts a new reception. After a producer was
 * refused, each connection to a producer of the same user gets its own
 * reception, and the number of these receptions is limited.
 *
 * Only one thread at a time may use a receiver.
 */
#ifndef PERCORE_REGION_RECEIVER_H
#define PERCORE_REGION_RECEIVER_H

#include "connection.h"

struct region_receiver;

/* Returns a receiver, or NULL with ENOMEM. Its process is forked by the first
 * function that needs it. waitpid(-1) does not see the process, and its end
 * causes no SIGCHLD. */
struct region_receiver *region_receiver_new(void);

/* Forks the process now. Returns 0, or -1 with errno. */
int region_receiver_start(struct region_receiver *receiver);

/* Ends the process until it is needed again; waits at most 100 ms for it to
 * exit. Connections that have received HELLO are not affected. */
void region_receiver_rest(struct region_receiver *receiver);

void region_receiver_free(struct region_receiver *receiver);

/* Like region_connection_hello, but lets a reception receive. path is the path
 * that was probed. Forks the process if it is not running, for example because
 * it was killed. Can also fail with EBUSY (processes that refused descriptors
 * cannot exit), EUSERS (too many processes), and the errors of connect(2). */
int region_receiver_hello(struct region_receiver *receiver,
                          struct region_connection *connection,
                          const char *path, int wait_ms,
                          struct region_fault *fault);

/* Asks the producer, which must run as the user `uid`, for a reset, and waits
 * for the answer. `table` is an index in the directory. Returns 0, or -1 with
 * errno, such as EPERM or ETIMEDOUT. */
int region_receiver_reset(struct region_receiver *receiver, const char *path,
                          uid_t uid, uint32_t table, uint32_t row, int wait_ms);

#endif
