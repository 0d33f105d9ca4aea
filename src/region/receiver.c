#include "percore_config.h"

#include "receiver.h"

#include "message.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Between fork and end no lock may be taken that another thread could have had
 * at the fork; fork(3) takes those of malloc. */
#ifdef HAVE__FORK
#define FORK _Fork
#else
#define FORK fork
#endif

enum {
  MAX_RECEPTIONS = 1024,
  MAX_OF_USER = 256,
  MAX_OF_SOCKET = 2, /* one may still be about to end */
  MAX_FD = 65536,
  AGAIN_MS = 100,
  END_MS = 100
};

/* For the receiver, with the socket to the reader. */
struct request {
  uid_t uid; /* who listens */
  char path[108];
};

/* A process for one connection. */
struct reception {
  pid_t pid; /* 0: none */
  struct request request;
};

struct region_receiver {
  pid_t pid;   /* 0: none */
  int pidfd;   /* -1 before Linux 5.3 */
  int control; /* to the receiver */
};

/* What the processes tell the reader by REGION_ERROR: an errno of connect(2),
 * or one of these behind all of them. */
enum { FIRST_FAULT = 4096 };
enum fault {
  NO_MESSAGE,
  NO_HELLO,
  MORE_THAN_HELLO,
  NO_MEMORY,
  NOT_SEALED,
  BUSY,
  MANY
};
static const struct {
  int error;
  const char *why;
} faults[] = {
    [NO_MESSAGE] = {EPROTO, "its producer sends what is no message"},
    [NO_HELLO] = {EPROTO, "its producer does not say hello"},
    [MORE_THAN_HELLO] = {EPROTO, "its producer sends more than hello"},
    [NO_MEMORY] = {EPROTO, "it came without memory"},
    [NOT_SEALED] = {EPROTO, "its memory is not sealed, or is none"},
    [BUSY] = {EBUSY, "what it sent before is held up, perhaps by a file system "
                     "that does not answer"},
    [MANY] = {EUSERS, "too many processes wait for producers, or none can be "
                      "made"},
};

static void tell(int reader, uint64_t what) {
  struct region_message message = {.type = REGION_ERROR, .argument = what};
  region_message_send(reader, &message, NULL, 0);
}

static void tell_fault(int reader, enum fault fault) {
  tell(reader, FIRST_FAULT + (uint64_t)fault);
}

/* ---------------------------------------------------------------------------
 * The process of one connection. It closes nothing that came: its end does.
 */

/* Until a message is there. False if the reader no longer waits for it. */
static bool await_message(int producer, int reader) {
  struct pollfd ends[] = {{.fd = producer, .events = POLLIN},
                          {.fd = reader, .events = POLLIN}};
  while (poll(ends, 2, -1) < 0)
    if (errno != EINTR)
      return false;
  return ends[1].revents == 0;
}

/* Shuts the connection down for receiving. Whether nothing is there that would
 * still have to be closed: an empty message looks like the end, but says who
 * sent it, for which there is no room. */
