#include "collect.h"

#include "core.h"
#include "programs.h"

#include "base/clock.h"
#include "base/portable.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define NO_CORE UINT32_MAX

_Static_assert(WAKE_EVENTS_KEPT < WAKE_EVENTS, "events would be lost");

struct wake_collect {
  struct wake_collect_options options;
  struct wake_programs programs;
  int core;
  uint64_t tail; /* events taken */
  uint64_t overrun;
  int64_t usage_before;
  bool has_thread;
  pthread_t thread;
  _Atomic uint64_t thread_head; /* events that the thread has completed */
};

const char *const wake_method_names[WAKE_METHODS] = {"bpf-timer", "thread",
                                                     "passive"};

/* ---------------------------------------------------------------------------
 * Open and close
 */

int wake_collect_open(struct wake_collect **result,
                      const struct wake_collect_options *options,
                      char why[WHY_SIZE]) {
  struct wake_collect *collect = calloc(1, sizeof(*collect));
  *result = NULL;
  if (collect == NULL)
    return why_fails(why, -ENOMEM, "out of memory");
  collect->options = *options;
  int status = wake_programs_load(&collect->programs,
                                  options->method == WAKE_BPF_TIMER, why);
  if (status != 0) {
    free(collect);
    return status;
  }
  struct wake_probe *probe = collect->programs.probe;
  probe->core = NO_CORE;
  probe->distance_min = WAKE_DISTANCE_MIN_NS;
  probe->distance_max = options->distance_max_ns > 0 ? options->distance_max_ns
                                                     : WAKE_DISTANCE_MAX_NS;
  probe->pause = options->pause_ns;
  probe->armed_max = options->armed_max > 0 ? options->armed_max : UINT64_MAX;
  *result = collect;
  return 0;
}

void wake_collect_close(struct wake_collect *collect) {
  if (collect == NULL)
    return;
  wake_collect_end(collect);
  wake_programs_free(&collect->programs);
  free(collect);
}

int wake_collect_attach(struct wake_collect *collect, char why[WHY_SIZE]) {
  bool finds_timer = collect->options.method != WAKE_PASSIVE &&
                     collect->programs.probe->steps.timer == 0;
  int status = wake_programs_attach(&collect->programs, finds_timer, why);
  if (status != 0)
    wake_collect_detach(collect);
  return status;
}

void wake_collect_detach(struct wake_collect *collect) {
  wake_programs_detach(&collect->programs);
}

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

/* Returns how many events the programs have published. */
static uint64_t head_of(const struct wake_probe *probe) {
  return __atomic_load_n(&probe->head, __ATOMIC_ACQUIRE);
}

/* The main function of the waiting thread. It sets is_armed before it sleeps
 * until LTime, because the programs ignore its timer while is_armed is 0. When
 * it runs again, the programs have published the event, because they ran on
 * this core before. */
static void *wait_again_and_again(void *argument) {
  struct wake_collect *collect = argument;
  struct wake_probe *probe = collect->programs.probe;
  unsigned seed = (unsigned)clock_now_ns(CLOCK_MONOTONIC);
  begin_thread();
  __atomic_store_n(&probe->thread, (uint32_t)portable_gettid(),
                   __ATOMIC_SEQ_CST);
  for (;;) { /* until the thread is cancelled while it sleeps */
    uint64_t range = probe->distance_max - probe->distance_min;
    uint64_t distance =
        probe->distance_min +
        (uint64_t)((double)range * rand_r(&seed) / ((double)RAND_MAX + 1));
    if (probe->pause > 0)
      sleep_ns(0, probe->pause);
    uint64_t head = head_of(probe);
    probe->steps.distance = distance;
    probe->armed++;
    __atomic_store_n(&probe->steps.is_armed, 1, __ATOMIC_SEQ_CST);
    sleep_ns(TIMER_ABSTIME, clock_now_ns(CLOCK_MONOTONIC) + distance);
    uint64_t end = clock_now_ns(CLOCK_MONOTONIC);
    if (head_of(probe) != head)
      probe->events[head % WAKE_EVENTS].end = end;
    atomic_store(&collect->thread_head, head_of(probe));
  }
  return NULL; /* never reached */
}

