/* receiver.h: processes that take what producers send, in a reader's stead.
 *
 * Who receives a descriptor has to close it, and the close of a file may wait
 * for ever: for a file system that its owner runs and that does not answer
 * (FUSE). No signal ends that, and a process cannot end before. So a reader
 * only looks who listens, by a connection through which nothing can come, and a
 * process that is made for it connects and receives HELLO. It hands on the
 * memory, if it is memory, and the connection, after which nothing can come
 * either. What else there was is closed by its end, for which nobody waits.
 *
 *   reader --- receiver        forked at start, while the reader is small
 *      |          \
 *      +------- one process for each connection, up to HELLO
 *
 * One thread at a time.
 */
#ifndef PERCORE_REGION_RECEIVER_H
#define PERCORE_REGION_RECEIVER_H

#include "connection.h"

struct region_receiver;

/* 0, or -1 with errno. Never waits, but for fork(2). */
int region_receiver_start(struct region_receiver **receiver);

/* Ends it; waits for that, but for 100 ms at most. Connections that have had
 * their HELLO go on. */
void region_receiver_stop(struct region_receiver *receiver);

/* Has a process connect where the connection was probed; the socket leads to it
 * then. Never waits, but for fork(2) where the receiver was killed. 0, or -1
 * with a reason and errno: EAGAIN if it has no time just now, EUSERS if it
 * cannot be made, ... */
int region_receiver_ask(struct region_receiver *receiver,
                        struct region_connection *connection, const char *path,
                        const char **why);

/* As region_connection_hello; errno also EBUSY where two processes hold what
 * the same user sent through that socket before, EUSERS if there are too many
 * processes, those of connect(2). */
int region_receiver_hello(struct region_connection *connection, int wait_ms,
                          const char **why);

#endif
