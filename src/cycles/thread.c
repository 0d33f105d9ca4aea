#include "thread.h"

#include <signal.h>
#include <stddef.h>

int thread_start(pthread_t *thread, void *(*run)(void *), void *argument) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int status = pthread_create(thread, NULL, run, argument);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return -status;
}
