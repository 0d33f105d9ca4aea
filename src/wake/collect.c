#include "collect.h"

#include "core.h"
#include "programs.h"
#include "tracepoints.h"

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
  struct wake_classifier classifier;
  enum wake_source source;
  struct wake_programs programs;       /* of WAKE_BPF */
  struct wake_tracepoints tracepoints; /* of WAKE_PERF */
  struct wake_probe *probe;            /* NULL for WAKE_NONE */
  uint64_t tail;                       /* events taken */
  uint64_t overrun;
  int64_t usage_before;
  bool has_thread;
  pthread_t thread;
  _Atomic uint64_t waits_len; /* waits that the thread has finished */
  struct wait waits[WAITS];
  uint64_t waits_taken;
};

const char *wake_method_name(enum wake_method method) {
  static const char *const names[] = {"bpf-timer", "thread", "passive", "user"};
  return names[method];
}

const char *wake_source_name(enum wake_source source) {
  static const char *const names[] = {"auto", "bpf", "perf", "none"};
  return names[source];
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

/* The main function of the waiting thread. If the BPF programs observe the
 * thread, this function sets is_armed before the thread sleeps until LTime,
 * because the programs ignore timers that expire while is_armed is 0. The
 * reader of the tracepoints sets is_armed itself: it recognizes a pause by its
 * relative time. */
static void *wait_again_and_again(void *argument) {
  struct wake_collect *collect = argument;
  const struct wake_collect_options *options = &collect->options;
  struct wake_probe *probe = collect->probe;
  unsigned seed = (unsigned)now_ns();
  begin_thread();
  if (probe != NULL)
    __atomic_store_n(&probe->thread, (uint32_t)gettid(), __ATOMIC_SEQ_CST);
  for (;;) { /* until the thread is cancelled while it sleeps */
    uint64_t range = options->distance_max_ns - options->distance_min_ns;
    uint64_t distance =
        options->distance_min_ns +
        (uint64_t)((double)range * rand_r(&seed) / ((double)RAND_MAX + 1));
    if (options->pause_ns > 0)
      sleep_ns(0, options->pause_ns);
    uint64_t ltime = now_ns() + distance;
    if (collect->source == WAKE_BPF) {
      probe->steps.distance = distance;
      __atomic_store_n(&probe->steps.is_armed, 1, __ATOMIC_SEQ_CST);
    }
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

/* Skips waits that newer waits have overwritten. Returns how many it skipped.
 */
static uint64_t skip_overwritten_waits(struct wake_collect *collect,
                                       uint64_t len) {
  uint64_t taken = collect->waits_taken;
  if (len > WAITS && taken < len - WAITS)
    collect->waits_taken = len - WAITS;
  return collect->waits_taken - taken;
}

/* Returns the UserLatency of the event with this LTime in microseconds, or NAN
 * if no wait belongs to the event. Waits are in the same order as events. */
static float user_us(struct wake_collect *collect, uint64_t ltime) {
  uint64_t len = atomic_load(&collect->waits_len);
  skip_overwritten_waits(collect, len);
  for (uint64_t i = collect->waits_taken; i < len; i++) {
    const struct wait *wait = &collect->waits[i % WAITS];
    if (wait->ltime > ltime)
      break;
    if (ltime - wait->ltime > MATCH_NS)
      continue;
    collect->waits_taken = i + 1;
    return (float)((double)(wait->end - ltime) / 1e3);
  }
  return NAN;
}

/* ---------------------------------------------------------------------------
 * The collector
 */

static int load_programs(struct wake_collect *collect,
                         char why[WAKE_WHY_SIZE]) {
  int status = wake_programs_load(&collect->programs, why);
  if (status != 0)
    return status;
  collect->source = WAKE_BPF;
  collect->probe = collect->programs.probe;
  return 0;
}

static int open_tracepoints(struct wake_collect *collect,
                            char why[WAKE_WHY_SIZE]) {
  struct wake_probe *probe = calloc(1, sizeof(*probe));
  if (probe == NULL) {
    snprintf(why, WAKE_WHY_SIZE, "out of memory");
    return -ENOMEM;
  }
  int status =
      wake_tracepoints_open(&collect->tracepoints, collect->options.core, why);
  if (status != 0) {
    free(probe);
    return status;
  }
  collect->source = WAKE_PERF;
  collect->probe = probe;
  return 0;
}

/* Opens the BPF programs or, if that fails, the tracepoints, as far as the
 * options allow. Returns 0 or a negative errno. */
static int open_source(struct wake_collect *collect, char why[WAKE_WHY_SIZE]) {
  const enum wake_source wanted = collect->options.source;
  const bool may_be_perf =
      wanted != WAKE_BPF && collect->options.method != WAKE_BPF_TIMER;
  int status = -EINVAL;
  snprintf(why, WAKE_WHY_SIZE, "only BPF programs can start a BPF timer");
  if (wanted != WAKE_PERF)
    status = load_programs(collect, why);
  if (status == 0 || !may_be_perf)
    return status;
  char bpf[WAKE_WHY_SIZE], perf[WAKE_WHY_SIZE];
  memcpy(bpf, why, sizeof(bpf));
  status = open_tracepoints(collect, perf);
  if (status != 0 && wanted == WAKE_PERF)
    memcpy(why, perf, sizeof(perf));
  else if (status != 0)
    snprintf(why, WAKE_WHY_SIZE,
             "neither source works. bpf: %.200s; perf: %.200s", bpf, perf);
  return status;
}

static int load(struct wake_collect *collect, char why[WAKE_WHY_SIZE]) {
  const struct wake_collect_options *options = &collect->options;
  int status = open_source(collect, why);
  if (status != 0)
    return status;
  collect->probe->core = (uint32_t)options->core;
  collect->probe->distance_min = options->distance_min_ns;
  collect->probe->distance_max = options->distance_max_ns;
  collect->probe->pause = options->pause_ns;
  collect->probe->armed_max = UINT64_MAX;
  collect->probe->steps.is_passive = options->method == WAKE_PASSIVE;
  return collect->source == WAKE_PERF
             ? 0
             : wake_programs_attach(&collect->programs,
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

static void read_tracepoints(struct wake_collect *collect) {
  if (collect->source == WAKE_PERF)
    wake_tracepoints_read(&collect->tracepoints, collect->probe);
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
  collect->source = WAKE_NONE;
  struct wake_classifier *classifier = &collect->classifier;
  classifier->states_len =
      wake_core_states(options->core, &classifier->points, classifier->states);
  int status = options->method == WAKE_USER ? 0 : load(collect, why);
  read_tracepoints(collect);
  collect->usage_before = wake_core_usage(options->core);
  if (collect->probe != NULL)
    collect->probe->steps.idles = 0;
  if (status == 0)
    status = start_on_core(collect, why);
  if (status != 0) {
    wake_collect_close(collect);
    return status;
  }
  *result = collect;
  return 0;
}

/* Turns the waits of the thread into datapoints with an unknown idle state, for
 * WAKE_USER. Returns 0 or -ENOMEM. */
static int take_waits(struct wake_collect *collect) {
  struct wake_points *points = &collect->classifier.points;
  uint64_t len = atomic_load(&collect->waits_len);
  int status = 0;
  collect->overrun += skip_overwritten_waits(collect, len);
  int state = wake_points_state(points, "unknown");
  for (; status == 0 && collect->waits_taken < len; collect->waits_taken++) {
    const struct wait *wait = &collect->waits[collect->waits_taken % WAITS];
    struct wake_point point = {
        .us = {NAN, NAN, (float)((double)(wait->end - wait->ltime) / 1e3), NAN},
        .distance_us = NAN,
        .state = (uint8_t)(state < 0 ? 0 : state)};
    status = wake_points_add(points, &point);
  }
  return status;
}

/* True if a newer event may have overwritten `event`. */
static bool is_overwritten(const struct wake_probe *probe, uint64_t event) {
  __atomic_thread_fence(__ATOMIC_ACQUIRE); /* read the event before head */
  uint64_t head = __atomic_load_n(&probe->head, __ATOMIC_RELAXED);
  return head - event > WAKE_EVENTS - 1;
}

static int take_events(struct wake_collect *collect) {
  struct wake_probe *probe = collect->probe;
  uint64_t head = __atomic_load_n(&probe->head, __ATOMIC_ACQUIRE);
  int status = 0;
  if (head - collect->tail > WAKE_EVENTS - 1) {
    collect->overrun += head - collect->tail - (WAKE_EVENTS - 1);
    collect->tail = head - (WAKE_EVENTS - 1);
  }
  for (; status == 0 && collect->tail < head; collect->tail++) {
    struct wake_event event = probe->events[collect->tail % WAKE_EVENTS];
    if (is_overwritten(probe, collect->tail)) {
      collect->overrun++;
      continue;
    }
    status = wake_classify(&collect->classifier, &event,
                           collect->has_thread ? user_us(collect, event.ltime)
                                               : NAN);
  }
  return status;
}

int wake_collect_poll(struct wake_collect *collect, char why[WAKE_WHY_SIZE]) {
  read_tracepoints(collect);
  int status =
      collect->probe == NULL ? take_waits(collect) : take_events(collect);
  if (status != 0)
    snprintf(why, WAKE_WHY_SIZE, "out of memory");
  return status;
}

const struct wake_points *
wake_collect_points(const struct wake_collect *collect) {
  return &collect->classifier.points;
}

void wake_collect_status(struct wake_collect *collect,
                         struct wake_collect_status *status) {
  read_tracepoints(collect); /* so that idles and usage cover the same time */
  const struct wake_probe *probe = collect->probe;
  int64_t usage = probe != NULL ? wake_core_usage(collect->options.core) : -1;
  *status = (struct wake_collect_status){
      .source = collect->source,
      .overrun = collect->overrun + collect->tracepoints.lost,
      .held = collect->classifier.held.len,
      .is_offline = !wake_core_is_online(collect->options.core),
      .usage = usage < 0 ? -1 : usage - collect->usage_before};
  memcpy(status->drops, collect->classifier.drops, sizeof(status->drops));
  status->armed = probe != NULL && collect->options.method == WAKE_BPF_TIMER
                      ? probe->armed
                      : atomic_load(&collect->waits_len);
  if (probe == NULL)
    return;
  status->idles = probe->steps.idles;
  for (int i = 0; i < WAKE_DROPS_BY_STEPS; i++)
    status->drops[i] += probe->steps.drops[i];
}

void wake_collect_close(struct wake_collect *collect) {
  if (collect == NULL)
    return;
  if (collect->probe != NULL)
    collect->probe->stop = 1;
  if (collect->has_thread) {
    wake_core_leave(collect->options.core, collect->thread);
    pthread_cancel(collect->thread);
    pthread_join(collect->thread, NULL);
  }
  wake_programs_free(&collect->programs);
  if (collect->source == WAKE_PERF) {
    wake_tracepoints_close(&collect->tracepoints);
    free(collect->probe);
  }
  wake_points_free(&collect->classifier.held);
  wake_points_free(&collect->classifier.points);
  free(collect);
}