static bool is_empty(int producer) {
  static const int on = 1;
  struct msghdr header = {0};
  return setsockopt(producer, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0 &&
         shutdown(producer, SHUT_RD) == 0 &&
         recvmsg(producer, &header, MSG_DONTWAIT | MSG_PEEK) == 0 &&
         (header.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) == 0;
}

static void pass_on(int producer, int reader) {
  struct region_message message;
  struct region_passed passed;
  int status = region_message_receive(producer, &message, &passed);
  if (status != 0 && errno == ECONNRESET)
    return;
  int fds[] = {passed.count > 0 ? passed.fds[0] : -1, producer};
  if (status != 0)
    tell_fault(reader, NO_MESSAGE);
  else if (message.type != REGION_HELLO)
    tell_fault(reader, NO_HELLO);
  else if (!is_empty(producer))
    tell_fault(reader, MORE_THAN_HELLO);
  else if (passed.count == 0)
    tell_fault(reader, NO_MEMORY);
  else if (!region_is_sealed(fds[0]))
    tell_fault(reader, NOT_SEALED);
  else
    region_message_send(reader, &message, fds, 2);
}

/* Where its queue is full, the producer has only to accept. */
static int connect_to(struct region_connection *connection, const char *path,
                      int reader) {
  struct pollfd end = {.fd = reader, .events = POLLIN};
  int status;
  do
    status = region_connection_open(connection, path);
  while (status != 0 && errno == EAGAIN && poll(&end, 1, AGAIN_MS) == 0);
  return status;
}

static _Noreturn void receive(const struct request *request, int reader) {
  struct region_connection connection;
  /* A process that is held up is to hold up nothing else. */
  if (request->path[0] == '/' && chdir("/") != 0)
    _exit(1);
  if (connect_to(&connection, request->path, reader) != 0)
    tell(reader, (uint64_t)errno);
  else if (connection.uid != request->uid)
    tell(reader, ECONNRESET); /* another listens there by now */
  else if (await_message(connection.socket, reader))
    pass_on(connection.socket, reader);
  _exit(0);
}

/* ---------------------------------------------------------------------------
 * The receiver
 */

static void reap(struct reception *receptions) {
  pid_t pid;
  while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
    for (int i = 0; i < MAX_RECEPTIONS; i++)
      if (receptions[i].pid == pid)
        receptions[i].pid = 0;
}

/* Where to note another one. NULL and a fault if there are too many: one user's
 * must leave as much room again for the others'. */
static struct reception *find_place(struct reception *receptions,
                                    const struct request *request,
                                    enum fault *fault) {
  struct reception *place = NULL;
  int none = 0, of_user = 0, of_socket = 0;
  for (int i = 0; i < MAX_RECEPTIONS; i++) {
    struct reception *one = &receptions[i];
    if (one->pid == 0) {
      place = one;
      none++;
    } else if (one->request.uid == request->uid) {
      of_user++;
      of_socket += strcmp(one->request.path, request->path) == 0;
    }
  }
  *fault = of_socket < MAX_OF_SOCKET ? MANY : BUSY;
  return of_socket < MAX_OF_SOCKET && of_user < MAX_OF_USER && of_user < none
             ? place
             : NULL;
}

static void begin(struct reception *receptions, const struct request *request,
                  int control, int reader) {
  enum fault fault;
  struct reception *place = find_place(receptions, request, &fault);
  if (place == NULL) {
    tell_fault(reader, fault);
    return;
  }
  pid_t pid = FORK();
  if (pid == 0) {
    close(control);
    receive(request, reader);
  }
  if (pid < 0)
    tell_fault(reader, MANY);
  else
    *place = (struct reception){.pid = pid, .request = *request};
}

static void serve_one(struct reception *receptions, int control) {
  struct request request;
  struct region_passed passed;
  ssize_t size =
      region_packet_receive(control, &request, sizeof(request), &passed);
  if (size < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (size != sizeof(request))
    _exit(0); /* the reader has ended */
  if (passed.count > 0)
    begin(receptions, &request, control, passed.fds[0]);
  region_passed_close(&passed);
}

static void note_signal(int signal) { (void)signal; }

/* Nothing of the host's: no port, pipe or lock may wait for the end of a
 * process that is held up. Returns the descriptor's new number. */
static int keep_only(int fd) {
  if (fd != 0 && dup2(fd, 0) < 0)
    return -1;
#ifdef SYS_close_range
  if (syscall(SYS_close_range, 1u, ~0u, 0u) == 0)
    return 0;
#endif
  for (int i = 1; i < MAX_FD; i++)
    close(i);
  return 0;
}

static _Noreturn void serve(int control) {
  static struct reception receptions[MAX_RECEPTIONS];
  struct sigaction action = {.sa_handler = note_signal};
  sigset_t but_children;
  sigaction(SIGCHLD, &action, NULL);
  sigfillset(&but_children);
  sigdelset(&but_children, SIGCHLD);
  control = keep_only(control);
  if (control < 0)
    _exit(1);
  /* Messages of libc are lost rather than sent to somebody's socket. */
  (void)open("/dev/null", O_RDWR | O_CLOEXEC);
  (void)open("/dev/null", O_RDWR | O_CLOEXEC);
  prctl(PR_SET_NAME, "percore-receive");
  for (;;) {
    struct pollfd ready = {.fd = control, .events = POLLIN};
    (void)ppoll(&ready, 1, NULL, &but_children);
    reap(receptions);
    serve_one(receptions, control);
  }
}

/* ---------------------------------------------------------------------------
 * The reader's side
 */

static int fork_receiver(struct region_receiver *receiver) {
  int ends[2];
  sigset_t all, before;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return -1;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t pid = FORK();
  if (pid == 0) {
    close(ends[0]);
    serve(ends[1]);
  }
  int saved = errno;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  close(ends[1]);
  errno = saved;
  if (pid < 0) {
    region_close_fd(&ends[0]);
    return -1;
  }
  receiver->pid = pid;
  receiver->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  receiver->control = ends[0];
  return 0;
}

/* Where nobody asks how a process ended (SIGCHLD is ignored, as in collectd),
 * its pid is soon another's, but not what pidfd says. */
static void end_receiver(struct region_receiver *receiver) {
  struct pollfd end = {.fd = receiver->pidfd, .events = POLLIN};
  if (receiver->pid == 0)
    return;
  region_close_fd(&receiver->control); /* ends it */
  if (receiver->pidfd >= 0 && poll(&end, 1, END_MS) == 0)
    (void)syscall(SYS_pidfd_send_signal, receiver->pidfd, SIGKILL, NULL, 0);
  (void)waitpid(receiver->pid, NULL, receiver->pidfd >= 0 ? WNOHANG : 0);
  region_close_fd(&receiver->pidfd);
  receiver->pid = 0;
}

int region_receiver_start(struct region_receiver **started) {
  struct region_receiver *receiver = calloc(1, sizeof(*receiver));
  *started = NULL;
  if (receiver == NULL)
    return -1;
  if (fork_receiver(receiver) != 0) {
    free(receiver);
    return -1;
  }
  *started = receiver;
  return 0;
}

void region_receiver_stop(struct region_receiver *receiver) {
  if (receiver == NULL)
    return;
  end_receiver(receiver);
  free(receiver);
}

static bool send_request(const struct region_receiver *receiver,
                         const struct request *request, int fd) {
  return region_packet_send(receiver->control, request, sizeof(*request), &fd,
                            1);
}

/* -1 with errno and a reason. */
static int fail(uint64_t told, const char **why) {
  size_t fault = told - FIRST_FAULT;
  *why = NULL;
  errno = (int)told;
  if (told >= FIRST_FAULT && fault < sizeof(faults) / sizeof(faults[0])) {
    errno = faults[fault].error;
    *why = faults[fault].why;
  }
  return -1;
}

/* One that was killed is made anew. */
static int hand_over(struct region_receiver *receiver,
                     const struct request *request, int fd, const char **why) {
  if (receiver->pid != 0) {
    if (send_request(receiver, request, fd))
      return 0;
    if (errno != EPIPE && errno != ECONNRESET)
      return -1;
    end_receiver(receiver);
  }
  if (fork_receiver(receiver) != 0)
    return fail(FIRST_FAULT + MANY, why);
  return send_request(receiver, request, fd) ? 0 : -1;
}

int region_receiver_ask(struct region_receiver *receiver,
                        struct region_connection *connection, const char *path,
                        const char **why) {
  int ends[2];
  struct request request = {.uid = connection->uid};
  *why = NULL;
  memcpy(request.path, path, strnlen(path, sizeof(request.path) - 1));
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return -1;
  int status = hand_over(receiver, &request, ends[1], why);
  region_close_fd(&ends[1]);
  if (status != 0) {
    region_close_fd(&ends[0]);
    return -1;
  }
  region_close_fd(&connection->socket);
  connection->socket = ends[0];
  connection->receiving = REGION_BY_RECEIVER;
  return 0;
}

/* What came by HELLO: memory, and the connection, whose producer may have come
 * after the one that was looked at. */
static int conclude(struct region_connection *connection,
                    const struct region_message *message,
                    struct region_passed *passed, const char **why) {
  if (message->type != REGION_HELLO)
    return fail(message->argument, why);
  errno = EMFILE;
  if (passed->count != 2)
    return -1;
  errno = EPROTO;
  *why = region_connection_take_memory(connection, passed);
  if (*why != NULL)
    return -1;
  region_close_fd(&connection->socket);
  connection->socket = region_passed_take(passed, 1);
  connection->receiving = REGION_NOTHING_MORE;
  region_connection_learn_peer(connection);
  return 0;
}

int region_receiver_hello(struct region_connection *connection, int wait_ms,
                          const char **why) {
  struct region_message message;
  struct region_passed passed;
  *why = NULL;
  int status = region_message_await(
      connection->socket, region_now_ms() + wait_ms, &message, &passed);
  if (status == 0)
    status = conclude(connection, &message, &passed, why);
  else if (errno == EAGAIN && region_connection_lost_process(connection))
    errno = ECONNRESET;
  region_passed_close(&passed);
  return status;
}
