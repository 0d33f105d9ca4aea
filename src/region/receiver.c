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
  MAX_OF_SOCKET = 2, /* the previous process may still be exiting */
  MAX_OFFENDERS = 64,
  MAX_FD = 65536,
  REAP_MS = 1000,
  EXIT_MS = 100
};

/* Like fork(2), but the host (the process that uses this library) receives no
 * SIGCHLD, its waitpid(-1) does not see the child, and the call does not wait
 * for locks that other threads hold. The child may only call async-signal-safe
 * functions. The order of clone's arguments depends on the architecture, but
 * does not matter because all are zero. */
static pid_t fork_unseen(void) {
  return (pid_t)syscall(SYS_clone, 0L, 0L, 0L, 0L, 0L);
}

/* Closes all other descriptors, because a process that can never exit must not
 * keep a port, pipe, lock or connection of the host open. Returns the new
 * number of the kept descriptor. */
static int keep_only(int fd) {
  if (fd != 0 && dup2(fd, 0) < 0)
    _exit(1);
  bool closed = false;
#ifdef SYS_close_range
  closed = syscall(SYS_close_range, 1u, ~0u, 0u) == 0;
#endif
  for (int i = 1; i < MAX_FD && !closed; i++)
    close(i);
  /* Open descriptors 1 and 2. Otherwise, libc could print messages to a socket
   * that has become one of them. */
  (void)open("/dev/null", O_RDWR | O_CLOEXEC);
  (void)open("/dev/null", O_RDWR | O_CLOEXEC);
  return 0;
}

/* Forks a process that calls `run` with one end of a new socket pair, and
 * stores the other end in *socket. Returns the pid, or -1 with errno. */
static pid_t start_process(void (*run)(int), int *socket) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return -1;
  pid_t pid = fork_unseen();
  if (pid == 0)
    run(keep_only(ends[1]));
  region_close_fd(&ends[1]);
  *socket = ends[0];
  if (pid < 0)
    region_close_fd(socket);
  return pid;
}

/* ---------------------------------------------------------------------------
 * The receiver: starts receptions (the processes that receive from producers),
 * and holds nothing that producers have sent
 */

struct process {
  pid_t pid;                     /* 0: unused */
  struct region_request request; /* uid -1: any user (the shared reception) */
};

struct receiver {
  int control;            /* socket to the reader */
  bool may_share;         /* users without an offence share a reception */
  struct process *shared; /* may already have been reaped; NULL: none */
  int shared_socket;      /* -1: none */
  size_t offences;
  uid_t offenders[MAX_OFFENDERS];
  struct process processes[MAX_PROCESSES];
};

static bool is_offender(const struct receiver *receiver, uid_t uid) {
  for (size_t i = 0; i < receiver->offences && i < MAX_OFFENDERS; i++)
    if (receiver->offenders[i] == uid)
      return true;
  return false;
}

/* Reaps processes that have exited. Returns true if processes other than the
 * shared reception are left. */
static bool reap(struct receiver *receiver) {
  bool any = false;
  pid_t pid;
  while ((pid = waitpid(-1, NULL, WNOHANG | __WALL)) > 0)
    for (int i = 0; i < MAX_PROCESSES; i++)
      if (receiver->processes[i].pid == pid)
        receiver->processes[i].pid = 0;
  for (int i = 0; i < MAX_PROCESSES; i++)
    any |= receiver->processes[i].pid != 0 &&
           &receiver->processes[i] != receiver->shared;
  return any;
}

/* Returns an unused element for another process, or NULL if there are too many
 * processes; *offence then receives the reason. No user's processes may occupy
 * more elements than are left for others. */
static struct process *find_place(struct receiver *receiver,
                                  const struct region_request *request,
                                  enum region_offence *offence) {
  struct process *place = NULL;
  int unused = 0, of_user = 0, of_socket = 0;
  for (int i = 0; i < MAX_PROCESSES; i++) {
    struct process *process = &receiver->processes[i];
    if (process->pid == 0 && process != receiver->shared) {
      place = process;
      unused++;
    } else if (process->request.uid == request->uid) {
      of_user++;
      of_socket += strcmp(process->request.path, request->path) == 0;
    }
  }
  *offence = of_socket < MAX_OF_SOCKET ? REGION_TOO_MANY : REGION_HELD_UP;
  return of_socket < MAX_OF_SOCKET && of_user < unused ? place : NULL;
}