/* ---------------------------------------------------------------------------
 * One core
 */

/* Runs on the core. The waiting thread inherits the core and the signal mask of
 * the calling thread. */
static int start(void *context) {
  struct wake_collect *collect = context;
  if (collect->options.method == WAKE_BPF_TIMER)
    return wake_programs_start_timer(&collect->programs);
  if (collect->options.method == WAKE_PASSIVE)
    return 0;
  int status =
      pthread_create(&collect->thread, NULL, wait_again_and_again, collect);
  collect->has_thread = status == 0;
  return -status;
}

/* Clears the results of the last core, but keeps the address of the timer,
 * which remains the same. */
static void reset(struct wake_collect *collect) {
  struct wake_probe *probe = collect->programs.probe;
  probe->steps = (struct wake_steps){.timer = probe->steps.timer,
                                     .is_passive = collect->options.method ==
                                                   WAKE_PASSIVE};
  probe->head = probe->armed = 0;
  probe->is_paused = 0;
  collect->tail = collect->overrun = 0;
}

static bool goes_on(void *context) {
  const struct wake_collect_options *options =
      &((struct wake_collect *)context)->options;
  return options->goes_on == NULL || options->goes_on(options->context);
}

int wake_collect_begin(struct wake_collect *collect, int core,
                       char why[WHY_SIZE]) {
  struct wake_probe *probe = collect->programs.probe;
  reset(collect);
  collect->core = core;
  collect->usage_before = wake_core_usage(core);
  __atomic_store_n(&probe->core, (uint32_t)core, __ATOMIC_SEQ_CST);
  why[0] = '\0';
  int status = wake_core_run(core, start, goes_on, collect, why);
  if (status != 0 && why[0] == '\0')
    snprintf(why, WHY_SIZE, "cannot start the %s on core %d: %s",
             wake_method_names[collect->options.method], core,
             strerror(-status));
  if (collect->options.method == WAKE_BPF_TIMER && probe->steps.timer != 0)
    wake_programs_timer_is_found(&collect->programs);
  return status;
}

int wake_collect_poll(struct wake_collect *collect,
                      struct wake_points *points) {
  struct wake_probe *probe = collect->programs.probe;
  uint64_t head =
      collect->has_thread ? atomic_load(&collect->thread_head) : head_of(probe);
  int status = 0;
  while (status == 0 && collect->tail < head) {
    struct wake_event event = probe->events[collect->tail % WAKE_EVENTS];
    __atomic_thread_fence(__ATOMIC_ACQUIRE); /* read the event before head */
    uint64_t waiting = head_of(probe) - collect->tail;
    if (waiting < WAKE_EVENTS) {
      status = wake_points_add(points, &event);
      collect->tail++;
    } else { /* a newer event may have overwritten it */
      collect->overrun += waiting - (WAKE_EVENTS - 1);
      collect->tail += waiting - (WAKE_EVENTS - 1);
    }
  }
  return status;
}

void wake_collect_status(const struct wake_collect *collect,
                         struct wake_collect_status *status) {
  const volatile struct wake_probe *probe = collect->programs.probe;
  int64_t usage = wake_core_usage(collect->core);
  *status = (struct wake_collect_status){
      .armed = probe->armed,
      .overrun = collect->overrun,
      .is_offline = !wake_core_is_online(collect->core),
      .is_done = probe->armed >= probe->armed_max && !probe->steps.is_armed &&
                 !probe->steps.is_pending,
      .idles = probe->steps.idles,
      .usage = usage < 0 || collect->usage_before < 0
                   ? -1
                   : usage - collect->usage_before};
  for (int i = 0; i < WAKE_DROPS; i++)
    status->drops[i] = probe->steps.drops[i];
}

/* Programs that still run on the core need a few microseconds to end. */
void wake_collect_end(struct wake_collect *collect) {
  if (collect->has_thread) {
    wake_core_leave(collect->core, collect->thread);
    pthread_cancel(collect->thread);
    pthread_join(collect->thread, NULL);
    collect->has_thread = false;
  }
  __atomic_store_n(&collect->programs.probe->core, NO_CORE, __ATOMIC_SEQ_CST);
  sleep_ns(0, NS_PER_S / 1000);
}
