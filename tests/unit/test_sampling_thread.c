/* Tests how a sampling thread starts, sleeps and stops. */
#include "unit.h"

#include "cycles/sampling_thread.h"

#include <semaphore.h>
#include <signal.h>

#define FOR_EVER (UINT64_C(1) << 60)

static struct sleeper {
  struct sampling_thread sampling;
  atomic_int begun;
  bool slept_on, takes_signals;
  sem_t may_end;
} sleeper;

static void set_up(void) {
  sleeper = (struct sleeper){.slept_on = true, .takes_signals = true};
  sem_init(&sleeper.may_end, 0, 0);
}

static void *sleep_for_ever(void *argument) {
  sigset_t blocked;
  assert_ptr_equal(argument, &sleeper);
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  sleeper.takes_signals = !sigismember(&blocked, SIGTERM);
  atomic_fetch_add(&sleeper.begun, 1);
  sleeper.slept_on = sampling_thread_sleep(&sleeper.sampling, FOR_EVER);
  return NULL;
}

static void *wait_for_test(void *argument) {
  (void)argument;
  atomic_fetch_add(&sleeper.begun, 1);
  sem_wait(&sleeper.may_end);
  return NULL;
}

static void start(void *(*run)(void *)) {
  int begun = atomic_load(&sleeper.begun);
  assert_int_equal(sampling_thread_start(&sleeper.sampling, run, &sleeper), 0);
  while (atomic_load(&sleeper.begun) == begun)
    sched_yield();
}

TEST(a_sleeping_thread_is_woken_to_stop) {
  start(sleep_for_ever);
  assert_true(sampling_thread_stop(&sleeper.sampling, FOR_EVER));
  assert_false(sleeper.slept_on);
  assert_false(sleeper.takes_signals);
}

TEST(stopping_waits_no_longer_than_wanted) {
  start(wait_for_test);
  assert_false(sampling_thread_stop(&sleeper.sampling, 1)); /* long past */
  sem_post(&sleeper.may_end);
  assert_true(sampling_thread_stop(&sleeper.sampling, FOR_EVER));
  assert_true(sampling_thread_stop(&sleeper.sampling, 1));
}

TEST(a_thread_that_has_ended_can_be_started_again) {
  for (int i = 0; i < 3; i++) {
    start(wait_for_test);
    sem_post(&sleeper.may_end);
  }
  start(sleep_for_ever);
  assert_true(sampling_thread_stop(&sleeper.sampling, FOR_EVER));
}

const struct unit_fixtures unit_fixtures = {.before_each = set_up};
