/* sampling_thread: a thread that takes snapshots on time, and the queue in
 * which they wait for a consumer.
 *
 * To this file a snapshot is just a pointer. The thread blocks all signals, is
 * never pinned, and never waits for its consumer: if snapshots are not taken,
 * the oldest is dropped. Only calls marked "any thread" may run beside others.
 */
#ifndef PERCORE_SAMPLING_THREAD_H
#define PERCORE_SAMPLING_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts a thread that receives none of the host's signals, as pthread_create
 * with all signals blocked. Returns 0 or -errno. */
int thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#define SAMPLING_QUEUE_MAX 16

struct sampling_thread {
  pthread_t thread;
  atomic_bool stop; /* set once; the thread then ends soon */

  pthread_mutex_t mutex;  /* guards the members below */
  pthread_cond_t changed; /* on CLOCK_MONOTONIC: stop, or a new snapshot */
  void *queue[SAMPLING_QUEUE_MAX]; /* the oldest first */
  size_t queue_len, queue_room;
  uint64_t dropped;
};

/* queue_room: how many snapshots are kept for a late consumer, at most
 * SAMPLING_QUEUE_MAX. */
void sampling_thread_init(struct sampling_thread *sampling, size_t queue_room);

/* The thread must have been stopped or never started, and the queue be empty.
 */
void sampling_thread_destroy(struct sampling_thread *sampling);

/* Returns 0, or -errno of pthread_create. */
int sampling_thread_start(struct sampling_thread *sampling,
                          void *(*run)(void *), void *argument);

/* Wakes the thread and joins it. */
void sampling_thread_stop(struct sampling_thread *sampling);

/* Sleeps until a time of CLOCK_MONOTONIC. Returns false as soon as the thread
 * must stop. Any thread. */
bool sampling_thread_sleep(struct sampling_thread *sampling, uint64_t until_ns);

/* Queues a snapshot. Before any consumer sees it, sets *dropped, which may be
 * part of the snapshot, to the number dropped so far. Returns the snapshot that
 * is dropped now, which the caller frees, or NULL. */
void *sampling_thread_put(struct sampling_thread *sampling, void *snapshot,
                          uint64_t *dropped);

/* Returns the oldest snapshot not yet taken, or NULL. Any thread. */
void *sampling_thread_take(struct sampling_thread *sampling);

/* The same, but waits for a snapshot until a time of CLOCK_MONOTONIC. Any
 * thread. */
void *sampling_thread_wait(struct sampling_thread *sampling, uint64_t until_ns);

#endif
