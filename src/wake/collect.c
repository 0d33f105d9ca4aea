#include "collect.h"

#include "core.h"
#include "programs.h"

#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

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
  int core;
  bool is_gone;
  uint64_t tail; /* events taken */
  uint64_t datapoints;
  struct wake_states before, after;
  int smis; /* descriptor of the core's counter; negative: none */
  bool has_thread;
  pthread_t thread;
  sem_t thread_ends;
  _Atomic uint64_t thread_head; /* events that the thread has completed */
};

const char *const wake_method_names[WAKE_METHODS + 1] = {"bpf-timer", "thread",
                                                         "passive", NULL};

const char *const wake_check_names[] = {"agrees", "differs", "unchecked"};

enum wake_method wake_method_of(const char *name) {
  int method = 0;
  while (method < WAKE_METHODS &&
         (name == NULL || strcmp(name, wake_method_names[method]) != 0))
    method++;
  return (enum wake_method)method;
}

/* ---------------------------------------------------------------------------
 * Open and close
 */

/* Loads the programs of the method that is wanted, and sets the method. */
static int load(struct wake_collect *collect, char why[WHY_SIZE]) {
  enum wake_method *method = &collect->options.method;
  bool is_any = *method == WAKE_ANY;
  char thread_why[WHY_SIZE];
  why[0] = '\0';
  if (is_any)
    *method = WAKE_BPF_TIMER;
  int status =
      wake_programs_load(&collect->programs, *method == WAKE_BPF_TIMER, why);
  if (status == 0 || !is_any)
    return status;
  *method = WAKE_THREAD;
  return wake_programs_load(&collect->programs, false, thread_why) == 0
             ? 0
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
  collect->smis = -1;
  int status = load(collect, why);
  if (status != 0) {
    free(collect);
    return status;
  }
  struct wake_probe *probe = collect->programs.probe;
  probe->core = WAKE_NO_CORE;
  probe->distance_min = options->distance_min_ns > 0 ? options->distance_min_ns
                                                     : WAKE_DISTANCE_MIN_NS;
  probe->distance_max = options->distance_max_ns > 0 ? options->distance_max_ns
                                                     : WAKE_DISTANCE_MAX_NS;
  probe->pause = options->pause_ns;
  probe->armed_max = options->armed_max > 0 ? options->armed_max : UINT64_MAX;
  *result = collect;
  return 0;
}

enum wake_method wake_collect_method(const struct wake_collect *collect) {
  return collect->options.method;
}

static void end_smis(struct wake_collect *collect) {
  if (collect->smis >= 0)
    close(collect->smis);
  collect->smis = -1;
}

void wake_collect_close(struct wake_collect *collect) {
  if (collect == NULL)
    return;
  wake_collect_end(collect);
  end_smis(collect);
  wake_programs_free(&collect->programs);
  free(collect);
}

