/* reception.h: the process that connects to producers and awaits HELLO, and the
 * requests to it. Private to receiver.c. */
#ifndef PERCORE_REGION_RECEPTION_H
#define PERCORE_REGION_RECEPTION_H

#include "connection.h"

/* Comes by a stream socket, which queues more requests than others, with a
 * socket on which the reader awaits the answer: HELLO with the memory and the
 * connection, the producer's answer to a reset, or REGION_ERROR with an errno
 * or a fault. */
struct region_request {
  uid_t uid; /* who listens */
  char path[108];
  struct region_message question; /* after HELLO; of no type: none */
};

/* A fault in an answer, above every errno. */
enum { REGION_FIRST_OFFENCE = 4096 };

void region_answer_error(int reader, int error);

static inline void region_answer_offence(int reader,
                                         enum region_offence fault) {
  region_answer_error(reader, REGION_FIRST_OFFENCE + (int)fault);
}

/* Descriptors that a reception may need. */
enum {
  REGION_MAX_PENDING = 256,
  REGION_RECEPTION_FDS = 2 * REGION_MAX_PENDING + REGION_MOST_PASSED + 16
};

/* Serves requests from the socket until the socket ends and no connection is
 * pending, or until something has to be refused. The refused request is sent
 * back. */
_Noreturn void region_reception_run(int socket);

#endif
