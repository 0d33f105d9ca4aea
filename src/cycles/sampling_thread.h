/* sampling_thread: a thread that takes snapshots on time, and the queue in
 * which they wait for a consumer.
 *
 * What is sampled is its owner's: a snapshot is a pointer here. The thread runs
 * with all signals blocked, is never pinned, and never waits for its consumer:
 * who does not take snapshots loses the oldest. Only what is said to be of any
 * thread may be called beside the rest.
 */
#ifndef PERCORE_SAMPLING_THREAD_H
#define PERCORE_SAMPLING_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAMPLING_QUEUE_MAX 16

struct sampling_thread {
  pthread_t thread;
  atomic_bool stop; /* set once; the thread ends as soon as it sees it */

  pthread_mutex_t mutex;  /* guards what follows */
  pthread_cond_t changed; /* on CLOCK_MONOTONIC: stop, or a new snapshot */
  void *queue[SAMPLING_QUEUE_MAX]; /* the oldest first */
  size_t queue_len, queue_room;
  uint64_t dropped;
};

/* queue_room: snapshots kept for a consumer that is late, at most
 * SAMPLING_QUEUE_MAX. */
void sampling_thread_init(struct sampling_thread *sampling, size_t queue_room);

/* Of one that is stopped or was never started, its queue taken empty. */
void sampling_thread_destroy(struct sampling_thread *sampling);

/* Returns 0, or -errno of pthread_create. */
int sampling_thread_start(struct sampling_thread *sampling,
                          void *(*run)(void *), void *argument);

/* Wakes the thread and joins it. */
void sampling_thread_stop(struct sampling_thread *sampling);

/* Sleeps until a time of CLOCK_MONOTONIC. False as soon as the thread is to
 * stop. Any thread. */
bool sampling_thread_sleep(struct sampling_thread *sampling, uint64_t until_ns);

/* Queues a snapshot. *dropped, which may lie within it, becomes how many have
 * been lost so far; no consumer sees the snapshot before. Returns the one that
 * is lost now, to be freed, or NULL. */
void *sampling_thread_put(struct sampling_thread *sampling, void *snapshot,
                          uint64_t *dropped);

/* The oldest snapshot not yet taken, or NULL. Any thread. */
void *sampling_thread_take(struct sampling_thread *sampling);

/* The same, waiting for one until a time of CLOCK_MONOTONIC. Any thread. */
void *sampling_thread_wait(struct sampling_thread *sampling, uint64_t until_ns);

#endif
