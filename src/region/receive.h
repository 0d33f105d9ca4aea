/* receive.h: receives what a producer sends, so that no producer can block the
 * process that uses this library.
 *
 * Closing a received descriptor can block forever: a FUSE server may never
 * answer FLUSH. No signal ends that wait, and the process cannot exit either.
 * So a child receives, which shares this process's memory but not its
 * descriptors: it hands on memory that is a sealed memfd, which is safe to
 * close, and exits. A descriptor that cannot be closed holds up the child
 * alone, after it has let go of the memory. This process waits until then,
 * about 0.2 ms, and receives no descriptor itself from any producer. A
 * descriptor that is still in the queue of a socket that this process closes is
 * not flushed.
 *
 * At most 16 children are held up at once. While a child is held up, nothing
 * more is received from the user whose socket it received from. */
#ifndef PERCORE_REGION_RECEIVE_H
#define PERCORE_REGION_RECEIVE_H

#include "connection.h"

/* True if a child may receive from this user's socket. Otherwise, sets *fault
 * to EBUSY and names the process to end. Thread-safe. */
bool region_receive_may(uid_t owner, struct region_fault *fault);

/* Receives HELLO, which must be in the connection's queue, if a child may. From
 * then on, nothing more can arrive. Returns 0, or -1 and sets *fault: EBUSY, if
 * what was received holds up the child. Thread-safe. */
int region_receive_hello(struct region_connection *connection,
                         struct region_fault *fault);

#endif
