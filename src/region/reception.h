/* reception.h: the process that connects to producers and waits for HELLO, and
 * the requests to it. Private to receiver.c. */
#ifndef PERCORE_REGION_RECEPTION_H
#define PERCORE_REGION_RECEPTION_H

#include "connection.h"

/* Sent over a stream socket, whose queue holds more requests than other
 * sockets' queues, with a socket for the answer. The answer is HELLO with the
 * memory and the connection, the producer's answer to a reset, or REGION_ERROR
 * with an errno or an offence. */
struct region_request {
  uid_t uid; /* who listens */
  char path[108];
  struct region_message question; /* to ask after HELLO; type 0: none */
};

/* Offences in answers have numbers above every errno. */
enum { REGION_FIRST_OFFENCE = 4096 };

void region_answer_error(int reader, int error);

static inline void region_answer_offence(int reader,
                                         enum region_offence offence) {
  region_answer_error(reader, REGION_FIRST_OFFENCE + (int)offence);
}

/* The most descriptors that a reception may need. */
enum {
  REGION_MAX_PENDING = 256,
  REGION_RECEPTION_FDS = 2 * REGION_MAX_PENDING + REGION_MAX_PASSED + 16
};

/* Serves requests from the socket until the socket has ended and no connection
 * is pending, or until it has to refuse something. Then it sends the refused
 * request back. */
_Noreturn void region_reception_run(int socket);

#endif
