#include "sampling_thread.h"

#include "base/clock.h"

#include <errno.h>
#include <signal.h>

int thread_start(pthread_t *thread, void *(*run)(void *), void *argument) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int status = pthread_create(thread, NULL, run, argument);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return -status;
}

int sampling_thread_start(struct sampling_thread *sampling,
                          void *(*run)(void *), void *argument) {
  if (sampling->started)
    pthread_join(sampling->thread, NULL);
  sem_init(&sampling->stopped, 0, 0);
  int status = thread_start(&sampling->thread, run, argument);
  sampling->started = status == 0;
  return status;
}

bool sampling_thread_stop(struct sampling_thread *sampling, uint64_t until_ns) {
  struct timespec until = timespec_of_ns(until_ns);
  if (!sampling->started)
    return true;
  atomic_store(&sampling->stop, true);
  sem_post(&sampling->stopped);
  sampling->started = until_ns == UINT64_MAX
                          ? pthread_join(sampling->thread, NULL) != 0
                          : pthread_clockjoin_np(sampling->thread, NULL,
                                                 CLOCK_MONOTONIC, &until) != 0;
  return !sampling->started;
}

bool sampling_thread_sleep(struct sampling_thread *sampling,
                           uint64_t until_ns) {
  struct timespec until = timespec_of_ns(until_ns);
  while (!atomic_load(&sampling->stop) &&
         sem_clockwait(&sampling->stopped, CLOCK_MONOTONIC, &until) != 0 &&
         errno == EINTR)
    ;
  return !atomic_load(&sampling->stop);
}

bool sampling_thread_sleep_to_grid(struct sampling_thread *sampling,
                                   uint64_t interval_ns, uint64_t lead_ns) {
  uint64_t phase_ns = (clock_now_ns(CLOCK_REALTIME) + lead_ns) % interval_ns;
  return sampling_thread_sleep(sampling, clock_now_ns(CLOCK_MONOTONIC) +
                                             interval_ns - phase_ns);
}
