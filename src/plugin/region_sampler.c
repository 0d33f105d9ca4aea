#include "region_sampler.h"

#include "base/clock.h"
#include "cycles/loadavg.h"
#include "cycles/sampling_thread.h"
#include "cycles/schedule.h"
#include "region/receiver.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct region_sampler {
  struct region_watch_options options;
  struct region_receiver *receiver;
  struct region_watch *watch; /* once the thread runs, only the thread uses the
                                 watch and the receiver */
  struct sampling_thread sampling;
  pthread_mutex_t mutex; /* protects the outlet */
  struct region_outlet outlet;
};

/* ---------------------------------------------------------------------------
 * The thread
 */

/* Sleeps for `ns` nanoseconds. Returns false as soon as the thread must end. */
static bool wait_for(void *argument, uint64_t ns) {
  struct region_sampler *sampler = argument;
  return sampling_thread_sleep(&sampler->sampling,
                               clock_now_ns(CLOCK_MONOTONIC) + ns);
}

static bool is_wanted(void *argument) {
  struct region_sampler *sampler = argument;
  return !atomic_load(&sampler->sampling.stop);
}

static uint64_t now_ns(void *argument) {
  (void)argument;
  return clock_now_ns(CLOCK_MONOTONIC);
}

static struct region_outlet get_outlet(void *argument) {
  struct region_sampler *sampler = argument;
  pthread_mutex_lock(&sampler->mutex);
  struct region_outlet outlet = sampler->outlet;
  pthread_mutex_unlock(&sampler->mutex);
  return outlet;
}

static struct region_moment now_at(uint64_t stamp_ns) {
  return (struct region_moment){.stamp_ns = stamp_ns,
                                .monotonic_ns = clock_now_ns(CLOCK_MONOTONIC),
                                .boottime_ns = clock_now_ns(CLOCK_BOOTTIME)};
}

static void read_regions(struct region_sampler *sampler, uint64_t stamp_ns) {
  struct region_moment now = now_at(stamp_ns);
  struct region_snapshot *snapshot = region_watch_round(sampler->watch, &now);
  if (snapshot != NULL)
    region_snapshot_free(sampling_thread_put(&sampler->sampling, snapshot,
                                             &snapshot->snapshots_dropped));
}

/* Reads the regions at the multiples of the interval at which the core sampler
 * makes its snapshots. */
static void *run(void *argument) {
  struct region_sampler *sampler = argument;
  struct schedule schedule;
  schedule_start(&schedule, sampler->options.interval_ns, LOADAVG_INTERVAL_NS,
                 false, clock_now_ns(CLOCK_MONOTONIC),
                 clock_now_ns(CLOCK_REALTIME));
  for (;;) {
    uint64_t wait_ns = schedule_wait_ns(
        &schedule, clock_now_ns(CLOCK_MONOTONIC), clock_now_ns(CLOCK_REALTIME));
    if (!wait_for(sampler, wait_ns))
      return NULL;
    struct schedule_due due = schedule_take(
        &schedule, clock_now_ns(CLOCK_MONOTONIC), clock_now_ns(CLOCK_REALTIME));
    if (due.what & SCHEDULE_INTERVAL)
      read_regions(sampler, due.stamp_ns);
  }
}

/* ---------------------------------------------------------------------------
 * Start and stop
 */

void region_sampler_free(struct region_sampler *sampler) {
  if (sampler == NULL)
    return;
  struct region_snapshot *snapshot;
  while ((snapshot = sampling_thread_take(&sampler->sampling)) != NULL)
    region_snapshot_free(snapshot);
  region_watch_free(sampler->watch);
  region_receiver_free(sampler->receiver);
  sampling_thread_destroy(&sampler->sampling);
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
  sampler->options.now_ns = now_ns;
  sampler->options.outlet = get_outlet;
  /* a guess, because only the first read shows how many values the loads take
   */
  sampler->outlet.room = options->values_max / 2;
  pthread_mutex_init(&sampler->mutex, NULL);
  sampler->options.argument = sampler;
  sampling_thread_init(&sampler->sampling, REGION_SAMPLER_QUEUE);

  struct region_moment now = now_at(clock_now_ns(CLOCK_REALTIME));
  int status = 0;
  sampler->receiver = sampler->options.receiver = region_receiver_new();
  if (sampler->receiver == NULL)
    status = -ENOMEM;
  else if (region_receiver_start(sampler->receiver) != 0)
    status = -errno;
  if (status == 0) {
    sampler->watch = region_watch_new(&sampler->options, &now);
    status = sampler->watch == NULL
                 ? -ENOMEM
                 : sampling_thread_start(&sampler->sampling, run, sampler);
  }
  if (status != 0) {
    region_sampler_free(sampler);
    return status;
  }
  *result = sampler;
  return 0;
}

void region_sampler_stop(struct region_sampler *sampler) {
  if (sampler == NULL)
    return;
  sampling_thread_stop(&sampler->sampling);
  region_receiver_free(sampler->receiver);
  sampler->receiver = NULL;
}

struct region_snapshot *region_sampler_take(struct region_sampler *sampler) {
  return sampler == NULL ? NULL : sampling_thread_take(&sampler->sampling);
}

void region_sampler_tell(struct region_sampler *sampler,
                         const struct region_outlet *outlet) {
  pthread_mutex_lock(&sampler->mutex);
  sampler->outlet = *outlet;
  pthread_mutex_unlock(&sampler->mutex);
}
