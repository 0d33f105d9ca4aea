#include "region_thread.h"

#include "base/clock.h"
#include "cycles/loadavg.h"
#include "cycles/sampling_thread.h"
#include "cycles/schedule.h"

#include "utils/common/common.h"

struct region_thread {
  struct region_watch_options options;
  plugin_ctx_t context;
  struct region_watch *watch; /* once the thread runs, only it uses the watch */
  struct sampling_thread sampling;
};

/* Sleeps for `ns` nanoseconds. Returns false as soon as the thread must end. */
static bool wait_for(void *argument, uint64_t ns) {
  struct region_thread *thread = argument;
  return sampling_thread_sleep(&thread->sampling,
                               clock_now_ns(CLOCK_MONOTONIC) + ns);
}

static bool is_wanted(void *argument) {
  struct region_thread *thread = argument;
  return !atomic_load(&thread->sampling.stop);
}

static uint64_t now_ns(__attribute__((unused)) void *argument) {
  return clock_now_ns(CLOCK_MONOTONIC);
}

static struct region_moment now_at(uint64_t stamp_ns) {
  return (struct region_moment){.stamp_ns = stamp_ns,
                                .monotonic_ns = clock_now_ns(CLOCK_MONOTONIC),
                                .boottime_ns = clock_now_ns(CLOCK_BOOTTIME)};
}

/* Reads the regions at the multiples of the interval at which the core sampler
 * makes its snapshots. */
static void *run(void *argument) {
  struct region_thread *thread = argument;
  struct schedule schedule;
  plugin_set_ctx(thread->context);
  schedule_start(&schedule, thread->options.interval_ns, LOADAVG_INTERVAL_NS,
                 false, clock_now_ns(CLOCK_MONOTONIC),
                 clock_now_ns(CLOCK_REALTIME));
  for (;;) {
    uint64_t wait_ns = schedule_wait_ns(
        &schedule, clock_now_ns(CLOCK_MONOTONIC), clock_now_ns(CLOCK_REALTIME));
    if (!wait_for(thread, wait_ns))
      return NULL;
    struct schedule_due due = schedule_take(
        &schedule, clock_now_ns(CLOCK_MONOTONIC), clock_now_ns(CLOCK_REALTIME));
    struct region_moment now = now_at(due.stamp_ns);
    if (due.what & SCHEDULE_INTERVAL)
      region_watch_round(thread->watch, &now);
  }
}

static int start(struct region_thread *thread) {
  struct region_moment now = now_at(clock_now_ns(CLOCK_REALTIME));
  thread->watch = region_watch_new(&thread->options, &now);
  return thread->watch == NULL
             ? -ENOMEM
             : sampling_thread_start(&thread->sampling, run, thread);
}

int region_thread_start(struct region_thread **result,
                        const struct region_watch_options *options) {
  struct region_thread *thread = calloc(1, sizeof(*thread));
  if (thread == NULL)
    return -ENOMEM;
  thread->options = *options;
  thread->options.interval_ns = CDTIME_T_TO_US(options->interval) * 1000;
  thread->options.wait = wait_for;
  thread->options.is_wanted = is_wanted;
  thread->options.now_ns = now_ns;
  thread->options.argument = thread;
  thread->context = plugin_get_ctx();
  sampling_thread_init(&thread->sampling, 1);
  int status = start(thread);
  if (status == 0) {
    *result = thread;
    return 0;
  }
  region_watch_free(thread->watch);
  sampling_thread_destroy(&thread->sampling);
  free(thread);
  return status;
}

void region_thread_stop(struct region_thread *thread) {
  if (thread == NULL)
    return;
  sampling_thread_stop(&thread->sampling);
}
