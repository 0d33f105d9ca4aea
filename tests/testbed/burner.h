/* burner: a thread that keeps one core busy for a known share of the time, and
 * records its busy time for comparison with loads. It runs in rounds: in each
 * period, it is busy for a while and then sleeps.
 *
 * The record does not include the kernel's work for the burner: wake-ups, ticks
 * and system calls. A burner with the same number of empty rounds shows how
 * much load this work is.
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
  /* If true, each round begins `phase_ns` after a tick of the core, and the
   * period must be a whole number of ticks. If false, rounds drift relative to
   * the tick. */
  bool tick_locked;
  int64_t phase_ns;
  /* If true, each tick begins a round. busy_ns and phase_ns are then given for
   * a tick of 4 ms (Debian's HZ=250) and are scaled to the machine's tick. */
  bool each_tick;
};

struct burner {
  pthread_t thread;
  int core;
  struct pattern pattern;
  uint64_t tick_phase_ns; /* CLOCK_MONOTONIC time of any tick */
  pthread_mutex_t mutex;
  pthread_cond_t round_ended;
  bool stop;
  uint64_t busy_ns;  /* of completed rounds */
  uint64_t since_ns; /* start of the current round; 0 between rounds */
  uint64_t late_ns;  /* sum of the delays with which rounds began */
};

uint64_t now_ns(void); /* CLOCK_MONOTONIC */
void sleep_ns(uint64_t ns);
/* Pins the calling thread to a core. Returns false if that is not allowed. */
bool run_on(int core);
/* Returns the period of this kernel's tick in nanoseconds: 1 s / HZ. */
uint64_t tick_ns(void);
/* Returns the CLOCK_MONOTONIC time of any tick of a core, in nanoseconds, or 0
 * if it is unknown (only root can read /proc/timer_list). */
uint64_t find_tick(int core);

void burner_start(struct burner *burner, int core,
                  const struct pattern *pattern);
void burner_stop(struct burner *burner);
/* Returns the busy time so far in nanoseconds, including the current round. */
uint64_t burner_busy_ns(struct burner *burner);
/* Returns the sum of the delays, in nanoseconds, with which rounds have begun
 * so far. It is unknown whether the core was idle during a delay. Delays are
 * long in a guest that runs in real time on a busy host. */
uint64_t burner_late_ns(struct burner *burner);
/* Waits until a round ends, but at most for a second. */
void burner_wait_for_rest(struct burner *burner);

#endif
