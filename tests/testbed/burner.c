#include "burner.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static void sleep_until(uint64_t ns) {
  struct timespec time = {.tv_sec = (time_t)(ns / UINT64_C(1000000000)),
                          .tv_nsec = (long)(ns % UINT64_C(1000000000))};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
    ;
}

void sleep_ns(uint64_t ns) { sleep_until(now_ns() + ns); }

bool run_on(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  return sched_setaffinity(0, sizeof(set), &set) == 0;
}

/* ---------------------------------------------------------------------------
 * The time of the tick
 */

uint64_t tick_ns(void) {
  struct timespec resolution;
  clock_getres(CLOCK_MONOTONIC_COARSE, &resolution);
  return (uint64_t)resolution.tv_nsec;
}

/* With high-resolution timers, the tick of a core is an hrtimer, and
 * /proc/timer_list shows when it expires next. Without them, or while the tick
 * is stopped, the file shows the time of the last tick. The ticks of all cores
 * coincide unless skew_tick is set. */
uint64_t find_tick(int core) {
  FILE *file = fopen("/proc/timer_list", "r");
  if (file == NULL)
    return 0;
  char line[256];
  int at = -1;
  bool is_tick = false;
  unsigned long long expires = 0, last = 0, value;
  while (fgets(line, sizeof(line), file) != NULL) {
    if (sscanf(line, "cpu: %d", &at) == 1 || at != core)
      continue;
    if (strstr(line, "tick_sched_timer") != NULL)
      is_tick = true;
    else if (is_tick && sscanf(line, " # expires at %llu", &value) == 1) {
      expires = value;
      is_tick = false;
    } else if (sscanf(line, " .last_tick : %llu", &value) == 1)
      last = value;
  }
  fclose(file);
  return expires != 0 ? expires : last;
}

/* ---------------------------------------------------------------------------
 * Rounds
 */

static bool begin_round(struct burner *burner, uint64_t due, uint64_t now) {
  pthread_mutex_lock(&burner->mutex);
  bool stop = burner->stop;
  burner->late_ns += now - due;
  burner->since_ns = stop ? 0 : now;
  pthread_mutex_unlock(&burner->mutex);
  return !stop;
}

static void end_round(struct burner *burner, uint64_t now) {
  pthread_mutex_lock(&burner->mutex);
  burner->busy_ns += now - burner->since_ns;
  burner->since_ns = 0;
  pthread_cond_broadcast(&burner->round_ended);
  pthread_mutex_unlock(&burner->mutex);
}

/* Returns the time at which the next round after `now` begins. */
static uint64_t next_round(const struct burner *burner, uint64_t now) {
  uint64_t period = burner->pattern.period_ns;
  uint64_t phase = (uint64_t)(burner->pattern.phase_ns + (int64_t)period);
  uint64_t origin = (burner->tick_phase_ns + phase) % period;
  return now - (now + period - origin) % period + period;
}

/* Returns whether the burner runs on its own core. If not, first tries to move
 * it back. When a core goes offline, its threads move to other cores and stay
 * there; the burner then does no work until it can return. */
static bool is_at_home(const struct burner *burner) {
  return sched_getcpu() == burner->core || run_on(burner->core);
}

static void *burn(void *argument) {
  struct burner *burner = argument;
  const struct pattern *pattern = &burner->pattern;
  is_at_home(burner);
  uint64_t due = now_ns();
  if (pattern->tick_locked)
    due = next_round(burner, due);
  for (;;) {
    sleep_until(due);
    uint64_t begin = now_ns(), now = begin;
    if (!begin_round(burner, due, begin))
      return NULL;
    while (now - begin < pattern->busy_ns && is_at_home(burner))
      now = now_ns();
    end_round(burner, now);
    due = pattern->tick_locked ? next_round(burner, now)
                               : begin + pattern->period_ns;
    if (due < now)
      due = now;
  }
}

static struct pattern fit_to_tick(struct pattern pattern) {
  if (!pattern.each_tick)
    return pattern;
  double scale = (double)tick_ns() / 4e6;
  pattern.busy_ns = (uint64_t)((double)pattern.busy_ns * scale);
  pattern.phase_ns = (int64_t)((double)pattern.phase_ns * scale);
  pattern.period_ns = tick_ns();
  return pattern;
}

void burner_start(struct burner *burner, int core,
                  const struct pattern *pattern) {
  *burner = (struct burner){.core = core, .pattern = fit_to_tick(*pattern)};
  pthread_mutex_init(&burner->mutex, NULL);
  pthread_cond_init(&burner->round_ended, NULL);
  if (pattern->tick_locked)
    burner->tick_phase_ns = find_tick(core);
  if (pthread_create(&burner->thread, NULL, burn, burner) != 0)
    abort();
}

void burner_stop(struct burner *burner) {
  pthread_mutex_lock(&burner->mutex);
  burner->stop = true;
  pthread_mutex_unlock(&burner->mutex);
  pthread_join(burner->thread, NULL);
  pthread_mutex_destroy(&burner->mutex);
  pthread_cond_destroy(&burner->round_ended);
}

uint64_t burner_busy_ns(struct burner *burner) {
  pthread_mutex_lock(&burner->mutex);
  uint64_t busy = burner->busy_ns;
  if (burner->since_ns != 0)
    busy += now_ns() - burner->since_ns;
  pthread_mutex_unlock(&burner->mutex);
  return busy;
}

uint64_t burner_late_ns(struct burner *burner) {
  pthread_mutex_lock(&burner->mutex);
  uint64_t late = burner->late_ns;
  pthread_mutex_unlock(&burner->mutex);
  return late;
}

void burner_wait_for_rest(struct burner *burner) {
  struct timespec deadline;
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec++;
  pthread_mutex_lock(&burner->mutex);
  pthread_cond_timedwait(&burner->round_ended, &burner->mutex, &deadline);
  pthread_mutex_unlock(&burner->mutex);
}
