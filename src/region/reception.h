/* reception.h: the process that connects to producers and waits for HELLO, and
 * the requests sent to it. Private to receiver.c. */
#ifndef PERCORE_REGION_RECEPTION_H
#define PERCORE_REGION_RECEPTION_H

#include "connection.h"

/* A request is sent over a stream socket, because the queues of other sockets
 * hold fewer requests. A socket for the answer is passed with the request. The
 * answer is HELLO with the memory and the connection, or the producer's answer
 * to a reset, or REGION_ERROR with an errno or an offence. */
struct region_request {
  uid_t uid; /* user of the listening process */
  char path[108];
  /* The question to send after HELLO; type 0 means no question. */
  struct region_message question;
};

/* Offences in answers have numbers above every errno. */
enum { REGION_FIRST_OFFENCE = 4096 };

void region_answer_error(int reader, int error);

static inline void region_answer_offence(int reader,
                                         enum region_offence offence) {
  region_answer_error(reader, REGION_FIRST_OFFENCE + (int)offence);
}

/* The largest number of descriptors that a reception may need. */
enum {
  REGION_MAX_PENDING = 256,
  REGION_RECEPTION_FDS = 2 * REGION_MAX_PENDING + REGION_MAX_PASSED + 16
};

/* Handles requests from the socket until the socket has ended and no connection
 * is pending. If something must be refused, sends the request back and exits.
 */
_Noreturn void region_reception_run(int socket);

#endif
