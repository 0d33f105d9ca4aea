#include "collect.h"

#include "core.h"
#include "programs.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/portable.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define DISTANCE_MIN_NS 1000

_Static_assert(WAKE_EVENTS_KEPT < WAKE_EVENTS, "events would be lost");

/* How far the number of idle states that the programs saw may differ from the
 * number that cpuidle counted: by one state at each end, plus a share too small
 * to distort the percentiles. */
#define IDLES_EDGE 2
#define IDLES_SHARE 0.005

#define RESULT_SHARE 0.05 /* of the events that must become datapoints */

struct wake_collect {
  struct wake_collect_options options;
  struct wake_programs programs;
  /* Of the core that was begun last. */
  struct wake_collect_status status;
  struct wake_states before; /* with what cpuidle counted at the beginning */
  uint64_t begin_ns;
  uint64_t tail; /* events taken */
  bool has_thread;
  pthread_t thread;
  struct semaphore thread_ends;
  int64_t offset_ns; /* CLOCK_MONOTONIC here less that of the programs */
  _Atomic uint64_t thread_head; /* events that the thread has completed */
};

const char *const wake_method_names[WAKE_METHODS] = {"bpf-timer", "thread"};

const char *const wake_check_names[] = {"agrees", "differs", "unchecked"};

enum wake_method wake_method_of(const char *name) {
  int method = name != NULL ? 0 : WAKE_ANY;
  while (method < WAKE_METHODS && strcmp(name, wake_method_names[method]) != 0)
    method++;
  return (enum wake_method)method;
}

/* ---------------------------------------------------------------------------
 * Open and close
 */

/* Loads the programs of the method that is wanted, and sets the method. */
static int load(struct wake_collect *collect, char why[WHY_SIZE]) {
  enum wake_method *method = &collect->options.method;
  struct wake_programs *programs = &collect->programs;
  char timer_why[WHY_SIZE];
  why[0] = '\0';
  if (*method != WAKE_ANY)
    return wake_programs_load(programs, *method == WAKE_BPF_TIMER, why);
  *method = WAKE_BPF_TIMER;
  if (wake_programs_load(programs, true, timer_why) == 0)
    return 0;
  *method = WAKE_THREAD;
  int status = wake_programs_load(programs, false, why);
  return status == 0
             ? why_fails(why, 0, "wake latency is measured with a thread: %s",
                         timer_why)
             : status;
}

int wake_collect_open(struct wake_collect **result,
                      const struct wake_collect_options *options,
                      char why[WHY_SIZE]) {
  struct wake_collect *collect = calloc(1, sizeof(*collect));
  *result = NULL;
  if (collect == NULL)
    return why_fails(why, -ENOMEM, "out of memory");
  collect->options = *options;
  char text[128];
  if (file_read(text, sizeof(text), "/proc/self/timens_offsets") > 0)
    collect->offset_ns = clock_offset_ns(text);
  int status = load(collect, why);
  if (status != 0) {
    free(collect);
    return status;
  }
  struct wake_probe *probe = collect->programs.probe;
  probe->core = WAKE_NO_CORE;
  probe->distance_min = options->pause_ns + DISTANCE_MIN_NS;
  probe->distance_range = options->distance_ns - DISTANCE_MIN_NS;
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
  enum wake_method method = collect->options.method;
  bool finds_timer =
      method == WAKE_THREAD || collect->programs.probe->steps.timer == 0;
  return wake_programs_attach(&collect->programs, finds_timer, why);
}

void wake_collect_detach(struct wake_collect *collect) {
  wake_programs_detach(&collect->programs);
}

/* ---------------------------------------------------------------------------
 * The waiting thread
 */

/* Returns how many events the programs have published. */
static uint64_t head_of(const struct wake_probe *probe) {
  return __atomic_load_n(&probe->head, __ATOMIC_ACQUIRE);
}

/* Arms an event, and waits for it. Sets is_armed before it sleeps until LTime,
 * because the programs ignore its timer while is_armed is 0. When the thread
 * runs again, the programs have published the event or counted why not, because
 * they ran on this core before. Returns false if the thread must end. */
