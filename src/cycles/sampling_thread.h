/* sampling_thread: a thread that takes snapshots on schedule, and the queue in
 * which they wait for a consumer.
 *
 * To this file, a snapshot is just a pointer. The thread blocks all signals, is
 * not pinned, and never waits for its consumer: when the queue is full, the
 * oldest snapshot is dropped. Functions may run concurrently only if their
 * comments say that any thread may call them. */
#ifndef PERCORE_SAMPLING_THREAD_H
#define PERCORE_SAMPLING_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts a thread that blocks all signals, so that it never handles the signals
 * of the host program. Returns 0 or -errno. */
int thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#define SAMPLING_QUEUE_MAX 16

struct sampling_thread {
  pthread_t thread;
  bool started;
  atomic_bool stop; /* once set, the thread ends soon */

  pthread_mutex_t mutex;  /* guards the members below */
  pthread_cond_t changed; /* a new snapshot or stop; uses CLOCK_MONOTONIC */
  void *queue[SAMPLING_QUEUE_MAX]; /* oldest first */
  size_t queue_len, queue_room;
  uint64_t dropped;
};

/* queue_room is the largest number of snapshots that are kept until the
 * consumer takes them, at most SAMPLING_QUEUE_MAX. */
void sampling_thread_init(struct sampling_thread *sampling, size_t queue_room);

/* The thread must have been stopped or never started, and the queue must be
 * empty. */
void sampling_thread_destroy(struct sampling_thread *sampling);

/* Starts a thread that calls run(argument). Returns 0, or the -errno of
 * pthread_create. */
int sampling_thread_start(struct sampling_thread *sampling,
                          void *(*run)(void *), void *argument);

/* Tells the thread to end, and waits until it has ended. Does nothing if the
 * thread was not started. */
void sampling_thread_stop(struct sampling_thread *sampling);

/* Sleeps until a CLOCK_MONOTONIC time. Returns false as soon as the thread must
 * stop. Any thread may call this. */
bool sampling_thread_sleep(struct sampling_thread *sampling, uint64_t until_ns);

/* Sleeps until `lead_ns` before the next multiple of `interval_ns` of
 * CLOCK_REALTIME. lead_ns must be less than interval_ns. Returns as
 * sampling_thread_sleep does. */
bool sampling_thread_sleep_to_grid(struct sampling_thread *sampling,
                                   uint64_t interval_ns, uint64_t lead_ns);

/* Sets *dropped, which may be a member of the snapshot, to the number of
 * snapshots dropped so far, and then queues the snapshot. Returns NULL, or a
 * snapshot that was dropped to make room, which the caller frees. */
void *sampling_thread_put(struct sampling_thread *sampling, void *snapshot,
                          uint64_t *dropped);

/* Returns the oldest snapshot in the queue. Waits for one until until_ns of
 * CLOCK_MONOTONIC, and then returns NULL. Any thread may call this. */
void *sampling_thread_wait(struct sampling_thread *sampling, uint64_t until_ns);

/* Like sampling_thread_wait, but does not wait. */
static inline void *sampling_thread_take(struct sampling_thread *sampling) {
  return sampling_thread_wait(sampling, 0);
}

#endif
