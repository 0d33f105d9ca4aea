#include "collect.h"

#include "core.h"
#include "programs.h"

#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define WAITS 4096 /* maximum number of waits that are kept until collected */
/* Tolerance in matching waits to events: the kernel adds the timer slack to
 * LTime. */
#define MATCH_NS 1000

/* One wait of the thread. */
struct wait {
  uint64_t ltime, end;
};

struct wake_collect {
  struct wake_collect_options options;
  struct wake_points points;
  struct wake_programs programs;
  uint64_t tail; /* events taken */
  uint64_t overrun;
  int64_t usage_before;
  bool has_thread;
  pthread_t thread;
  _Atomic uint64_t waits_len; /* waits that the thread has finished */
  struct wait waits[WAITS];
  uint64_t waits_taken;
};

const char *wake_method_name(enum wake_method method) {
  static const char *const names[WAKE_METHODS] = {"bpf-timer", "thread",
                                                  "passive"};
  return names[method];
}

static uint64_t now_ns(void) { return clock_now_ns(CLOCK_MONOTONIC); }

/* ---------------------------------------------------------------------------
 * The waiting thread
 */

/* Gives the calling thread a real-time priority or, if that is not permitted,
 * the smallest timer slack. */
static void begin_thread(void) {
  struct sched_param fifo = {.sched_priority = 20};
  if (sched_setscheduler(0, SCHED_FIFO, &fifo) != 0)
    prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
}

/* Sleeps until the time `ns` if flags is TIMER_ABSTIME, or for `ns` if flags is
 * 0. */
static void sleep_ns(int flags, uint64_t ns) {
  struct timespec time = timespec_of_ns(ns);
  clock_nanosleep(CLOCK_MONOTONIC, flags, &time, NULL);
}

/* The main function of the waiting thread. It sets is_armed before it sleeps
 * until LTime, because the programs ignore its timer while is_armed is 0. */
static void *wait_again_and_again(void *argument) {
  struct wake_collect *collect = argument;
  const struct wake_collect_options *options = &collect->options;
  struct wake_probe *probe = collect->programs.probe;
  unsigned seed = (unsigned)now_ns();
  begin_thread();
  __atomic_store_n(&probe->thread, (uint32_t)gettid(), __ATOMIC_SEQ_CST);
  for (;;) { /* until the thread is cancelled while it sleeps */
    uint64_t range = options->distance_max_ns - options->distance_min_ns;
    uint64_t distance =
        options->distance_min_ns +
        (uint64_t)((double)range * rand_r(&seed) / ((double)RAND_MAX + 1));
    if (options->pause_ns > 0)
      sleep_ns(0, options->pause_ns);
    uint64_t ltime = now_ns() + distance;
    probe->steps.distance = distance;
    __atomic_store_n(&probe->steps.is_armed, 1, __ATOMIC_SEQ_CST);
    sleep_ns(TIMER_ABSTIME, ltime);
    uint64_t end = now_ns();
    uint64_t len = atomic_load(&collect->waits_len);
    collect->waits[len % WAITS] = (struct wait){ltime, end};
    atomic_store(&collect->waits_len, len + 1);
  }
  return NULL; /* never reached */
}

/* Starts the waiting thread, which inherits the core and the signal mask of the
 * calling thread. Returns 0 or a negative errno. */
static int start_thread(struct wake_collect *collect) {
  int status =
      pthread_create(&collect->thread, NULL, wait_again_and_again, collect);
  collect->has_thread = status == 0;
  return -status;
}

/* Finds the UserLatency of the event with this LTime; NAN if no wait belongs to
 * the event. Waits are in the same order as events. Returns false if the wait
 * has not ended yet. */
static bool find_wait(struct wake_collect *collect, uint64_t ltime,
                      float *user_us) {
  uint64_t len = atomic_load(&collect->waits_len);
  if (len > WAITS && collect->waits_taken < len - WAITS)
    collect->waits_taken = len - WAITS;
  *user_us = NAN;
  for (; collect->waits_taken < len; collect->waits_taken++) {
    const struct wait *wait = &collect->waits[collect->waits_taken % WAITS];
    if (wait->ltime > ltime)
      return true;
    if (ltime - wait->ltime > MATCH_NS)
      continue;
    *user_us = (float)((double)(wait->end - ltime) / 1e3);
    return true;
  }
  return false;
}

/* ---------------------------------------------------------------------------
 * The collector
 */

static int load(struct wake_collect *collect, char why[WAKE_WHY_SIZE]) {
  const struct wake_collect_options *options = &collect->options;
  int status = wake_programs_load(&collect->programs,
                                  options->method == WAKE_BPF_TIMER, why);
  if (status != 0)
    return status;
  struct wake_probe *probe = collect->programs.probe;
  probe->core = (uint32_t)options->core;
  probe->distance_min = options->distance_min_ns;
  probe->distance_max = options->distance_max_ns;
  probe->pause = options->pause_ns;
  probe->armed_max = UINT64_MAX;
  probe->steps.is_passive = options->method == WAKE_PASSIVE;
  return wake_programs_attach(&collect->programs,
                              options->method != WAKE_PASSIVE, why);
}