static bool wait_for_event(struct wake_collect *collect, uint64_t distance) {
  struct wake_probe *probe = collect->programs.probe;
  uint64_t head = head_of(probe);
  probe->steps.distance = distance;
  probe->armed++;
  __atomic_store_n(&probe->steps.is_armed, 1, __ATOMIC_SEQ_CST);
  const uint64_t ltime_ns = clock_now_ns(CLOCK_MONOTONIC) + distance;
  const struct timespec ltime = timespec_of_ns(ltime_ns);
  bool ends = false;
  if (collect->options.pause_ns == 0) /* wakes faster, but cannot be ended */
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ltime, NULL);
  else
    ends = semaphore_wait(&collect->thread_ends, ltime_ns);
  uint64_t end = clock_now_ns(CLOCK_MONOTONIC);
  bool has_left = sched_getcpu() != collect->status.core;
  ends = ends || semaphore_wait(&collect->thread_ends, 0);
  if (has_left && !ends) /* wake_collect_end posts before it moves the thread */
    probe->is_gone = 1;
  if (has_left || ends)
    return false;
  if (head_of(probe) != head)
    probe->events[head % WAKE_EVENTS].end = end;
  else if (probe->steps.is_armed) /* its expiry was not seen */
    wake_drop(&probe->steps, WAKE_DROP_LOST);
  atomic_store(&collect->thread_head, head_of(probe));
  return probe->armed < probe->armed_max;
}

/* Runs with a real-time priority, if that is permitted, and without timer
 * slack, which older kernels give to futexes in spite of the priority. */
static void *wait_again_and_again(void *argument) {
  struct wake_collect *collect = argument;
  struct wake_probe *probe = collect->programs.probe;
  unsigned seed = (unsigned)clock_now_ns(CLOCK_MONOTONIC);
  sched_setscheduler(0, SCHED_FIFO,
                     &(struct sched_param){.sched_priority = 20});
  prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
  __atomic_store_n(&probe->thread, (uint32_t)portable_gettid(),
                   __ATOMIC_SEQ_CST);
  while (wait_for_event(
      collect, probe->distance_min +
                   (probe->distance_range * (uint64_t)rand_r(&seed) >> 31)))
    continue;
  return NULL;
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
  collect->thread_ends = (struct semaphore){0};
  int status =
      pthread_create(&collect->thread, NULL, wait_again_and_again, collect);
  collect->has_thread = status == 0;
  return -status;
}

/* Keeps the address of the BPF timer, which remains the same. */
int wake_collect_begin(struct wake_collect *collect, int core,
                       char why[WHY_SIZE]) {
  struct wake_probe *probe = collect->programs.probe;
  const struct wake_collect_options *options = &collect->options;
  bool is_bpf_timer = options->method == WAKE_BPF_TIMER;
  probe->steps =
      (struct wake_steps){.timer = is_bpf_timer ? probe->steps.timer : 0};
  probe->head = probe->armed = probe->is_gone = 0;
  collect->tail = 0;
  atomic_store(&collect->thread_head, 0);
  wake_core_states("", core, &collect->before);
  collect->status =
      (struct wake_collect_status){.core = core,
                                   .method = wake_method_names[options->method],
                                   .smis = -1,
                                   .states = collect->before};
  wake_states_since(&collect->status.states, &collect->before);
  collect->begin_ns = clock_now_ns(CLOCK_MONOTONIC);
  __atomic_store_n(&probe->core, (uint32_t)core, __ATOMIC_SEQ_CST);
  why[0] = '\0';
  int status = wake_core_run(core, start, collect, options->goes_on,
                             options->context, why);
  if (status != 0 && why[0] == '\0')
    why_fails(why, status, "cannot start the %s on core %d: %s",
              collect->status.method, core, strerror(-status));
  if (is_bpf_timer && probe->steps.timer != 0)
    wake_programs_timer_is_found(&collect->programs);
  return status;
}

/* Moves what the programs have recorded to another clock. `end` is of the
 * thread's clock. */
static void shift(struct wake_event *event, int64_t offset_ns) {
  event->ltime += (uint64_t)offset_ns;
  event->tbi += (uint64_t)offset_ns;
  event->tai += event->tai != 0 ? (uint64_t)offset_ns : 0;
  event->tintr += event->tintr != 0 ? (uint64_t)offset_ns : 0;
}

