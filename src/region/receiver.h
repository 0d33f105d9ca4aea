/* receiver.h: a process that takes what producers send, in a reader's stead.
 *
 * Who receives a descriptor has to close it, and the close of a file may wait
 * for ever: for a file system that its owner runs and that does not answer
 * (FUSE). No signal ends that, and a process cannot end before. So what came is
 * closed by the end of a process that was made for this one connection; a
 * reader gets from it the memory, if it is memory, and the connection, shut
 * down such that nothing more can come.
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

/* 0, or -1 with errno. The caller's thread waits for nothing but fork(2). */
int region_receiver_start(struct region_receiver **receiver);

/* Ends it; connections that have had their HELLO go on. */
void region_receiver_stop(struct region_receiver *receiver);

/* Hands over a connection that was just opened: region_connection_hello hears
 * of it then. 0, or -1 with a reason, and errno: EBUSY where what the same user
 * sent there before is still to be closed, ETIME if the process is late, EAGAIN
 * if there are too many, ... It has no socket then. */
int region_receiver_take(struct region_receiver *receiver,
                         struct region_connection *connection, const char *path,
                         const char **why);

/* Closes a connection from which nothing is wanted. */
void region_receiver_refuse(struct region_receiver *receiver,
                            struct region_connection *connection);

#endif
