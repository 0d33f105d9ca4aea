/* sampling_thread: a thread that works at certain times until it is stopped. It
 * blocks all signals and is not pinned. */
#ifndef PERCORE_SAMPLING_THREAD_H
#define PERCORE_SAMPLING_THREAD_H

#include "base/portable.h"
#include "base/thread.h"

/* Before sampling_thread_start, all members are 0. */
struct sampling_thread {
  pthread_t thread;
  bool started;
  void *(*run)(void *);
  void *argument;
  atomic_bool stop;         /* once set, the thread ends soon */
  struct semaphore stopped; /* is posted when the thread must stop */
  struct semaphore ended;   /* is posted when it has ended */
};

/* Starts a thread that calls run(argument). If such a thread was started
 * before, it must have ended by itself. Returns 0, or the -errno of
 * pthread_create. */
int sampling_thread_start(struct sampling_thread *sampling,
                          void *(*run)(void *), void *argument);

/* Tells the thread to end, and waits for its end until until_ns of
 * CLOCK_MONOTONIC. Returns false if it still runs. Does nothing if the thread
 * was not started. */
bool sampling_thread_stop(struct sampling_thread *sampling, uint64_t until_ns);

/* Sleeps until a CLOCK_MONOTONIC time. Returns false as soon as the thread must
 * stop. Only the thread itself may call this. */
bool sampling_thread_sleep(struct sampling_thread *sampling, uint64_t until_ns);

/* Sleeps until `lead_ns` before the next multiple of `interval_ns` of
 * CLOCK_REALTIME. lead_ns must be less than interval_ns. Returns as
 * sampling_thread_sleep does. */
bool sampling_thread_sleep_to_grid(struct sampling_thread *sampling,
                                   uint64_t interval_ns, uint64_t lead_ns);

#endif
