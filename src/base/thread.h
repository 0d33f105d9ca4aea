/* thread: starts threads that do not handle the signals of the host program. */
#ifndef PERCORE_BASE_THREAD_H
#define PERCORE_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

/* Starts a thread that blocks all signals. Returns 0 or -errno. */
static inline int thread_start(pthread_t *thread, void *(*run)(void *),
                               void *argument) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int status = pthread_create(thread, NULL, run, argument);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return -status;
}

#endif
