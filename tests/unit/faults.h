/* faults.h: lets a call of the C library fail once. The linker replaces the
 * functions below (fault_ldflags). Include it in one file of a program. */
#ifndef PERCORE_FAULTS_H
#define PERCORE_FAULTS_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FAULT_CHILDREN = 8, FAULT_CALLS_MAX = 5000, FAULTLESS_EXIT = 7 };

static atomic_bool faults_on;
static atomic_int fault_calls; /* calls since faults_on was first set */
static int fault_at;           /* number of the call that fails */
static const char *fault_name = "none";
/* The calls of this thread neither count nor fail. A thread inherits this, or
 * is always exempt if threads_are_exempt is set. */
static _Thread_local bool thread_is_exempt;
static bool threads_are_exempt;

static bool fails(const char *name) {
  if (!faults_on || thread_is_exempt || ++fault_calls != fault_at)
    return false;
  fault_name = name;
  return true;
}

#define FAULT(result, name, error, value, parameters, arguments)               \
  result __real_##name parameters;                                             \
  result __wrap_##name parameters;                                             \
  result __wrap_##name parameters {                                            \
    if (fails(#name)) {                                                        \
      errno = error;                                                           \
      return value;                                                            \
    }                                                                          \
    return __real_##name arguments;                                            \
  }

FAULT(void *, malloc, ENOMEM, NULL, (size_t size), (size))
FAULT(void *, calloc, ENOMEM, NULL, (size_t len, size_t size), (len, size))
FAULT(void *, realloc, ENOMEM, NULL, (void *old, size_t size), (old, size))
FAULT(void *, reallocarray, ENOMEM, NULL, (void *old, size_t len, size_t size),
      (old, len, size))
FAULT(char *, strdup, ENOMEM, NULL, (const char *text), (text))
FAULT(int, open, EMFILE, -1, (const char *path, int flags, mode_t mode),
      (path, flags, mode))
FAULT(FILE *, fopen, EMFILE, NULL, (const char *path, const char *mode),
      (path, mode))
FAULT(char *, fgets, EIO, NULL, (char *line, int size, FILE *file),
      (line, size, file))
FAULT(int, stat, EIO, -1, (const char *path, struct stat *status),
      (path, status))
FAULT(int, fstat, EIO, -1, (int fd, struct stat *status), (fd, status))
FAULT(int, statfs, EIO, -1, (const char *path, struct statfs *system),
      (path, system))
FAULT(void *, mmap, ENOMEM, MAP_FAILED,
      (void *at, size_t size, int protection, int flags, int fd, off_t offset),
      (at, size, protection, flags, fd, offset))
FAULT(int, mprotect, ENOMEM, -1, (void *at, size_t size, int protection),
      (at, size, protection))
FAULT(int, madvise, EIO, -1, (void *at, size_t size, int advice),
      (at, size, advice))
FAULT(int, ftruncate, EFBIG, -1, (int fd, off_t size), (fd, size))
FAULT(int, fallocate, ENOSPC, -1, (int fd, int mode, off_t from, off_t size),
      (fd, mode, from, size))
FAULT(int, fcntl, ENOLCK, -1, (int fd, int command, long argument),
      (fd, command, argument))
FAULT(int, flock, ENOLCK, -1, (int fd, int operation), (fd, operation))
FAULT(int, socket, EMFILE, -1, (int family, int type, int protocol),
      (family, type, protocol))
FAULT(int, connect, EAGAIN, -1,
      (int fd, const struct sockaddr *address, socklen_t length),
      (fd, address, length))
FAULT(int, chmod, EPERM, -1, (const char *path, mode_t mode), (path, mode))
FAULT(int, fchmod, EPERM, -1, (int fd, mode_t mode), (fd, mode))
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *), void *argument);

struct fault_thread {
  void *(*run)(void *);
  void *argument;
  bool is_exempt;
};

static void *run_fault_thread(void *argument) {
  struct fault_thread thread = *(struct fault_thread *)argument;
  free(argument);
  thread_is_exempt = thread.is_exempt;
  return thread.run(thread.argument);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *), void *argument) {
  if (fails("pthread_create"))
    return EAGAIN;
  struct fault_thread *start = __real_malloc(sizeof(*start));
  *start = (struct fault_thread){run, argument,
                                 thread_is_exempt || threads_are_exempt};
  return __real_pthread_create(thread, attributes, run_fault_thread, start);
}

/* Runs `play` in a child process in which call number n fails. `play` returns 0
 * if nothing is wrong. */
static pid_t start_fault_child(int n, int (*play)(void)) {
  pid_t child = fork();
  assert_return_code(child, errno);
  if (child != 0)
    return child;
  fault_at = n;
  int wrong = play();
  if (wrong != 0)
    fprintf(stderr, "call %d, %s, failed: %d\n", n, fault_name, wrong);
  _exit(wrong != 0 ? 1 : fault_calls < n ? FAULTLESS_EXIT : 0);
}

/* Returns false if no call failed in the child. */
static bool await_fault_child(pid_t child) {
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status))
    print_message("a child ended with signal %d\n", WTERMSIG(status));
  assert_true(WIFEXITED(status));
  assert_int_not_equal(WEXITSTATUS(status), 1);
  return WEXITSTATUS(status) != FAULTLESS_EXIT;
}

/* Lets each `step`th call that `play` makes fail in a process of its own. */
static inline void fail_each_call(int (*play)(void), int step) {
  pid_t children[FAULT_CHILDREN];
  int n = 1;
  for (bool any = true; any;) {
    for (int i = 0; i < FAULT_CHILDREN; i++)
      children[i] = start_fault_child(n + i * step, play);
    for (int i = 0; i < FAULT_CHILDREN; i++)
      any &= await_fault_child(children[i]);
    n += FAULT_CHILDREN * step;
    assert_true(n < FAULT_CALLS_MAX);
  }
  assert_true(n > 100);
}

#endif
