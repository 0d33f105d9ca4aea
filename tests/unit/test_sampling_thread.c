/* Tests the thread and the queue of a sampler. */
#include "unit.h"

#include "cycles/sampling_thread.h"

#include <signal.h>

enum { ROOM = 3, SNAPSHOTS = 5 };

static int snapshots[SNAPSHOTS];

TEST(a_full_queue_drops_the_oldest_and_counts_it) {
  struct sampling_thread sampling;
  sampling_thread_init(&sampling, ROOM);
  for (int i = 0; i < SNAPSHOTS; i++) {
    uint64_t dropped = 99;
    void *lost = sampling_thread_put(&sampling, &snapshots[i], &dropped);
    assert_ptr_equal(lost, i < ROOM ? NULL : &snapshots[i - ROOM]);
    assert_int_equal(dropped, i < ROOM ? 0 : i - ROOM + 1);
  }
  for (int i = SNAPSHOTS - ROOM; i < SNAPSHOTS; i++)
    assert_ptr_equal(sampling_thread_take(&sampling), &snapshots[i]);
  assert_null(sampling_thread_take(&sampling));
  sampling_thread_destroy(&sampling);
}

TEST(waiting_ends_with_a_snapshot_or_at_its_deadline) {
  struct sampling_thread sampling;
  uint64_t dropped;
  sampling_thread_init(&sampling, ROOM);
  assert_null(sampling_thread_wait(&sampling, 1)); /* the time 1 is long past */
  sampling_thread_put(&sampling, &snapshots[0], &dropped);
  assert_ptr_equal(sampling_thread_wait(&sampling, 1), &snapshots[0]);
  sampling_thread_destroy(&sampling);
}

struct sleeper {
  struct sampling_thread sampling;
  bool slept_on, takes_signals;
};

#define FOR_EVER (UINT64_C(1) << 60)

static void *sleep_for_ever(void *argument) {
  struct sleeper *sleeper = argument;
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  sleeper->takes_signals = !sigismember(&blocked, SIGTERM);
  sampling_thread_put(&sleeper->sampling, sleeper, &(uint64_t){0});
  sleeper->slept_on = sampling_thread_sleep(&sleeper->sampling, FOR_EVER);
  return NULL;
}

TEST(a_sleeping_thread_is_woken_to_stop) {
  struct sleeper sleeper = {.slept_on = true, .takes_signals = true};
  sampling_thread_init(&sleeper.sampling, ROOM);
  assert_int_equal(
      sampling_thread_start(&sleeper.sampling, sleep_for_ever, &sleeper), 0);
  assert_ptr_equal(sampling_thread_wait(&sleeper.sampling, FOR_EVER), &sleeper);
  sampling_thread_stop(&sleeper.sampling);
  assert_false(sleeper.slept_on);
  assert_false(sleeper.takes_signals);
  sampling_thread_destroy(&sleeper.sampling);
}
