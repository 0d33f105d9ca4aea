/* receive.c: receives HELLO in a child that has no other descriptors. */
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

enum { STACK_SIZE = 64 << 10, MAX_FD = 65536, EXIT_MS = 20, LIFE_S = 1 };

/* The sockets of the child: from `producer` it receives the region's memory,
 * and through `child` it passes the memory on, with a fault whose error is 0 on
 * success. It does not write the answer to memory, because under valgrind it
 * has only a copy of the memory of this process. */
struct ends {
  int producer, child;
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

/* Kills this child if something unforeseen blocks it, because the parent waits.
 * A child may have as many descriptors as possible, because the kernel closes
 * those that it may not have while it receives them. */
static void limit(void) {
  struct itimerval end = {.it_value.tv_sec = LIFE_S};
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

/* True if the queue of the socket is empty; a message left there might carry
 * descriptors. An empty message looks like the end of the connection, but it
 * carries its sender's credentials. They do not fit into the buffer, so the
 * kernel sets MSG_CTRUNC. The kernel reports ECONNRESET once, before queued
 * messages. */
static bool is_empty(int socket) {
  static const int on = 1;
  struct msghdr header = {0};
  ssize_t size;
  if (setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0)
    return false;
  do
    size = recvmsg(socket, &header, MSG_DONTWAIT | MSG_PEEK);
  while (size < 0 && errno == ECONNRESET);
  return size == 0 && (header.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) == 0;
}

/* Receives a message that must be HELLO with memory, and nothing after it. */
static bool receive(int producer, struct region_passed *passed,
                    struct region_fault *fault) {
  struct region_message hello;
  ssize_t size = region_packet_receive(producer, &hello, sizeof(hello), passed);
  if (size <= 0 && passed->count == 0)
    return region_fails(fault, size < 0 ? errno : ECONNRESET, "");
  if (size != sizeof(hello) || hello.magic != REGION_MESSAGE_MAGIC ||
      hello.version != REGION_MESSAGE_VERSION || hello.length != sizeof(hello))
    return region_breaks(fault, REGION_RULE_HELLO,
                         "its producer sent a packet that is not a message");
  if (hello.type != REGION_HELLO)
    return region_breaks(fault, REGION_RULE_HELLO,
                         "its producer's first message is not HELLO");
  if (passed->count == 0)
    return region_breaks(fault, REGION_RULE_HELLO,
                         "its producer's HELLO carries no memory");
  if (passed->count > 1 || !is_empty(producer))
    return region_breaks(fault, REGION_RULE_HELLO,
                         "its producer sent more than HELLO and its memory");
  return region_is_sealed(passed->fds[0], fault);
}

/* Runs on its own stack while the parent waits, so it may use everything that a
 * function of the parent may use. Never closes a received descriptor itself. */
static __attribute__((no_sanitize("address", "thread"))) int
run(void *argument) {
  const struct ends *ends = argument;
  struct region_fault fault = {.error = 0};
  struct region_passed passed;
  char byte;
  limit();
  region_keep_only(ends->producer, ends->child);
  if (chdir("/") != 0) /* its working directory could prevent an unmount */
    _exit(1);
  shutdown(ends->producer, SHUT_RD);
  bool valid = receive(ends->producer, &passed, &fault);
  region_packet_send(ends->child, &fault, sizeof(fault), passed.fds, valid);
  while (region_packet_receive(ends->producer, &byte, 1, &passed) > 0)
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
static int start(struct ends *ends, pid_t *child) {
  sigset_t all, before;
  char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED)
    return -1;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  *child = clone(run, stack + STACK_SIZE, CLONE_VM | CLONE_VFORK, (void *)ends);
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

/* Takes the child's answer. The child ends before the parent goes on, except
 * under valgrind. */
static bool take_answer(struct region_connection *connection, int from,
                        struct region_fault *fault) {
  struct pollfd ready = {.fd = from, .events = POLLIN};
  struct region_passed passed;
  (void)poll(&ready, 1, 2000 * LIFE_S);
  if (region_packet_receive(from, fault, sizeof(*fault), &passed) !=
      sizeof(*fault))
    return region_fails(fault, ETIMEDOUT, ""); /* the child was killed */
  if (fault->error != 0)
    return false;
  if (passed.count != 1)
    return region_fails(fault, EMFILE, "");
  connection->memfd = passed.fds[0];
  return true;
}

int region_receive_hello(struct region_connection *connection, pid_t *child,
                         struct region_fault *fault) {
  struct ends ends = {.producer = connection->socket};
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return region_fails(fault, errno, "") - 1;
  ends.child = pair[1];
  bool started = start(&ends, child) == 0;
  if (!started)
    region_fails(fault, errno, "no process can be started to receive it");
  close(pair[1]);
  bool received = started && take_answer(connection, pair[0], fault);
  if (started)
    await_end(child);
  close(pair[0]);
  return received ? 0 : region_failed(fault->error);
}