int wake_collect_attach(struct wake_collect *collect, char why[WHY_SIZE]) {
  enum wake_method method = collect->options.method;
  bool finds_timer =
      method == WAKE_THREAD ||
      (method == WAKE_BPF_TIMER && collect->programs.probe->steps.timer == 0);
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

/* Returns how many events the programs have published. */
static uint64_t head_of(const struct wake_probe *probe) {
  return __atomic_load_n(&probe->head, __ATOMIC_ACQUIRE);
}

/* Returns true if the thread must end; first waits for the pause. */
static bool must_end(struct wake_collect *collect) {
  const struct wake_probe *probe = collect->programs.probe;
  const struct timespec time =
      timespec_of_ns(clock_now_ns(CLOCK_MONOTONIC) + probe->pause);
  return probe->armed >= probe->armed_max || probe->is_gone ||
         (probe->pause == 0 ? sem_trywait(&collect->thread_ends)
                            : sem_clockwait(&collect->thread_ends,
                                            CLOCK_MONOTONIC, &time)) == 0;
}

/* Waits for an event. Sets is_armed before it sleeps until LTime, because the
 * programs ignore its timer while is_armed is 0. When the thread runs again,
 * the programs have published the event or counted why not, because they ran on
 * this core before. */
static void wait_for_event(struct wake_collect *collect, uint64_t distance) {
  struct wake_probe *probe = collect->programs.probe;
  uint64_t head = head_of(probe);
  probe->steps.distance = distance;
  probe->armed++;
  __atomic_store_n(&probe->steps.is_armed, 1, __ATOMIC_SEQ_CST);
  const struct timespec ltime =
      timespec_of_ns(clock_now_ns(CLOCK_MONOTONIC) + distance);
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ltime, NULL);
  uint64_t end = clock_now_ns(CLOCK_MONOTONIC);
  probe->is_gone = sched_getcpu() != collect->core;
  if (probe->is_gone)
    return;
  if (head_of(probe) != head)
    probe->events[head % WAKE_EVENTS].end = end;
  else if (probe->steps.is_armed) /* its expiry was not seen */
    wake_drop(&probe->steps, WAKE_DROP_LOST);
  atomic_store(&collect->thread_head, head_of(probe));
}

static void *wait_again_and_again(void *argument) {
  struct wake_collect *collect = argument;
  struct wake_probe *probe = collect->programs.probe;
  unsigned seed = (unsigned)clock_now_ns(CLOCK_MONOTONIC);
  begin_thread();
  __atomic_store_n(&probe->thread, (uint32_t)gettid(), __ATOMIC_SEQ_CST);
  while (!must_end(collect)) {
    uint64_t range = probe->distance_max - probe->distance_min;
    wait_for_event(collect, probe->distance_min +
                                (uint64_t)((double)range * rand_r(&seed) /
                                           ((double)RAND_MAX + 1)));
  }
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
  if (collect->options.method == WAKE_PASSIVE)
    return 0;
  sem_init(&collect->thread_ends, 0, 0);
  int status =
      pthread_create(&collect->thread, NULL, wait_again_and_again, collect);
  collect->has_thread = status == 0;
  return -status;
}

/* Clears the results of the last core, but keeps the address of the BPF timer,
 * which remains the same. */
static void reset(struct wake_collect *collect, int core) {
  struct wake_probe *probe = collect->programs.probe;
  enum wake_method method = collect->options.method;
  probe->steps = (struct wake_steps){
      .timer = method == WAKE_BPF_TIMER ? probe->steps.timer : 0,
      .is_passive = method == WAKE_PASSIVE};
  probe->head = probe->armed = 0;
  probe->is_paused = probe->is_gone = 0;
  collect->core = core;
  collect->is_gone = false;
  collect->tail = collect->datapoints = 0;
  collect->thread_head = 0;
}

/* Counts system management interrupts with the same rights as the programs. */
static void begin_smis(struct wake_collect *collect) {
  end_smis(collect);
  collect->smis = wake_core_open_smis(collect->core);
  if (collect->smis >= 0)
    wake_programs_count_smis(&collect->programs, collect->smis);
}

static bool goes_on(void *context) {
  const struct wake_collect_options *options =
      &((struct wake_collect *)context)->options;
  return options->goes_on == NULL || options->goes_on(options->context);
}

