#include "percore_config.h"

#include "receiver.h"
#include "reception.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

enum {
  MAX_PROCESSES = 256,
  MAX_OF_SOCKET = 2, /* one may still be about to end */
  MAX_OFFENDERS = 64,
  MAX_FD = 65536,
  REAP_MS = 1000,
  END_MS = 100
};

/* Like fork(2), but the host gets no SIGCHLD, its waitpid(-1) does not see the
 * child, and the call waits for no lock that another thread holds. The child
 * may only call what is async-signal-safe. The arguments are zeros so that
 * their order, which depends on the architecture, does not matter. */
static pid_t fork_unseen(void) {
  return (pid_t)syscall(SYS_clone, 0L, 0L, 0L, 0L, 0L);
}

/* Closes all other descriptors: no port, pipe, lock or connection of the host
 * may depend on the end of a process that is held up. Returns the descriptor's
 * new number. */
static int keep_only(int fd) {
  if (fd != 0 && dup2(fd, 0) < 0)
    _exit(1);
  bool closed = false;
#ifdef SYS_close_range
  closed = syscall(SYS_close_range, 1u, ~0u, 0u) == 0;
#endif
  for (int i = 1; i < MAX_FD && !closed; i++)
    close(i);
  /* Messages of libc are lost rather than sent to somebody's socket. */
  (void)open("/dev/null", O_RDWR | O_CLOEXEC);
  (void)open("/dev/null", O_RDWR | O_CLOEXEC);
  return 0;
}

/* ---------------------------------------------------------------------------
 * The receiver: makes receptions, holds nothing that producers sent
 */

struct process {
  pid_t pid; /* 0: none */
  struct region_request request;
};

struct receiver {
  int control;       /* to the reader */
  bool shares;       /* most requests go to one reception */
  pid_t shared;      /* that one; 0 once it was reaped */
  int shared_socket; /* -1: none */
  size_t offences;
  uid_t offenders[MAX_OFFENDERS];
  struct process processes[MAX_PROCESSES]; /* which are not shared */
};

static bool is_offender(const struct receiver *receiver, uid_t uid) {
  for (size_t i = 0; i < receiver->offences && i < MAX_OFFENDERS; i++)
    if (receiver->offenders[i] == uid)
      return true;
  return false;
}

/* Returns whether any are left. */
static bool reap(struct receiver *receiver) {
  bool any = false;
  pid_t pid;
  while ((pid = waitpid(-1, NULL, WNOHANG | __WALL)) > 0) {
    if (receiver->shared == pid)
      receiver->shared = 0;
    for (int i = 0; i < MAX_PROCESSES; i++)
      if (receiver->processes[i].pid == pid)
        receiver->processes[i].pid = 0;
  }
  for (int i = 0; i < MAX_PROCESSES; i++)
    any |= receiver->processes[i].pid != 0;
  return any;
}

/* A place to note another process. NULL and a fault if there are too many: one
 * user takes no more places than are left for others. */
static struct process *find_place(struct receiver *receiver,
                                  const struct region_request *request,
                                  enum region_offence *fault) {
  struct process *place = NULL;
  int unused = 0, of_user = 0, of_socket = 0;
  for (int i = 0; i < MAX_PROCESSES; i++) {
    struct process *process = &receiver->processes[i];
    if (process->pid == 0) {
      place = process;
      unused++;
    } else if (process->request.uid == request->uid) {
      of_user++;
      of_socket += strcmp(process->request.path, request->path) == 0;
    }
  }
  *fault = of_socket < MAX_OF_SOCKET ? REGION_TOO_MANY : REGION_HELD_UP;
  return of_socket < MAX_OF_SOCKET && of_user < unused ? place : NULL;
}

/* Returns its pid, or -1. */
static pid_t make_reception(int *socket) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return -1;
  pid_t pid = fork_unseen();
  if (pid == 0)
    region_reception_run(keep_only(ends[1]));
  close(ends[1]);
  *socket = ends[0];
  if (pid < 0)
    region_close_fd(socket);
  return pid;
}

/* In a reception of its own. */
static void isolate(struct receiver *receiver,
                    const struct region_request *request, int reader) {
  enum region_offence fault;
  int socket;
  struct process *place = find_place(receiver, request, &fault);
  pid_t pid = place != NULL ? make_reception(&socket) : -1;
  if (pid < 0) {
    region_answer_offence(reader, fault);
    return;
  }
  region_packet_send(socket, request, sizeof(*request), &reader, 1);
  close(socket);
  *place = (struct process){.pid = pid, .request = *request};
}