static int start(void *context) {
  struct wake_collect *collect = context;
  switch (collect->options.method) {
  case WAKE_BPF_TIMER:
    return wake_programs_start_timer(&collect->programs);
  case WAKE_PASSIVE:
    return 0;
  default:
    return start_thread(collect);
  }
}

static int start_on_core(struct wake_collect *collect,
                         char why[WAKE_WHY_SIZE]) {
  why[0] = '\0';
  int status = wake_core_run(collect->options.core, start, NULL, collect, why);
  if (status != 0 && why[0] == '\0')
    snprintf(why, WAKE_WHY_SIZE,
             "cannot start the %s on core %d: %s; try another --method",
             wake_method_name(collect->options.method), collect->options.core,
             strerror(-status));
  return status;
}

int wake_collect_open(struct wake_collect **result,
                      const struct wake_collect_options *options,
                      char why[WAKE_WHY_SIZE]) {
  struct wake_collect *collect = calloc(1, sizeof(*collect));
  *result = NULL;
  if (collect == NULL) {
    snprintf(why, WAKE_WHY_SIZE, "out of memory");
    return -ENOMEM;
  }
  collect->options = *options;
  wake_core_states(options->core, &collect->points);
  int status = load(collect, why);
  if (status == 0) {
    collect->usage_before = wake_core_usage(options->core);
    collect->programs.probe->steps.idles = 0;
    status = start_on_core(collect, why);
  }
  if (status != 0) {
    wake_collect_close(collect);
    return status;
  }
  *result = collect;
  return 0;
}

/* True if a newer event may have overwritten `event`. */
static bool is_overwritten(const struct wake_probe *probe, uint64_t event) {
  __atomic_thread_fence(__ATOMIC_ACQUIRE); /* read the event before head */
  uint64_t head = __atomic_load_n(&probe->head, __ATOMIC_RELAXED);
  return head - event > WAKE_EVENTS - 1;
}

int wake_collect_poll(struct wake_collect *collect, char why[WAKE_WHY_SIZE]) {
  struct wake_probe *probe = collect->programs.probe;
  uint64_t head = __atomic_load_n(&probe->head, __ATOMIC_ACQUIRE);
  int status = 0;
  if (head - collect->tail > WAKE_EVENTS - 1) {
    collect->overrun += head - collect->tail - (WAKE_EVENTS - 1);
    collect->tail = head - (WAKE_EVENTS - 1);
  }
  for (; status == 0 && collect->tail < head; collect->tail++) {
    struct wake_event event = probe->events[collect->tail % WAKE_EVENTS];
    float user_us = NAN;
    if (is_overwritten(probe, collect->tail))
      collect->overrun++;
    else if (collect->has_thread && !find_wait(collect, event.ltime, &user_us))
      break; /* until the next call */
    else if (collect->has_thread && isnan(user_us))
      collect->points.drops[WAKE_DROP_LOST]++;
    else
      status = wake_points_add(&collect->points, &event, user_us);
  }
  if (status != 0)
    snprintf(why, WAKE_WHY_SIZE, "out of memory");
  return status;
}

const struct wake_points *
wake_collect_points(const struct wake_collect *collect) {
  return &collect->points;
}

void wake_collect_status(const struct wake_collect *collect,
                         struct wake_collect_status *status) {
  const struct wake_probe *probe = collect->programs.probe;
  int64_t usage = wake_core_usage(collect->options.core);
  *status = (struct wake_collect_status){
      .armed =
          collect->has_thread ? atomic_load(&collect->waits_len) : probe->armed,
      .overrun = collect->overrun,
      .is_offline = !wake_core_is_online(collect->options.core),
      .idles = probe->steps.idles,
      .usage = usage < 0 ? -1 : usage - collect->usage_before};
  memcpy(status->drops, collect->points.drops, sizeof(status->drops));
  for (int i = 0; i < WAKE_DROPS_BY_STEPS; i++)
    status->drops[i] += probe->steps.drops[i];
}

void wake_collect_close(struct wake_collect *collect) {
  if (collect == NULL)
    return;
  if (collect->has_thread) {
    wake_core_leave(collect->options.core, collect->thread);
    pthread_cancel(collect->thread);
    pthread_join(collect->thread, NULL);
  }
  if (collect->programs.probe != NULL)
    collect->programs.probe->stop = 1;
  wake_programs_free(&collect->programs);
  wake_points_free(&collect->points);
  free(collect);
}
