#include "region_sampler.h"

#include "cycles/sampler.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S UINT64_C(1000000000)

struct region_sampler {
  struct region_watch_options options;
  struct region_watch *watch; /* the thread's own */
  pthread_t thread;
  atomic_bool stop;

  pthread_mutex_t mutex;                               /* guards what follows */
  pthread_cond_t stopped;                              /* on CLOCK_MONOTONIC */
  struct region_snapshot *queue[REGION_SAMPLER_QUEUE]; /* the oldest first */
  size_t queue_len;
  uint64_t dropped;
};

static uint64_t clock_now(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* ---------------------------------------------------------------------------
 * The thread
 */

/* Sleeps. False as soon as the sampler is to be stopped. */
static bool wait_for(void *argument, uint64_t ns) {
  struct region_sampler *sampler = argument;
  uint64_t until_ns = clock_now(CLOCK_MONOTONIC) + ns;
  struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
                           .tv_nsec = (long)(until_ns % NS_PER_S)};
  pthread_mutex_lock(&sampler->mutex);
  int status = 0;
  while (!atomic_load(&sampler->stop) && status == 0)
    status = pthread_cond_timedwait(&sampler->stopped, &sampler->mutex, &until);
  pthread_mutex_unlock(&sampler->mutex);
  return !atomic_load(&sampler->stop);
}

static bool is_wanted(void *argument) {
  struct region_sampler *sampler = argument;
  return !atomic_load(&sampler->stop);
}

/* Call with the mutex held. */
static struct region_snapshot *take_oldest(struct region_sampler *sampler) {
  if (sampler->queue_len == 0)
    return NULL;
  struct region_snapshot *oldest = sampler->queue[0];
  sampler->queue_len--;
  memmove(&sampler->queue[0], &sampler->queue[1],
          sampler->queue_len * sizeof(sampler->queue[0]));
  return oldest;
}

static void put(struct region_sampler *sampler,
                struct region_snapshot *snapshot) {
  struct region_snapshot *lost = NULL;
  pthread_mutex_lock(&sampler->mutex);
  if (sampler->queue_len == REGION_SAMPLER_QUEUE) {
    lost = take_oldest(sampler);
    sampler->dropped++;
  }
  snapshot->snapshots_dropped = sampler->dropped;
  sampler->queue[sampler->queue_len++] = snapshot;
  pthread_mutex_unlock(&sampler->mutex);
  region_snapshot_free(lost);
}

static void read_regions(struct region_sampler *sampler, uint64_t stamp_ns) {
  struct region_moment now = {.stamp_ns = stamp_ns,
                              .monotonic_ns = clock_now(CLOCK_MONOTONIC),
                              .boottime_ns = clock_now(CLOCK_BOOTTIME)};
  struct region_snapshot *snapshot = region_watch_round(sampler->watch, &now);
  if (snapshot != NULL)
    put(sampler, snapshot);
}

/* The grid is that of the core sampler, by the same arithmetic; of what that
 * does between two multiples nothing is wanted here. */
static void *run(void *argument) {
  struct region_sampler *sampler = argument;
  struct schedule schedule;
  schedule_start(&schedule, sampler->options.interval_ns, LOADAVG_INTERVAL_NS,
                 clock_now(CLOCK_MONOTONIC), clock_now(CLOCK_REALTIME));
  for (;;) {
    uint64_t wait_ns = schedule_wait_ns(&schedule, clock_now(CLOCK_MONOTONIC),
                                        clock_now(CLOCK_REALTIME));
    if (!wait_for(sampler, wait_ns))
      return NULL;
    struct schedule_due due = schedule_take(
        &schedule, clock_now(CLOCK_MONOTONIC), clock_now(CLOCK_REALTIME));
    if (due.what & SCHEDULE_INTERVAL)
      read_regions(sampler, due.stamp_ns);
  }
}

/* ---------------------------------------------------------------------------
 * Start and stop
 */

static int start_thread(struct region_sampler *sampler) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int status = pthread_create(&sampler->thread, NULL, run, sampler);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return -status;
}

static void destroy(struct region_sampler *sampler) {
  for (size_t i = 0; i < sampler->queue_len; i++)
    region_snapshot_free(sampler->queue[i]);
  region_watch_free(sampler->watch);
  pthread_cond_destroy(&sampler->stopped);
  pthread_mutex_destroy(&sampler->mutex);
  free(sampler);
}

int region_sampler_start(struct region_sampler **result,
                         const struct region_watch_options *options,
                         uint64_t interval_ns) {
  struct region_sampler *sampler = calloc(1, sizeof(*sampler));
  if (sampler == NULL)
    return -ENOMEM;
  sampler->options = *options;
  sampler->options.interval_ns = interval_ns;
  sampler->options.wait = wait_for;
  sampler->options.is_wanted = is_wanted;
  sampler->options.argument = sampler;
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&sampler->stopped, &monotonic);
  pthread_condattr_destroy(&monotonic);
  pthread_mutex_init(&sampler->mutex, NULL);

  struct region_moment now = {.stamp_ns = clock_now(CLOCK_REALTIME),
                              .monotonic_ns = clock_now(CLOCK_MONOTONIC),
                              .boottime_ns = clock_now(CLOCK_BOOTTIME)};
  sampler->watch = region_watch_new(&sampler->options, &now);
  int status = sampler->watch == NULL ? -ENOMEM : start_thread(sampler);
  if (status != 0) {
    destroy(sampler);
    return status;
  }
  *result = sampler;
  return 0;
}

void region_sampler_stop(struct region_sampler *sampler) {
  if (sampler == NULL)
    return;
  pthread_mutex_lock(&sampler->mutex);
  atomic_store(&sampler->stop, true);
  pthread_cond_broadcast(&sampler->stopped);
  pthread_mutex_unlock(&sampler->mutex);
  pthread_join(sampler->thread, NULL);
  destroy(sampler);
}

struct region_snapshot *region_sampler_take(struct region_sampler *sampler) {
  if (sampler == NULL)
    return NULL;
  pthread_mutex_lock(&sampler->mutex);
  struct region_snapshot *snapshot = take_oldest(sampler);
  pthread_mutex_unlock(&sampler->mutex);
  return snapshot;
}
