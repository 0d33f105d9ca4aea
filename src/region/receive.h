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
 * not flushed. */
#ifndef PERCORE_REGION_RECEIVE_H
#define PERCORE_REGION_RECEIVE_H

#include "connection.h"

/* Closes all descriptors but two, because a process that can never exit must
 * not keep a port, pipe, lock or connection of its parent open. */
void region_keep_only(int one, int two);

/* True if a child is still held up. Until it has ended, none is started for the
 * same reader. *child is its pid; 0: none. */
bool region_receive_is_held_up(pid_t *child);

/* Receives HELLO, which must be in the connection's queue. From then on,
 * nothing more can arrive. No child may be held up. Returns 0, or -1 and sets
 * *fault.
 */
int region_receive_hello(struct region_connection *connection, pid_t *child,
                         struct region_fault *fault);

#endif
