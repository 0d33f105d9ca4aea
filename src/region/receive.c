#include "percore_config.h"

#include "receive.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

enum { STACK_SIZE = 64 << 10, MAX_FD = 65536, EXIT_MS = 20 };

/* What the child is asked, and what it answers. The answer comes through a
 * socket and not in the shared memory, because valgrind runs the child as a
 * process with a copy of the memory. */
struct receive {
  int producer, back; /* sockets */
  bool asks;          /* false: HELLO is all */
  struct region_message question;
  int64_t until_ms;
  enum region_offence offence;
  int error; /* 0: none */
};

bool region_receive_is_held_up(pid_t *child) {
  if (*child != 0 && waitpid(*child, NULL, WNOHANG | __WALL) != 0)
    *child = 0;
  return *child != 0;
}

void region_keep_only(int one, int two) {
  int low = one < two ? one : two, high = one < two ? two : one;
#ifdef SYS_close_range
  if ((low == 0 || syscall(SYS_close_range, 0u, (unsigned)low - 1, 0u) == 0) &&
      (high <= low + 1 || syscall(SYS_close_range, (unsigned)low + 1,
                                  (unsigned)high - 1, 0u) == 0) &&
      syscall(SYS_close_range, (unsigned)high + 1, ~0u, 0u) == 0)
    return;
#endif
  for (int fd = 0; fd < MAX_FD; fd++)
    if (fd != low && fd != high)
      close(fd);
}

/* Returns how long the child may take, at least a second. */
static int wait_ms(const struct receive *receive) {
  int64_t left_ms = receive->until_ms - region_now_ms();
  return left_ms > 0 ? (int)left_ms + 1000 : 1000;
}

/* Kills this child if something unforeseen blocks it, because the parent waits.
 * A child may have as many descriptors as possible, because the kernel closes
 * those that it may not have while it receives them. */
static void limit(const struct receive *receive) {
  struct itimerval end = {.it_value.tv_sec = wait_ms(receive) / 1000};
  struct rlimit files;
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  (void)signal(SIGALRM, SIG_DFL);
  (void)sigprocmask(SIG_UNBLOCK, &alarm, NULL);
  (void)setitimer(ITIMER_REAL, &end, NULL);
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
  }
}

static void ask(struct receive *receive) {
  struct region_message answer = {0}, *question = &receive->question;
  struct region_passed passed = {0};
  if (!region_message_send(receive->producer, question, NULL, 0))
    receive->error = errno;
  while (receive->error == 0 && passed.count == 0 &&
         answer.request != question->request)
    if (region_message_await(receive->producer, receive->until_ms, &answer,
                             &passed) != 0)
      receive->error = errno;
  if (passed.count > 0)
    receive->offence = REGION_SENDS_MORE;
  *question = answer;
}

/* Runs on its own stack while the parent waits, so it may use everything that a
 * function of the parent may use. Never closes a received descriptor itself. */
static __attribute__((no_sanitize("address", "thread"))) int
run(void *argument) {
  struct receive *receive = argument, answer;
  struct region_message hello;
  struct region_passed passed;
  limit(receive);
  region_keep_only(receive->producer, receive->back);
  if (chdir("/") != 0) /* its working directory could prevent an unmount */
    _exit(1);
  if (!receive->asks)
    shutdown(receive->producer, SHUT_RD);
  int status = region_message_receive(receive->producer, &hello, &passed);
  receive->error = status != 0 && errno != EPROTO ? errno : 0;
  if (passed.count > 0)
    receive->error = 0;
  receive->offence = region_check_hello(status, &hello, &passed);
  if (receive->offence == REGION_NO_OFFENCE && receive->asks)
    ask(receive);
  else if (receive->offence == REGION_NO_OFFENCE &&
           !region_socket_is_empty(receive->producer))
    receive->offence = REGION_SENDS_MORE;
  answer = *receive;
  region_packet_send(receive->back, &answer, sizeof(answer), passed.fds,
                     receive->offence == REGION_NO_OFFENCE ? passed.count : 0);
  while (!receive->asks &&
         region_message_receive(receive->producer, &hello, &passed) == 0)
    ; /* takes the descriptors that are left in the queue along */
  _exit(0);
}

/* Waits a moment for the child's end, which usually takes microseconds. */
static void await_end(pid_t *child) {
  struct timespec pause = {.tv_nsec = 1000000};
  for (int i = 0; i < EXIT_MS && region_receive_is_held_up(child); i++)
    nanosleep(&pause, NULL);
}

/* Returns 0, or -1 with errno. All signals are blocked, because the child would
 * run handlers in the memory of this process. */
static int start(struct receive *receive, pid_t *child) {
  sigset_t all, before;
  char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED)
    return -1;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  *child =
      clone(run, stack + STACK_SIZE, CLONE_VM | CLONE_VFORK, (void *)receive);
  int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  munmap(stack, STACK_SIZE);
  errno = error;
  if (*child < 0) {
    *child = 0;
    return -1;
  }
  return 0;
}

/* Takes the child's answer, which replaces *receive. The child ends before the
 * parent goes on, except under valgrind. */
static void take_answer(struct receive *receive, int from,
                        struct region_passed *passed) {
  struct pollfd ready = {.fd = from, .events = POLLIN};
  struct receive answer;
  (void)poll(&ready, 1, wait_ms(receive));
  if (region_packet_receive(from, &answer, sizeof(answer), passed) ==
      sizeof(answer))
    *receive = answer;
  else
    receive->error = ETIMEDOUT; /* the child was killed */
}

static int receive_all(const struct region_connection *connection, pid_t *child,
                       struct receive *receive, struct region_passed *passed,
                       struct region_fault *fault) {
  int ends[2];
  passed->count = 0;
  if (region_receive_is_held_up(child))
    return region_offend(REGION_HELD_UP, fault);
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return region_fails(fault, errno, "") - 1;
  receive->producer = connection->socket;
  receive->back = ends[1];
  int status = start(receive, child);
  if (status != 0)
    region_fails(fault, errno, "no process can be started to receive it");
  close(ends[1]);
  if (status == 0) {
    take_answer(receive, ends[0], passed);
    await_end(child);
  }
  close(ends[0]);
  if (status == 0 && receive->error != 0)
    return region_fails(fault, receive->error, "") - 1;
  if (status == 0 && receive->offence != REGION_NO_OFFENCE)
    return region_offend(receive->offence, fault);
  return status;
}

int region_receive_hello(struct region_connection *connection, pid_t *child,
                         struct region_fault *fault) {
  struct receive receive = {.asks = false};
  struct region_passed passed;
  int status = receive_all(connection, child, &receive, &passed, fault);
  if (status == 0 && passed.count != 1)
    status = region_fails(fault, EMFILE, "") - 1;
  if (status == 0 && !region_connection_take_memory(connection, &passed, fault))
    status = -1;
  region_passed_close(&passed);
  return status;
}

int region_receive_answer(struct region_connection *connection, pid_t *child,
                          const struct region_message *question, int wait,
                          struct region_fault *fault) {
  struct receive receive = {
      .asks = true, .question = *question, .until_ms = region_now_ms() + wait};
  struct region_passed passed;
  int status = receive_all(connection, child, &receive, &passed, fault);
  region_passed_close(&passed);
  if (status != 0 || receive.question.type == question->type)
    return status;
  uint64_t error = receive.question.argument;
  return region_fails(fault, error > 0 && error < 4096 ? (int)error : EPROTO,
                      "") -
         1;
}
