/* burner: a thread that keeps one core busy for a known share of the time, and
 * keeps the log against which loads are measured.
 *
 * Its log holds only what it did itself: waking up, the tick and the system
 * calls in between are work of the core, too, that the log does not have. A
 * burner whose rounds are as many but empty shows how much that is.
 */
#ifndef TESTBED_BURNER_H
#define TESTBED_BURNER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct pattern {
  const char *name;
  uint64_t busy_ns;
  uint64_t period_ns;
  /* Every round begins `phase_ns` after a tick of the core, so that the period
   * must be a whole number of ticks; else rounds drift against the tick. */
  bool tick_locked;
  int64_t phase_ns;
  /* One round in each tick: the times are those for a tick of 4 ms (HZ=250, as
   * Debian's kernels have it) and scaled to that of the machine. */
  bool each_tick;
};

struct burner {
  pthread_t thread;
  int core;
  struct pattern pattern;
  uint64_t tick_phase_ns; /* CLOCK_MONOTONIC of any one tick */
  pthread_mutex_t mutex;
  pthread_cond_t round_ended;
  bool stop;
  uint64_t busy_ns;  /* of the rounds that ended */
  uint64_t since_ns; /* when the one in progress began; 0: none */
  uint64_t late_ns;  /* how much later than they should rounds began, in all */
};

uint64_t now_ns(void); /* CLOCK_MONOTONIC */
void sleep_ns(uint64_t ns);
/* Puts the calling thread on one core. False if it may not run there. */
bool run_on(int core);
/* How long a tick of this kernel is: 1 s / HZ. */
uint64_t tick_ns(void);
/* CLOCK_MONOTONIC of any one tick of a core; 0: not known (/proc/timer_list is
 * for root). */
uint64_t find_tick(int core);

void burner_start(struct burner *burner, int core,
                  const struct pattern *pattern);
void burner_stop(struct burner *burner);
/* Time spent busy so far, the round in progress included. */
uint64_t burner_busy_ns(struct burner *burner);
/* By how much its rounds have begun too late so far: time in which the core may
 * or may not have idled, no one knows. It is much where a guest in real time
 * has a busy host. */
uint64_t burner_late_ns(struct burner *burner);
/* Waits (a second at most) for the end of a round. */
void burner_wait_for_rest(struct burner *burner);

#endif
