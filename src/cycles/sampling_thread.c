#include "sampling_thread.h"

#include "base/clock.h"

#include <errno.h>

static void *run_to_end(void *argument) {
  struct sampling_thread *sampling = argument;
  sampling->run(sampling->argument);
  semaphore_post(&sampling->ended);
  return NULL;
}

int sampling_thread_start(struct sampling_thread *sampling,
                          void *(*run)(void *), void *argument) {
  if (sampling->started)
    pthread_join(sampling->thread, NULL);
  sampling->run = run;
  sampling->argument = argument;
  sampling->stopped = sampling->ended = (struct semaphore){0};
  int status = thread_start(&sampling->thread, run_to_end, sampling);
  sampling->started = status == 0;
  return status;
}

bool sampling_thread_stop(struct sampling_thread *sampling, uint64_t until_ns) {
  if (!sampling->started)
    return true;
  atomic_store(&sampling->stop, true);
  semaphore_post(&sampling->stopped);
  while (!semaphore_wait(&sampling->ended, until_ns))
    if (errno == ETIMEDOUT)
      return false;
  pthread_join(sampling->thread, NULL);
  sampling->started = false;
  return true;
}

bool sampling_thread_sleep(struct sampling_thread *sampling,
                           uint64_t until_ns) {
  while (!atomic_load(&sampling->stop) &&
         !semaphore_wait(&sampling->stopped, until_ns) && errno == EINTR)
    ;
  return !atomic_load(&sampling->stop);
}

bool sampling_thread_sleep_to_grid(struct sampling_thread *sampling,
                                   uint64_t interval_ns, uint64_t lead_ns) {
  uint64_t phase_ns = (clock_now_ns(CLOCK_REALTIME) + lead_ns) % interval_ns;
  return sampling_thread_sleep(sampling, clock_now_ns(CLOCK_MONOTONIC) +
                                             interval_ns - phase_ns);
}