int wake_collect_poll(struct wake_collect *collect,
                      struct wake_points *points) {
  struct wake_probe *probe = collect->programs.probe;
  uint64_t head = collect->options.method == WAKE_THREAD
                      ? atomic_load(&collect->thread_head)
                      : head_of(probe);
  uint64_t *drops = probe->steps.drops; /* the programs count other reasons */
  while (collect->tail < head) {
    struct wake_event event = probe->events[collect->tail % WAKE_EVENTS];
    __atomic_thread_fence(__ATOMIC_ACQUIRE); /* read the event before head */
    shift(&event, collect->offset_ns);
    uint64_t waiting = head_of(probe) - collect->tail;
    if (waiting >= WAKE_EVENTS) { /* a newer event may have overwritten it */
      drops[WAKE_DROP_OVERRUN]++;
    } else {
      int added = wake_points_add(points, &collect->before, &event);
      if (added < 0)
        return added;
      collect->status.datapoints += (uint64_t)added;
      drops[WAKE_DROP_MINORITY] += !added;
    }
    collect->tail++;
  }
  return 0;
}

bool wake_collect_is_done(const struct wake_collect *collect) {
  const volatile struct wake_probe *probe = collect->programs.probe;
  return probe->armed >= probe->armed_max && !probe->steps.is_armed &&
         !probe->steps.is_pending;
}

const struct wake_collect_status *
wake_collect_status(struct wake_collect *collect) {
  struct wake_collect_status *status = &collect->status;
  struct wake_probe *probe = collect->programs.probe;
  struct wake_states states;
  uint64_t smis;
  if (probe->core != WAKE_NO_CORE) {
    wake_core_states("", status->core, &states);
    status->usage = wake_states_since(&states, &collect->before);
    if (status->usage >= 0)
      status->states = states;
    if (read(collect->options.smis, &smis, sizeof(smis)) == sizeof(smis))
      status->smis = (int64_t)smis;
    if (!wake_core_is_online(status->core))
      probe->is_gone = 1;
    status->seconds =
        (double)(clock_now_ns(CLOCK_MONOTONIC) - collect->begin_ns) / 1e9;
  }
  status->armed = probe->armed;
  memcpy(status->drops, probe->steps.drops, sizeof(status->drops));
  status->drops[WAKE_DROP_UNFINISHED] = (uint64_t)(probe->steps.is_armed != 0) +
                                        (probe->steps.is_pending != 0) +
                                        (probe->head - collect->tail);
  status->is_gone = probe->is_gone != 0;
  status->idles = probe->steps.idles;
  return status;
}

int wake_collect_check(const struct wake_collect_status *status,
                       char why[WHY_SIZE]) {
  double missed = fabs((double)status->usage - (double)status->idles);
  if (status->is_gone)
    return why_fails(why, WAKE_UNCHECKED,
                     "core %d went offline, or its timer was moved",
                     status->core);
  if (status->usage < 0)
    return why_fails(why, WAKE_UNCHECKED, "cpuidle has no driver for core %d",
                     status->core);
  bool agrees = missed <= IDLES_EDGE + IDLES_SHARE * (double)status->usage;
  return why_fails(why, agrees ? WAKE_AGREES : WAKE_DIFFERS,
                   "cpuidle counted %lld idle states, the programs %llu",
                   (long long)status->usage, (unsigned long long)status->idles);
}

bool wake_collect_has_result(const struct wake_collect_status *status) {
  return status->datapoints > 0 &&
         (double)status->datapoints >= RESULT_SHARE * (double)status->armed;
}

/* Programs that still run on the core need a few microseconds to end. */
void wake_collect_end(struct wake_collect *collect) {
  const struct timespec while_programs_end = timespec_of_ns(NS_PER_S / 1000);
  if (collect->has_thread) {
    semaphore_post(&collect->thread_ends);
    wake_core_leave(collect->status.core, collect->thread);
    pthread_join(collect->thread, NULL);
    collect->has_thread = false;
  }
  wake_collect_status(collect);
  __atomic_store_n(&collect->programs.probe->core, WAKE_NO_CORE,
                   __ATOMIC_SEQ_CST);
  clock_nanosleep(CLOCK_MONOTONIC, 0, &while_programs_end, NULL);
}
