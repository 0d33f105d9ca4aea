#include "percore_config.h"

#include "reception.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

/* How long to wait before connecting again to a producer whose queue of
 * connections is full. */
enum { AGAIN_MS = 100 };

void region_answer_error(int reader, int error) {
  struct region_message message = {.type = REGION_ERROR,
                                   .argument = (uint64_t)error};
  region_message_send(reader, &message, NULL, 0);
}

struct pending {
  struct region_request request;
  int reader;
  int producer; /* connection to the producer; -1 while its queue is full */
  bool asked;   /* the question has been sent */
};

struct reception {
  int requests; /* socket of requests; -1 after its end */
  int len;
  struct pending pending[REGION_MAX_PENDING];
};

/* Ends all connections first, because this process may never exit. */
static _Noreturn void leave(struct reception *reception) {
  region_close_fd(&reception->requests);
  for (int i = 0; i < reception->len; i++) {
    region_close_fd(&reception->pending[i].reader);
    if (reception->pending[i].producer >= 0)
      shutdown(reception->pending[i].producer, SHUT_RDWR);
  }
  if (chdir("/") != 0) /* its working directory could prevent an unmount */
    _exit(1);
  _exit(0);
}

/* Sends the request back to the receiver before it answers the reader, because
 * the reader may ask again immediately. Ends this process. */
static _Noreturn void refuse(struct reception *reception, struct pending *one,
                             enum region_offence offence) {
  region_packet_send(reception->requests, &one->request, sizeof(one->request),
                     NULL, 0);
  region_answer_offence(one->reader, offence);
  leave(reception);
}

static void drop(struct reception *reception, struct pending *one) {
  if (one->producer >= 0 && !region_socket_is_empty(one->producer))
    refuse(reception, one, REGION_SENDS_MORE);
  region_close_fd(&one->producer);
  region_close_fd(&one->reader);
  *one = reception->pending[--reception->len];
}

static void drop_with(struct reception *reception, struct pending *one,
                      int error) {
  region_answer_error(one->reader, error);
  drop(reception, one);
}

/* Connects to the producer. If its queue is full (EAGAIN), changes nothing, so
 * that the main loop tries again. */
static void try_connect(struct reception *reception, struct pending *one) {
  struct region_connection connection;
  if (region_connection_open(&connection, one->request.path) != 0) {
    if (errno != EAGAIN)
      drop_with(reception, one, errno);
    return;
  }
  region_close_fd(&connection.pidfd);
  one->producer = connection.socket;
  if (connection.uid == one->request.uid)
    return;
  one->request.uid = connection.uid; /* another user may listen there by now */
  drop_with(reception, one, ECONNRESET);
}

static void add(struct reception *reception,
                const struct region_request *request, int reader) {
  if (reception->len == REGION_MAX_PENDING) {
    region_answer_offence(reader, REGION_TOO_MANY);
    close(reader);
    return;
  }
  struct pending *one = &reception->pending[reception->len++];
  *one =
      (struct pending){.request = *request, .reader = reader, .producer = -1};
  try_connect(reception, one);
}

/* Sends a pending question to the producer. Without a question, forwards the
 * memory and the connection to the reader. HELLO is valid, so closing its
 * memory cannot block.
 */
static void take_hello(struct reception *reception, struct pending *one,
                       struct region_message *hello, int memory) {
  struct region_message *question = &one->request.question;
  int fds[] = {memory, one->producer};
  if (question->type != 0) {
    one->asked = region_message_send(one->producer, question, NULL, 0);
    close(memory);
    if (!one->asked)
      drop_with(reception, one, errno);
    return;
  }
  if (!region_socket_is_empty(one->producer))
    refuse(reception, one, REGION_SENDS_MORE);
  if (!region_message_send(one->reader, hello, fds, 2))
    region_answer_error(one->reader, errno);
  close(memory);
  drop(reception, one);
}

/* Forwards an answer to the reader. Ignores answers to other requests. */
static void take_answer(struct reception *reception, struct pending *one,
                        struct region_message *answer) {
  if (answer->request != one->request.question.request)
    return;
  if (answer->type == one->request.question.type)
    region_message_send(one->reader, answer, NULL, 0);
  else
    region_answer_error(one->reader,
                        answer->argument > 0 &&
                                answer->argument < REGION_FIRST_OFFENCE
                            ? (int)answer->argument
                            : EPROTO);
  drop(reception, one);
}

static void receive(struct reception *reception, struct pending *one) {
  struct region_message message;
  struct region_passed passed;
  int status = region_message_receive(one->producer, &message, &passed);
  int error = errno;
  if (status != 0 && (error == EAGAIN || error == EINTR))
    return;
  if (status == 0 && one->asked && passed.count == 0) {
    take_answer(reception, one, &message);
    return;
  }
  enum region_offence offence =
      one->asked ? REGION_SENDS_MORE
                 : region_check_hello(status, &message, &passed);
  if (offence == REGION_NO_OFFENCE)
    take_hello(reception, one, &message, passed.fds[0]);
  else if (passed.count > 0)
    refuse(reception, one, offence);
  else if (status != 0 && error != EPROTO)
    drop_with(reception, one, error);
  else
    drop_with(reception, one, REGION_FIRST_OFFENCE + (int)offence);
}

static void take_request(struct reception *reception) {
  struct region_request request;
  struct region_passed passed;
  ssize_t size = region_packet_receive(reception->requests, &request,
                                       sizeof(request), &passed);
  if (size == sizeof(request) && passed.count == 1)
    add(reception, &request, passed.fds[0]);
  else if (size >= 0 || (errno != EAGAIN && errno != EINTR))
    region_close_fd(&reception->requests);
}

static void await(struct reception *reception, struct pollfd *ends) {
  int wait_ms = -1;
  ends[0] = (struct pollfd){.fd = reception->requests, .events = POLLIN};
  for (int i = 0; i < reception->len; i++) {
    const struct pending *one = &reception->pending[i];
    ends[1 + 2 * i] = (struct pollfd){.fd = one->reader};
    ends[2 + 2 * i] = (struct pollfd){.fd = one->producer, .events = POLLIN};
    if (one->producer < 0)
      wait_ms = AGAIN_MS;
  }
  while (poll(ends, 1 + 2 * (nfds_t)reception->len, wait_ms) < 0)
    ;
}

/* Iterates over `pending` backwards, because dropping an element moves the last
 * element to its place. */
_Noreturn void region_reception_run(int socket) {
  static struct reception reception;
  struct pollfd ends[1 + 2 * REGION_MAX_PENDING];
  reception.requests = socket;
  while (reception.requests >= 0 || reception.len > 0) {
    await(&reception, ends);
    for (int i = reception.len; i-- > 0;) {
      struct pending *one = &reception.pending[i];
      if (ends[2 + 2 * i].revents != 0)
        receive(&reception, one);
      else if (ends[1 + 2 * i].revents != 0)
        drop(&reception, one);
      else if (one->producer < 0)
        try_connect(&reception, one);
    }
    if (ends[0].revents != 0)
      take_request(&reception);
  }
  _exit(0);
}
