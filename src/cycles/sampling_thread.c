#include "sampling_thread.h"

#include "base/clock.h"

#include <signal.h>
#include <string.h>

/* ---------------------------------------------------------------------------
 * Start and stop
 */

int thread_start(pthread_t *thread, void *(*run)(void *), void *argument) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int status = pthread_create(thread, NULL, run, argument);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return -status;
}

void sampling_thread_init(struct sampling_thread *sampling, size_t queue_room) {
  *sampling = (struct sampling_thread){.queue_room = queue_room};
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&sampling->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  pthread_mutex_init(&sampling->mutex, NULL);
}

void sampling_thread_destroy(struct sampling_thread *sampling) {
  pthread_cond_destroy(&sampling->changed);
  pthread_mutex_destroy(&sampling->mutex);
}

int sampling_thread_start(struct sampling_thread *sampling,
                          void *(*run)(void *), void *argument) {
  int status = thread_start(&sampling->thread, run, argument);
  sampling->started = status == 0;
  return status;
}

void sampling_thread_stop(struct sampling_thread *sampling) {
  if (!sampling->started)
    return;
  pthread_mutex_lock(&sampling->mutex);
  atomic_store(&sampling->stop, true);
  pthread_cond_broadcast(&sampling->changed);
  pthread_mutex_unlock(&sampling->mutex);
  pthread_join(sampling->thread, NULL);
  sampling->started = false;
}

bool sampling_thread_sleep(struct sampling_thread *sampling,
                           uint64_t until_ns) {
  struct timespec until = timespec_of_ns(until_ns);
  pthread_mutex_lock(&sampling->mutex);
  int status = 0;
  while (!atomic_load(&sampling->stop) && status == 0)
    status =
        pthread_cond_timedwait(&sampling->changed, &sampling->mutex, &until);
  pthread_mutex_unlock(&sampling->mutex);
  return !atomic_load(&sampling->stop);
}

bool sampling_thread_sleep_to_grid(struct sampling_thread *sampling,
                                   uint64_t interval_ns, uint64_t lead_ns) {
  uint64_t phase_ns = (clock_now_ns(CLOCK_REALTIME) + lead_ns) % interval_ns;
  return sampling_thread_sleep(sampling, clock_now_ns(CLOCK_MONOTONIC) +
                                             interval_ns - phase_ns);
}

/* ---------------------------------------------------------------------------
 * The queue
 */

/* Removes the oldest snapshot from the queue and returns it, or returns NULL.
 * Call this with the mutex held. */
static void *take_oldest(struct sampling_thread *sampling) {
  if (sampling->queue_len == 0)
    return NULL;
  void *oldest = sampling->queue[0];
  sampling->queue_len--;
  memmove(&sampling->queue[0], &sampling->queue[1],
          sampling->queue_len * sizeof(sampling->queue[0]));
  return oldest;
}

void *sampling_thread_put(struct sampling_thread *sampling, void *snapshot,
                          uint64_t *dropped) {
  void *lost = NULL;
  pthread_mutex_lock(&sampling->mutex);
  if (sampling->queue_len == sampling->queue_room) {
    lost = take_oldest(sampling);
    sampling->dropped++;
  }
  *dropped = sampling->dropped;
  sampling->queue[sampling->queue_len++] = snapshot;
  pthread_cond_broadcast(&sampling->changed);
  pthread_mutex_unlock(&sampling->mutex);
  return lost;
}

void *sampling_thread_wait(struct sampling_thread *sampling,
                           uint64_t until_ns) {
  struct timespec until = timespec_of_ns(until_ns);
  int status = 0;
  pthread_mutex_lock(&sampling->mutex);
  while (sampling->queue_len == 0 && status == 0)
    status =
        pthread_cond_timedwait(&sampling->changed, &sampling->mutex, &until);
  void *snapshot = take_oldest(sampling);
  pthread_mutex_unlock(&sampling->mutex);
  return snapshot;
}
