/* receive.c: receives HELLO in a child that has no other descriptors. */
#include "percore_config.h"

#include "receive.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

enum { STACK_SIZE = 64 << 10, MAX_FD = 65536, EXIT_MS = 20, LIFE_S = 1 };

/* ---------------------------------------------------------------------------
 * Children that have not ended
 */

enum { HELD_MAX = 16, NO_CHILD = 0, CHANGING = -1 };

/* Children that were waited for in vain. Whoever changes `child` from NO_CHILD
 * to CHANGING owns the element until it changes `child` again. */
static struct held {
  atomic_int child;    /* its pid */
  atomic_uint owner;   /* of the socket from which it received */
  atomic_int producer; /* pid of the producer; 0: not visible */
} held[HELD_MAX];

/* A forked child has none of these children, which waitpid(2) tells it. */
static bool has_ended(pid_t child) {
  return waitpid(child, NULL, WNOHANG | __WALL) != 0;
}

static bool is_free(struct held *of) {
  int child = of->child;
  if (child > 0 && has_ended(child))
    (void)atomic_compare_exchange_strong(&of->child, &child, NO_CHILD);
  return child <= 0 || of->child != child;
}

bool region_receive_may(uid_t owner, struct region_fault *fault) {
  struct held *found = NULL;
  int count = 0;
  for (struct held *of = held; of < held + HELD_MAX; of++) {
    if (is_free(of))
      continue;
    count++;
    if (found == NULL || of->owner == owner)
      found = of;
  }
  if (found == NULL || (count < HELD_MAX && found->owner != owner))
    return true;
  region_fails(fault, EBUSY, "");
  snprintf(fault->text, sizeof(fault->text),
           "process %d of user %u sent a descriptor that cannot be closed, "
           "perhaps because a file system does not answer; nothing more is "
           "received from %s until that process and its file system have ended",
           found->producer, found->owner,
           count < HELD_MAX ? "this user" : "any user");
  return false;
}

/* If many threads receive at once, there may be no element left. */
static void remember(pid_t child, const struct region_connection *connection) {
  for (struct held *of = held; of < held + HELD_MAX; of++) {
    int none = NO_CHILD;
    if (atomic_compare_exchange_strong(&of->child, &none, CHANGING)) {
      of->owner = connection->owner;
      of->producer = connection->pid;
      of->child = child;
      return;
    }
  }
}

/* ---------------------------------------------------------------------------
 * The child
 */

/* The sockets of the child: from `producer` it receives the region's memory,
 * and through `child` it passes the memory on, with a fault whose error is 0 on
 * success. It does not write the answer to memory, because under valgrind it
 * has only a copy of the memory of this process. */
struct ends {
  int producer, child;
};

/* Closes all descriptors but two, because a process that can never exit must
 * not keep a port, pipe, lock or connection of its parent open. */
static void keep_only(int one, int two) {
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
 */
static void limit_life(void) {
  struct itimerval end = {.it_value.tv_sec = LIFE_S};
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  (void)signal(SIGALRM, SIG_DFL);
  (void)sigprocmask(SIG_UNBLOCK, &alarm, NULL);
  (void)setitimer(ITIMER_REAL, &end, NULL);
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
  limit_life();
  keep_only(ends->producer, ends->child);
  if (chdir("/") != 0) /* its working directory could prevent an unmount */
    _exit(1);
  shutdown(ends->producer, SHUT_RD);
  bool valid = receive(ends->producer, &passed, &fault);
  region_packet_send(ends->child, &fault, sizeof(fault), passed.fds, valid);
  while (region_packet_receive(ends->producer, &byte, 1, &passed) > 0)
    ; /* takes the descriptors that are left in the queue along */
  _exit(0);
}

/* ---------------------------------------------------------------------------
 * The parent
 */

/* Waits a moment for the child's end, which usually takes microseconds. */
static bool ends_soon(pid_t child) {
  struct timespec pause = {.tv_nsec = 1000000};
  for (int i = 0; i < EXIT_MS; i++) {
    if (has_ended(child))
      return true;
    nanosleep(&pause, NULL);
  }
  return false;
}

/* Returns the pid, or -1 with errno. All signals are blocked, because the child
 * would run handlers in the memory of this process. */
static pid_t start(struct ends *ends) {
  sigset_t all, before;
  char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED)
    return -1;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t child =
      clone(run, stack + STACK_SIZE, CLONE_VM | CLONE_VFORK, (void *)ends);
  int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  munmap(stack, STACK_SIZE);
  errno = error;
  return child;
}

/* Takes the child's answer. The child ends before the parent goes on, except
 * under valgrind. */
static bool take_answer(struct region_connection *connection, int from,
                        struct region_fault *fault) {
  struct region_passed passed;
  (void)region_poll(from, POLLIN, 2000 * LIFE_S);
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

int region_receive_hello(struct region_connection *connection,
                         struct region_fault *fault) {
  struct ends ends = {.producer = connection->socket};
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return region_fails(fault, errno, "") - 1;
  ends.child = pair[1];
  pid_t child = start(&ends);
  if (child < 0)
    region_fails(fault, errno, "no process can be started to receive it");
  close(pair[1]);
  bool received = child > 0 && take_answer(connection, pair[0], fault);
  close(pair[0]);
  while (child > 0 && !ends_soon(child))
    if (!received) { /* otherwise, nothing can hold it up for long */
      remember(child, connection);
      (void)region_receive_may(connection->owner, fault);
      break;
    }
  return received ? 0 : region_failed(fault->error);
}
