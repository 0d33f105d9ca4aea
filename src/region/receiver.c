#include "percore_config.h"

#include "receiver.h"

#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Between fork and end no lock may be taken that another thread could have had
 * at the fork; fork(3) takes those of malloc. */
#ifdef HAVE__FORK
#define FORK _Fork
#else
#define FORK fork
#endif

enum {
  MAX_RECEPTIONS = 1024,
  MAX_OF_USER = 256, /* one user's must leave room for the others' */
  MAX_OF_SOCKET = 2, /* one may still be about to end */
  ANSWER_MS = 1000
};

/* A process for one connection. */
struct reception {
  pid_t pid; /* 0: none */
  uid_t uid;
  char path[108];
};

struct region_receiver {
  pid_t pid;
  int control;     /* -1: it has ended */
  uint32_t number; /* of the last request */
  bool late;       /* the last one is still to be answered */
  struct reception receptions[MAX_RECEPTIONS]; /* the process's own */
};

/* With the connection's socket. */
struct request {
  uint32_t number;
  bool wanted; /* false: it is to be closed */
  uid_t uid;
  char path[108];
};

/* With a socket to the process of the connection, if there is one: that begins
 * when told so, and ends when the socket does. */
struct answer {
  uint32_t number;
  int error;
};

/* ---------------------------------------------------------------------------
 * Between the processes
 */

/* With at most one descriptor. */
static bool send_one(int socket, const void *bytes, size_t size, int fd) {
  struct iovec part = {.iov_base = (void *)bytes, .iov_len = size};
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control = {0};
  struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
  if (fd >= 0) {
    header.msg_control = &control;
    header.msg_controllen = sizeof(control);
    control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                      .cmsg_type = SCM_RIGHTS,
                                      .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(&control.header), &fd, sizeof(int));
  }
  return sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

/* The size of a message and its descriptor (-1: none). -1 with errno; 0: the
 * other side has ended. */
static ssize_t receive_one(int socket, void *bytes, size_t size, int *fd) {
  struct iovec part = {.iov_base = bytes, .iov_len = size};
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  struct msghdr header = {.msg_iov = &part,
                          .msg_iovlen = 1,
                          .msg_control = &control,
                          .msg_controllen = sizeof(control)};
  ssize_t got = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  *fd = -1;
  if (got > 0 && CMSG_FIRSTHDR(&header) != NULL)
    memcpy(fd, CMSG_DATA(&control.header), sizeof(int));
  return got;
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

static void pass_on(int producer, int reader) {
  struct region_message message;
  struct region_passed passed;
  char more;
  int got = region_message_receive(producer, &message, &passed);
  if (got != 0 && errno != EPROTO)
    return;
  int fds[] = {passed.count > 0 ? passed.fds[0] : -1, producer};
  bool is_memory = fcntl(fds[0], F_GET_SEALS) >= 0;
  if (shutdown(producer, SHUT_RD) != 0)
    return;
  if (got == 0 && recv(producer, &more, 1, MSG_DONTWAIT | MSG_PEEK) == 0)
    region_message_send(reader, &message, fds, is_memory ? 2 : 0);
  else
    (void)send(reader, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT); /* no message */
}

static _Noreturn void receive(int producer, int reader) {
  char begin;
  /* Nobody else has the connection any more, or this would not be its last
   * close. */
  if (recv(reader, &begin, 1, 0) == 1 && await_message(producer, reader))
    pass_on(producer, reader);
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

/* Where to note another one. NULL with errno EBUSY, or EAGAIN if there are too
 * many. */
static struct reception *find_place(struct reception *receptions,
                                    const struct request *request) {
  struct reception *place = NULL;
  int of_user = 0, of_socket = 0;
  for (int i = 0; i < MAX_RECEPTIONS; i++) {
    struct reception *one = &receptions[i];
    if (one->pid == 0) {
      place = place != NULL ? place : one;
      continue;
    }
    if (one->uid != request->uid)
      continue;
    of_user++;
    of_socket += strcmp(one->path, request->path) == 0;
  }
  errno = of_socket < MAX_OF_SOCKET ? EAGAIN : EBUSY;
  return !request->wanted ||
                 (of_user < MAX_OF_USER && of_socket < MAX_OF_SOCKET)
             ? place
             : NULL;
}

/* Makes a process for the connection; where it is not to receive, to close it,
 * which may take a while. 0 or an errno, and the reader's end if there is one.
 */
static int begin(struct reception *receptions, const struct request *request,
                 int control, int producer, int *reader) {
  int ends[2], refused = 0;
  struct request asked = *request;
  struct reception *place = find_place(receptions, &asked);
  if (place == NULL) {
    refused = errno;
    asked.wanted = false;
    place = find_place(receptions, &asked);
  }
  if (place == NULL)
    return refused;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return errno;
  pid_t pid = FORK();
  if (pid == 0) {
    close(control);
    close(ends[0]);
    receive(producer, ends[1]);
  }
  if (pid < 0)
    refused = errno;
  *place = (struct reception){.pid = pid > 0 ? pid : 0, .uid = asked.uid};
  memcpy(place->path, asked.path, sizeof(place->path));
  close(ends[1]);
  *reader = ends[0];
  return refused;
}

static void serve_one(struct reception *receptions, int control) {
  struct request request;
  int producer, reader = -1;
  ssize_t size = receive_one(control, &request, sizeof(request), &producer);
  if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR))
    _exit(0); /* the reader has ended */
  if (size != sizeof(request) || producer < 0)
    return;
  struct answer answer = {.number = request.number};
  answer.error = begin(receptions, &request, control, producer, &reader);
  close(producer);
  send_one(control, &answer, sizeof(answer), reader);
  region_close_fd(&reader);
}