/* Starts a reception. On failure, returns NULL and sets *offence. */
static struct process *start_reception(struct receiver *receiver,
                                       const struct region_request *request,
                                       int *socket,
                                       enum region_offence *offence) {
  struct process *place = find_place(receiver, request, offence);
  if (place == NULL)
    return NULL;
  pid_t pid = start_process(region_reception_run, socket);
  *offence = REGION_TOO_MANY;
  if (pid < 0)
    return NULL;
  *place = (struct process){.pid = pid, .request = *request};
  return place;
}

/* Starts a reception that handles only this request. */
static void isolate(struct receiver *receiver,
                    const struct region_request *request, int reader) {
  enum region_offence offence;
  int socket;
  if (start_reception(receiver, request, &socket, &offence) == NULL) {
    region_answer_offence(reader, offence);
    return;
  }
  region_packet_send(socket, request, sizeof(*request), &reader, 1);
  close(socket);
}

/* Passes a request to the shared reception. If the reception has just exited,
 * or its queue is full, the reader sees the end of its socket and asks again.
 */
static void share(struct receiver *receiver,
                  const struct region_request *request, int reader) {
  static const struct region_request of_no_user = {.uid = (uid_t)-1};
  enum region_offence offence = REGION_TOO_MANY;
  if (receiver->shared == NULL)
    receiver->shared = start_reception(receiver, &of_no_user,
                                       &receiver->shared_socket, &offence);
  if (receiver->shared != NULL)
    region_packet_send(receiver->shared_socket, request, sizeof(*request),
                       &reader, 1);
  else
    region_answer_offence(reader, offence);
}

/* Handles the end of the shared reception. Unless the reception was killed, it
 * has sent back the request whose producer it refused. */