int wake_collect_begin(struct wake_collect *collect, int core,
                       char why[WHY_SIZE]) {
  struct wake_probe *probe = collect->programs.probe;
  reset(collect, core);
  if (collect->options.counts_smis)
    begin_smis(collect);
  wake_core_counts("", core, &collect->before);
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

static bool is_gone(const struct wake_collect *collect) {
  const volatile struct wake_probe *probe = collect->programs.probe;
  return collect->is_gone ||
         (probe->core != WAKE_NO_CORE &&
          (probe->is_gone || !wake_core_is_online(collect->core)));
}

int wake_collect_poll(struct wake_collect *collect,
                      struct wake_points *points) {
  struct wake_probe *probe = collect->programs.probe;
  uint64_t head = collect->options.method == WAKE_THREAD
                      ? atomic_load(&collect->thread_head)
                      : head_of(probe);
  size_t len = points->len, minority = points->minority;
  uint64_t *drops = probe->steps.drops; /* the programs count other reasons */
  int status = 0;
  collect->is_gone = is_gone(collect);
  while (status == 0 && collect->tail < head) {
    struct wake_event event = probe->events[collect->tail % WAKE_EVENTS];
    __atomic_thread_fence(__ATOMIC_ACQUIRE); /* read the event before head */
    uint64_t waiting = head_of(probe) - collect->tail;
    if (waiting < WAKE_EVENTS) {
      status = wake_points_add(points, &event);
      collect->tail++;
    } else { /* a newer event may have overwritten it */
      drops[WAKE_DROP_OVERRUN] += waiting - (WAKE_EVENTS - 1);
      collect->tail += waiting - (WAKE_EVENTS - 1);
    }
  }
  collect->datapoints += points->len - len;
  drops[WAKE_DROP_MINORITY] += points->minority - minority;
  return status;
}

bool wake_collect_is_done(const struct wake_collect *collect) {
  const volatile struct wake_probe *probe = collect->programs.probe;
  return probe->armed >= probe->armed_max && !probe->steps.is_armed &&
         !probe->steps.is_pending;
}

void wake_collect_status(const struct wake_collect *collect,
                         struct wake_collect_status *status) {
  const volatile struct wake_probe *probe = collect->programs.probe;
  uint64_t smis;
  *status = (struct wake_collect_status){.armed = probe->armed,
                                         .datapoints = collect->datapoints,
                                         .is_gone = is_gone(collect),
                                         .idles = probe->steps.idles,
                                         .smis = -1,
                                         .counts = collect->after};
  for (int i = 0; i < WAKE_DROPS; i++)
    status->drops[i] = probe->steps.drops[i];
  if (collect->options.method != WAKE_PASSIVE)
    status->drops[WAKE_DROP_UNFINISHED] =
        (uint64_t)(probe->steps.is_armed != 0) +
        (probe->steps.is_pending != 0) + (probe->head - collect->tail);
  if (probe->core != WAKE_NO_CORE)
    wake_core_counts("", collect->core, &status->counts);
  status->usage = wake_states_since(&status->counts, &collect->before);
  if (collect->smis >= 0 &&
      read(collect->smis, &smis, sizeof(smis)) == sizeof(smis))
    status->smis = (int64_t)smis;
}

enum wake_check wake_collect_check(const struct wake_collect_status *status) {
  double missed = fabs((double)status->usage - (double)status->idles);
  return status->usage < 0 || status->is_gone ? WAKE_UNCHECKED
         : missed <= IDLES_EDGE + IDLES_SHARE * (double)status->usage
             ? WAKE_AGREES
             : WAKE_DIFFERS;
}

bool wake_collect_has_result(const struct wake_collect_status *status) {
  return status->datapoints > 0 &&
         (double)status->datapoints >= RESULT_SHARE * (double)status->armed;
}

/* Programs that still run on the core need a few microseconds to end. */
void wake_collect_end(struct wake_collect *collect) {
  struct wake_probe *probe = collect->programs.probe;
  collect->is_gone = is_gone(collect);
  if (collect->has_thread) {
    sem_post(&collect->thread_ends);
    wake_core_leave(collect->core, collect->thread);
    pthread_join(collect->thread, NULL);
    sem_destroy(&collect->thread_ends);
    collect->has_thread = false;
  }
  if (probe->core != WAKE_NO_CORE)
    wake_core_counts("", collect->core, &collect->after);
  __atomic_store_n(&probe->core, WAKE_NO_CORE, __ATOMIC_SEQ_CST);
  const struct timespec while_programs_end = timespec_of_ns(NS_PER_S / 1000);
  clock_nanosleep(CLOCK_MONOTONIC, 0, &while_programs_end, NULL);
}