static void note_signal(int signal) { (void)signal; }

/* Only what the receiver needs; what is waited for at the end of a process is
 * to hold no port, pipe or lock of its host's. */
static int keep_only(int fd) {
  if (dup3(fd, 0, O_CLOEXEC) < 0 && fd != 0)
    return -1;
#ifdef SYS_close_range
  if (syscall(SYS_close_range, 1u, ~0u, 0u) == 0)
    return 0;
#endif
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
    for (rlim_t i = 1; i < limit.rlim_cur; i++)
      close((int)i);
  return 0;
}

static _Noreturn void serve(struct reception *receptions, int control) {
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

static int fork_it(struct region_receiver *receiver) {
  int ends[2];
  sigset_t all, before;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return -1;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t pid = FORK();
  if (pid == 0)
    serve(receiver->receptions, ends[1]);
  int saved = errno;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    errno = saved;
    return -1;
  }
  receiver->pid = pid;
  receiver->control = ends[0];
  return 0;
}

static void end_it(struct region_receiver *receiver) {
  if (receiver->control < 0)
    return;
  region_close_fd(&receiver->control);
  kill(receiver->pid, SIGKILL);
  while (waitpid(receiver->pid, NULL, 0) < 0 && errno == EINTR)
    ;
  receiver->late = false;
}

int region_receiver_start(struct region_receiver **started) {
  struct region_receiver *receiver = calloc(1, sizeof(*receiver));
  *started = NULL;
  if (receiver == NULL)
    return -1;
  if (fork_it(receiver) != 0) {
    free(receiver);
    return -1;
  }
  *started = receiver;
  return 0;
}

void region_receiver_stop(struct region_receiver *receiver) {
  if (receiver == NULL)
    return;
  end_it(receiver);
  free(receiver);
}

/* Its answer to the last request, within so long. 0 and a descriptor, or -1
 * with errno. */
static int await_answer(struct region_receiver *receiver, int wait_ms,
                        int *fd) {
  for (;;) {
    struct pollfd ready = {.fd = receiver->control, .events = POLLIN};
    struct answer answer;
    if (poll(&ready, 1, wait_ms) == 0) {
      receiver->late = true;
      errno = ETIME;
      return -1;
    }
    ssize_t size = receive_one(receiver->control, &answer, sizeof(answer), fd);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
      continue;
    if (size != sizeof(answer)) {
      end_it(receiver);
      errno = ECONNRESET;
      return -1;
    }
    bool is_last = answer.number == receiver->number;
    if (is_last && answer.error == 0) {
      receiver->late = false;
      return 0;
    }
    region_close_fd(fd);
    if (is_last) {
      receiver->late = false;
      errno = answer.error;
      return -1;
    }
  }
}

/* A process that was killed is made anew; one that has no time yet is not asked
 * again before it has answered. */
static bool is_ready(struct region_receiver *receiver) {
  int fd = -1;
  if (receiver->late) {
    (void)await_answer(receiver, 0, &fd);
    region_close_fd(&fd);
  }
  errno = ETIME;
  return !receiver->late && (receiver->control >= 0 || fork_it(receiver) == 0);
}

/* -1 with errno, or the reader's end. The connection is left without a socket.
 */
static int ask(struct region_receiver *receiver,
               struct region_connection *connection, const char *path,
               bool wanted) {
  struct request request = {.wanted = wanted, .uid = connection->uid};
  int fd = -1;
  snprintf(request.path, sizeof(request.path), "%s", path);
  bool sent = is_ready(receiver);
  if (sent) {
    request.number = ++receiver->number;
    sent = send_one(receiver->control, &request, sizeof(request),
                    connection->socket);
    if (!sent)
      end_it(receiver);
  }
  region_close_fd(&connection->socket);
  if (!sent || await_answer(receiver, ANSWER_MS, &fd) != 0)
    return -1;
  return fd;
}

int region_receiver_take(struct region_receiver *receiver,
                         struct region_connection *connection, const char *path,
                         const char **why) {
  int fd = ask(receiver, connection, path, true);
  if (fd >= 0 && send(fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1) {
    connection->socket = fd;
    connection->receiving = REGION_BY_RECEIVER;
    return 0;
  }
  region_close_fd(&fd);
  *why = NULL;
  if (errno == EBUSY)
    *why = "what it sent before is still to be closed, perhaps by a file "
           "system that does not answer";
  else if (errno == ETIME)
    *why = "the process that receives for readers has no time";
  return -1;
}

void region_receiver_refuse(struct region_receiver *receiver,
                            struct region_connection *connection) {
  int fd = ask(receiver, connection, "", false);
  region_close_fd(&fd);
}
