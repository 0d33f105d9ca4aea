#include "core.h"

#include "base/affinity.h"
#include "base/clock.h"
#include "base/core_set.h"
#include "base/file.h"
#include "base/metric_name.h"
#include "base/portable.h"
#include "base/thread.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define CPU "%s/sys/devices/system/cpu/cpu%d/"
#define STATE CPU "cpuidle/state%d/%s"

/* How long to wait for a thread to run on its core: longer than throttled
 * real-time tasks can keep other threads off a core. */
#define PATIENCE_S 2
#define LOOK_NS (NS_PER_S / 20)

/* ---------------------------------------------------------------------------
 * What the kernel says about a core
 */

bool wake_core_is_online(int core) {
  char text[8];
  /* This file does not exist for cores that cannot go offline. */
  return file_read(text, sizeof(text), CPU "online", "", core) == 0 ||
         text[0] != '0';
}

static bool read_state(struct wake_state *state, const char *root, int core,
                       int number) {
  static const char *const names[] = {"latency", "residency", "disable",
                                      "usage", "time"};
  uint64_t numbers[5];
  if (file_read(state->name, sizeof(state->name), STATE, root, core, number,
                "name") == 0)
    return false;
  metric_name_clean(state->name);
  for (int i = 0; i < 5; i++) {
    char text[32];
    if (file_read(text, sizeof(text), STATE, root, core, number, names[i]) == 0)
      return false;
    numbers[i] = strtoull(text, NULL, 10);
  }
  state->latency_us = (double)numbers[0];
  state->residency_us = (double)numbers[1];
  state->is_disabled = numbers[2] > 0;
  state->entries = numbers[3];
  state->time_us = numbers[4];
  return true;
}

void wake_core_states(const char *root, int core, struct wake_states *states) {
  *states = (struct wake_states){0};
  while (states->len < WAKE_STATES_MAX &&
         read_state(&states->list[states->len], root, core, states->len))
    states->len++;
  if (states->len == 0)
    states->list[states->len++] = (struct wake_state){
        .name = "idle", .latency_us = NAN, .residency_us = NAN};
}

int64_t wake_states_since(struct wake_states *states,
                          const struct wake_states *before) {
  uint64_t sum = 0;
  if (states->len != before->len || isnan(states->list[0].latency_us))
    return -1;
  for (int i = 0; i < states->len; i++) {
    struct wake_state *state = &states->list[i];
    if (state->entries < before->list[i].entries ||
        state->time_us < before->list[i].time_us)
      return -1;
    state->entries -= before->list[i].entries;
    state->time_us -= before->list[i].time_us;
    sum += state->entries;
  }
  return (int64_t)sum;
}

/* ---------------------------------------------------------------------------
 * Running on a core
 */

struct errand {
  int core;
  int (*run)(void *argument);
  void *argument;
  struct semaphore is_over;
  atomic_bool is_late;
  int pinned, status; /* of pinning the thread, and of its errand */
};

static void *run_errand(void *argument) {
  struct errand *errand = argument;
  errand->pinned = affinity_pin(errand->core);
  if (errand->pinned == 0 && !atomic_load(&errand->is_late))
    errand->status = errand->run(errand->argument);
  semaphore_post(&errand->is_over);
  return NULL;
}

/* Joins the thread. If the thread cannot run on the core in time, lets it end
 * on another core, and returns -ETIMEDOUT, or -EINTR if goes_on returned false.
 */
static int await(pthread_t thread, struct errand *errand,
                 bool (*goes_on)(void *context), void *context) {
  uint64_t now = clock_now_ns(CLOCK_MONOTONIC);
  const uint64_t until = now + PATIENCE_S * NS_PER_S;
  int status = 0;
  while (!semaphore_wait(&errand->is_over, now += LOOK_NS)) {
    if (status == 0 && goes_on != NULL && !goes_on(context))
      status = -EINTR;
    else if (status == 0 && now >= until)
      status = -ETIMEDOUT;
    atomic_store(&errand->is_late, status != 0);
    if (status != 0)
      wake_core_leave(errand->core, thread);
  }
  pthread_join(thread, NULL);
  return status;
}

int wake_core_run(int core, int (*run)(void *argument), void *argument,
                  bool (*goes_on)(void *context), void *context,
                  char why[WHY_SIZE]) {
  struct errand errand = {.core = core, .run = run, .argument = argument};
  pthread_t thread;
  int status = thread_start(&thread, run_errand, &errand);
  if (status != 0)
    return why_fails(why, status, "cannot start a thread: %s",
                     strerror(-status));
  status = await(thread, &errand, goes_on, context);
  if (status == -ETIMEDOUT)
    return why_fails(
        why, status,
        "other programs kept core %d busy for %d s; choose an idle core",
        core, PATIENCE_S);
  if (status == 0 && errand.pinned != 0)
    return why_fails(why, errand.pinned,
                     "cannot run on core %d: %s; choose a core listed in "
                     "/sys/devices/system/cpu/online",
                     core,
                     errand.pinned == -EINVAL
                         ? "it does not exist, is offline, or is not among "
                           "the cores of this process"
                         : strerror(-errand.pinned));
  return status != 0 ? status : errand.status;
}

void wake_core_leave(int core, pthread_t thread) {
  cpu_set_t cores[CORES_MAX / CPU_SETSIZE];
  memset(cores, 0xff, sizeof(cores));
  CPU_CLR_S((size_t)core, sizeof(cores), cores);
  pthread_setaffinity_np(thread, sizeof(cores), cores);
}