static void note_end_of_shared(struct receiver *receiver) {
  struct region_request refused;
  struct region_passed passed;
  ssize_t size = region_packet_receive(receiver->shared_socket, &refused,
                                       sizeof(refused), &passed);
  if (size < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  region_close_fd(&receiver->shared_socket);
  if (size == sizeof(refused)) {
    receiver->offenders[receiver->offences++ % MAX_OFFENDERS] = refused.uid;
    receiver->shared->request = refused;
  }
  receiver->shared = NULL;
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
  if (passed.count == 1 && receiver->may_share &&
      !is_offender(receiver, request.uid))
    share(receiver, &request, passed.fds[0]);
  else if (passed.count == 1)
    isolate(receiver, &request, passed.fds[0]);
  region_passed_close(&passed);
}

/* Raises the limit on descriptors to what a shared reception needs. Returns
 * false if that is not possible. If a message has more descriptors than the
 * limit permits, the kernel closes the rest in recvmsg(2), which might block
 * (SO_LINGER). */
static bool has_descriptors(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return false;
  if (limit.rlim_cur >= REGION_RECEPTION_FDS)
    return true;
  limit.rlim_cur = REGION_RECEPTION_FDS;
  if (limit.rlim_max < limit.rlim_cur)
    limit.rlim_max = limit.rlim_cur; /* succeeds only for root */
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

static _Noreturn void serve(int control) {
  static struct receiver receiver = {.shared_socket = -1};
  receiver.control = control;
  prctl(PR_SET_NAME, "percore-receive");
  receiver.may_share = has_descriptors();
  for (;;) {
    struct pollfd ends[] = {{.fd = receiver.control, .events = POLLIN},
                            {.fd = receiver.shared_socket, .events = POLLIN}};
    (void)poll(ends, 2, reap(&receiver) ? REAP_MS : -1);
    if (ends[1].revents != 0)
      note_end_of_shared(&receiver);
    if (ends[0].revents != 0)
      serve_one(&receiver);
  }
}

/* ---------------------------------------------------------------------------
 * The reader's side
 */

struct region_receiver {
  pid_t pid;   /* 0: not running */
  int pidfd;   /* -1 before Linux 5.3 */
  int control; /* socket to the receiver */
};

struct region_receiver *region_receiver_new(void) {
  return calloc(1, sizeof(struct region_receiver));
}

int region_receiver_start(struct region_receiver *receiver) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t pid = start_process(serve, &receiver->control);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (pid < 0)
    return -1;
  receiver->pid = pid;
  receiver->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  return 0;
}

/* Waits for the exit through the pidfd if possible, because the pid may already
 * belong to another process if the host itself waits with __WALL. */
void region_receiver_rest(struct region_receiver *receiver) {
  struct pollfd end = {.fd = receiver->pidfd, .events = POLLIN};
  siginfo_t info;
  if (receiver->pid == 0)
    return;
  region_close_fd(&receiver->control); /* makes the process exit */
  if (receiver->pidfd < 0) {
    (void)waitpid(receiver->pid, NULL, __WALL);
  } else {
    if (poll(&end, 1, EXIT_MS) == 0)
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

/* Sends a request, and first starts the receiver's process if it is not
 * running. Returns the socket for the answer, or -1 and sets *fault. */
static int ask(struct region_receiver *receiver,
               const struct region_request *request,
               struct region_fault *fault) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    region_fails(fault, errno, "");
    return -1;
  }
  bool sent = false;
  for (int attempt = 0; attempt < 2 && !sent; attempt++) {
    if (receiver->pid == 0 && region_receiver_start(receiver) != 0) {
      region_offend(REGION_TOO_MANY, fault);
      break;
    }
    sent = region_packet_send(receiver->control, request, sizeof(*request),
                              &ends[1], 1);
    if (sent)
      break;
    region_fails(fault, errno, "");
    if (errno != EPIPE && errno != ECONNRESET)
      break;
    region_receiver_rest(receiver); /* the process was killed: start another */
  }
  region_close_fd(&ends[1]);
  if (!sent)
    region_close_fd(&ends[0]);
  return ends[0];
}

/* Waits for the answer to a request. Sends the request first, unless an earlier
 * call has stored its socket. Returns 0, or -1 and sets *fault. EAGAIN means
 * that no answer has arrived yet, or that the reception has exited because of
 * another connection; in the latter case the next call asks again. */
static int await_answer(struct region_receiver *receiver,
                        const struct region_request *request, int *socket,
                        int wait_ms, struct region_message *answer,
                        struct region_passed *passed,
                        struct region_fault *fault) {
  passed->count = 0;
  if (*socket < 0)
    *socket = ask(receiver, request, fault);
  if (*socket < 0)
    return -1;
  if (region_message_await(*socket, region_now_ms() + wait_ms, answer,
                           passed) == 0)
    return 0;
  if (errno == ECONNRESET) {
    region_close_fd(socket);
    errno = EAGAIN;
  }
  region_fails(fault, errno, "");
  return -1;
}

static int take_error(const struct region_message *answer,
                      struct region_fault *fault) {
  if (answer->argument > REGION_FIRST_OFFENCE &&
      answer->argument <= REGION_FIRST_OFFENCE + REGION_TOO_MANY)
    return region_offend(
        (enum region_offence)(answer->argument - REGION_FIRST_OFFENCE), fault);
  region_fails(fault, (int)answer->argument, "");
  return -1;
}

static void copy_path(struct region_request *request, const char *path) {
  memcpy(request->path, path, strnlen(path, sizeof(request->path) - 1));
}

/* Takes over the memory and the connection in the answer. Stores the producer's
 * pid and uid again, because another producer may have replaced the one that
 * was probed. */
static int conclude(struct region_connection *connection,
                    const struct region_message *answer,
                    struct region_passed *passed, struct region_fault *fault) {
  if (answer->type != REGION_HELLO)
    return take_error(answer, fault);
  if (passed->count != 2) {
    region_fails(fault, EMFILE, "");
    return -1;
  }
  if (!region_connection_take_memory(connection, passed, fault))
    return -1;
  region_close_fd(&connection->socket);
  connection->socket = region_passed_take(passed, 1);
  region_connection_learn_peer(connection);
  return 0;
}

int region_receiver_hello(struct region_receiver *receiver,
                          struct region_connection *connection,
                          const char *path, int wait_ms,
                          struct region_fault *fault) {
  struct region_request request = {.uid = connection->uid};
  struct region_message answer;
  struct region_passed passed;
  copy_path(&request, path);
  int status = await_answer(receiver, &request, &connection->socket, wait_ms,
                            &answer, &passed, fault);
  if (status == 0)
    status = conclude(connection, &answer, &passed, fault);
  else if (fault->error == EAGAIN && region_connection_lost_process(connection))
    region_fails(fault, ECONNRESET, "");
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
  struct region_fault fault;
  int socket = -1;
  copy_path(&request, path);
  int status = await_answer(receiver, &request, &socket, wait_ms, &answer,
                            &passed, &fault);
  if (status == 0 && answer.type != REGION_RESET)
    status = take_error(&answer, &fault);
  else if (status != 0 && fault.error == EAGAIN)
    region_fails(&fault, ETIMEDOUT, "");
  region_passed_close(&passed);
  region_close_fd(&socket);
  return status == 0 ? 0 : region_failed(fault.error);
}
