/* cancellation: calls of the library are not cancellation points, so that a
 * cancelled thread leaves no lock and no descriptor. */
#ifndef PERCORE_BASE_CANCELLATION_H
#define PERCORE_BASE_CANCELLATION_H

#include <pthread.h>

static inline int cancellation_forbid(void) {
  int before;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  return before;
}

static inline void cancellation_restore(const int *before) {
  pthread_setcancelstate(*before, NULL);
}

/* Until the end of the block, the thread is not cancelled. This takes 80 cycles
 * and is for functions that call cancellation points, pthreads(7), or may. */
#define NOT_CANCELLED                                                          \
  __attribute__((cleanup(cancellation_restore), unused))                       \
  const int cancellation_before = cancellation_forbid()

#endif