/* A request that the reception does not get, because it has just ended or has
 * no time, ends with the reader's socket, and the reader asks again. */
static void share(struct receiver *receiver,
                  const struct region_request *request, int reader) {
  if (receiver->shared_socket < 0)
    receiver->shared = make_reception(&receiver->shared_socket);
  if (receiver->shared_socket >= 0)
    region_packet_send(receiver->shared_socket, request, sizeof(*request),
                       &reader, 1);
  else
    region_answer_offence(reader, REGION_TOO_MANY);
}

/* The shared reception has ended: with the request that it had to refuse
 * something for, unless somebody killed it. */
static void hear_of_shared(struct receiver *receiver) {
  struct region_request refused;
  struct region_passed passed;
  enum region_offence fault;
  ssize_t size = region_packet_receive(receiver->shared_socket, &refused,
                                       sizeof(refused), &passed);
  if (size < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  region_close_fd(&receiver->shared_socket);
  if (size != sizeof(refused))
    return;
  receiver->offenders[receiver->offences++ % MAX_OFFENDERS] = refused.uid;
  struct process *place = find_place(receiver, &refused, &fault);
  if (place != NULL) /* as free as before if it was reaped */
    *place = (struct process){.pid = receiver->shared, .request = refused};
}

static void serve_one(struct receiver *receiver) {
  struct region_request request;
  struct region_passed passed;
  ssize_t size = region_packet_receive(receiver->control, &request,
                                       sizeof(request), &passed);
  if (size < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (size != sizeof(request))
    _exit(0); /* the reader has ended */
  if (passed.count == 1 && receiver->shares &&
      !is_offender(receiver, request.uid))
    share(receiver, &request, passed.fds[0]);
  else if (passed.count == 1)
    isolate(receiver, &request, passed.fds[0]);
  region_passed_close(&passed);
}

/* Whether the limit allows the descriptors that a shared reception needs. The
 * kernel closes descriptors of a message for which there is no room, which
 * might block (SO_LINGER).
 */
static bool has_descriptors(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return false;
  if (limit.rlim_cur >= REGION_RECEPTION_FDS)
    return true;
  limit.rlim_cur = REGION_RECEPTION_FDS;
  if (limit.rlim_max < limit.rlim_cur)
    limit.rlim_max = limit.rlim_cur; /* for root only */
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

static _Noreturn void serve(int control) {
  static struct receiver receiver = {.shared_socket = -1};
  receiver.control = keep_only(control);
  prctl(PR_SET_NAME, "percore-receive");
  receiver.shares = has_descriptors();
  for (;;) {
    struct pollfd ends[] = {{.fd = receiver.control, .events = POLLIN},
                            {.fd = receiver.shared_socket, .events = POLLIN}};
    (void)poll(ends, 2, reap(&receiver) ? REAP_MS : -1);
    if (ends[1].revents != 0)
      hear_of_shared(&receiver);
    if (ends[0].revents != 0)
      serve_one(&receiver);
  }
}

/* ---------------------------------------------------------------------------
 * The reader's side
 */

struct region_receiver {
  pid_t pid;   /* 0: none */
  int pidfd;   /* -1 before Linux 5.3 */
  int control; /* to the receiver */
};

struct region_receiver *region_receiver_new(void) {
  return calloc(1, sizeof(struct region_receiver));
}

int region_receiver_start(struct region_receiver *receiver) {
  int ends[2];
  sigset_t all, before;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return -1;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t pid = fork_unseen();
  if (pid == 0)
    serve(ends[1]);
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

/* Waits by the pidfd if there is one: after the host waits with __WALL, the pid
 * may belong to another process. */
void region_receiver_rest(struct region_receiver *receiver) {
  struct pollfd end = {.fd = receiver->pidfd, .events = POLLIN};
  siginfo_t info;
  if (receiver->pid == 0)
    return;
  region_close_fd(&receiver->control); /* ends it */
  if (receiver->pidfd < 0) {
    (void)waitpid(receiver->pid, NULL, __WALL);
  } else {
    if (poll(&end, 1, END_MS) == 0)
      (void)syscall(SYS_pidfd_send_signal, receiver->pidfd, SIGKILL, NULL, 0);
    (void)waitid(P_PIDFD, (id_t)receiver->pidfd, &info,
                 WEXITED | WNOHANG | __WALL);
    region_close_fd(&receiver->pidfd);
  }
  receiver->pid = 0;
}

void region_receiver_free(struct region_receiver *receiver) {
  if (receiver != NULL)
    region_receiver_rest(receiver);
  free(receiver);
}

/* Makes a receiver where there is none, or no longer. Returns the socket for
 * the answer, or -1 with errno. */
static int ask(struct region_receiver *receiver,
               const struct region_request *request, const char **why) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return -1;
  bool sent = false;
  for (int attempt = 0; attempt < 2 && !sent; attempt++) {
    if (receiver->pid == 0 && region_receiver_start(receiver) != 0) {
      region_fail(REGION_TOO_MANY, why);
      break;
    }
    sent = region_packet_send(receiver->control, request, sizeof(*request),
                              &ends[1], 1);
    if (!sent && errno != EPIPE && errno != ECONNRESET)
      break;
    if (!sent)
      region_receiver_rest(receiver);
  }
  region_close_fd(&ends[1]);
  if (!sent)
    region_close_fd(&ends[0]);
  return ends[0];
}

/* Asks, unless that was done, and awaits the answer. 0, or -1 with errno:
 * EAGAIN if there is no answer yet, or the reception has ended because of
 * another connection, so that the next call asks again. */
static int await_answer(struct region_receiver *receiver,
                        const struct region_request *request, int *socket,
                        int wait_ms, struct region_message *answer,
                        struct region_passed *passed, const char **why) {
  *why = NULL;
  passed->count = 0;
  if (*socket < 0)
    *socket = ask(receiver, request, why);
  if (*socket < 0)
    return -1;
  int status =
      region_message_await(*socket, region_now_ms() + wait_ms, answer, passed);
  if (status != 0 && errno == ECONNRESET) {
    region_close_fd(socket);
    errno = EAGAIN;
  }
  return status;
}

static int take_error(const struct region_message *answer, const char **why) {
  if (answer->argument > REGION_FIRST_OFFENCE &&
      answer->argument <= REGION_FIRST_OFFENCE + REGION_TOO_MANY)
    return region_fail(
        (enum region_offence)(answer->argument - REGION_FIRST_OFFENCE), why);
  errno = (int)answer->argument;
  return -1;
}

static void copy_path(struct region_request *request, const char *path) {
  memcpy(request->path, path, strnlen(path, sizeof(request->path) - 1));
}

/* Memory, and the connection, whose producer may have come after the one that
 * was probed. */
static int conclude(struct region_connection *connection,
                    const struct region_message *answer,
                    struct region_passed *passed, const char **why) {
  if (answer->type != REGION_HELLO)
    return take_error(answer, why);
  errno = EMFILE;
  if (passed->count != 2 ||
      region_connection_take_memory(connection, passed, why) != 0)
    return -1;
  region_close_fd(&connection->socket);
  connection->socket = region_passed_take(passed, 1);
  region_connection_learn_peer(connection);
  return 0;
}

int region_receiver_hello(struct region_receiver *receiver,
                          struct region_connection *connection,
                          const char *path, int wait_ms, const char **why) {
  struct region_request request = {.uid = connection->uid};
  struct region_message answer;
  struct region_passed passed;
  copy_path(&request, path);
  int status = await_answer(receiver, &request, &connection->socket, wait_ms,
                            &answer, &passed, why);
  if (status == 0)
    status = conclude(connection, &answer, &passed, why);
  else if (errno == EAGAIN && region_connection_lost_process(connection))
    errno = ECONNRESET;
  region_passed_close(&passed);
  return status;
}

int region_receiver_reset(struct region_receiver *receiver, const char *path,
                          uid_t uid, uint32_t table, uint32_t row,
                          int wait_ms) {
  struct region_request request = {
      .uid = uid,
      .question = {
          .type = REGION_RESET, .request = 1, .table = table, .row = row}};
  struct region_message answer;
  struct region_passed passed;
  const char *why;
  int socket = -1;
  copy_path(&request, path);
  int status = await_answer(receiver, &request, &socket, wait_ms, &answer,
                            &passed, &why);
  if (status == 0 && answer.type != REGION_RESET)
    status = take_error(&answer, &why);
  else if (status != 0 && errno == EAGAIN)
    errno = ETIMEDOUT;
  region_passed_close(&passed);
  region_close_fd(&socket);
  return status;
}
