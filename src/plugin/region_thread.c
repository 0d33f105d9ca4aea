#include "region_thread.h"

#include "base/clock.h"
#include "cycles/sampling_thread.h"

#include "utils/common/common.h"

/* How long region_thread_stop waits. */
#define STOP_NS NS_PER_S

struct region_thread {
  struct region_watch_options options;
  plugin_ctx_t context;
  struct region_watch *watch; /* once the thread runs, only it uses the watch */
  struct sampling_thread sampling;
  atomic_uint_least64_t moved_ns; /* CLOCK_MONOTONIC: when a round was last seen
                                     to go on; UINT64_MAX: between rounds */
  bool has_ended;                 /* guarded by sampling.mutex */
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

static uint64_t now_ns(void *argument) {
  struct region_thread *thread = argument;
  uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
  atomic_store(&thread->moved_ns, now_ns);
  return now_ns;
}

static struct region_moment now_at(uint64_t stamp_ns) {
  return (struct region_moment){.stamp_ns = stamp_ns,
                                .monotonic_ns = clock_now_ns(CLOCK_MONOTONIC),
                                .boottime_ns = clock_now_ns(CLOCK_BOOTTIME)};
}

/* Sleeps until the next multiple of the interval of CLOCK_REALTIME, at which
 * the core sampler makes its snapshots, too. Returns the timestamp of the
 * round: the multiple or, if the thread is late, the time; 0 if the thread must
 * end. */
static uint64_t wait_for_round(struct region_thread *thread, uint64_t last_ns) {
  uint64_t interval_ns = thread->options.interval_ns;
  uint64_t now_ns = clock_now_ns(CLOCK_REALTIME),
           next_ns = last_ns + interval_ns;
  next_ns -= next_ns % interval_ns;
  if (next_ns <= now_ns || next_ns > now_ns + 2 * interval_ns)
    next_ns = now_ns - now_ns % interval_ns + interval_ns;
  atomic_store(&thread->moved_ns, UINT64_MAX);
  if (!wait_for(thread, next_ns - now_ns))
    return 0;
  atomic_store(&thread->moved_ns, clock_now_ns(CLOCK_MONOTONIC));
  now_ns = clock_now_ns(CLOCK_REALTIME);
  uint64_t off_ns = now_ns > next_ns ? now_ns - next_ns : next_ns - now_ns;
  return off_ns > interval_ns / 100 ? now_ns : next_ns;
}

static void *run_regions(void *argument) {
  struct region_thread *thread = argument;
  uint64_t stamp_ns = 0;
  plugin_set_ctx(thread->context);
  while ((stamp_ns = wait_for_round(thread, stamp_ns)) != 0) {
    struct region_moment now = now_at(stamp_ns);
    region_watch_round(thread->watch, &now);
  }
  pthread_mutex_lock(&thread->sampling.mutex);
  thread->has_ended = true;
  pthread_cond_broadcast(&thread->sampling.changed);
  pthread_mutex_unlock(&thread->sampling.mutex);
  return NULL;
}

int region_thread_start(struct region_thread **result,
                        const struct region_watch_options *options,
                        uint64_t began_boottime_ns) {
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
  atomic_init(&thread->moved_ns, UINT64_MAX);
  sampling_thread_init(&thread->sampling, 1);
  thread->watch = region_watch_new(&thread->options, began_boottime_ns);
  int status =
      thread->watch == NULL
          ? -ENOMEM
          : sampling_thread_start(&thread->sampling, run_regions, thread);
  if (status == 0) {
    *result = thread;
    return 0;
  }
  region_watch_free(thread->watch);
  sampling_thread_destroy(&thread->sampling);
  free(thread);
  return status;
}

bool region_thread_hangs(struct region_thread *thread) {
  uint64_t moved_ns = atomic_load(&thread->moved_ns);
  uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
  return now_ns > moved_ns && now_ns - moved_ns > REGION_THREAD_HANGS_NS;
}

bool region_thread_stop(struct region_thread *thread) {
  if (thread == NULL)
    return true;
  struct sampling_thread *sampling = &thread->sampling;
  struct timespec end = timespec_of_ns(clock_now_ns(CLOCK_MONOTONIC) + STOP_NS);
  int status = 0;
  pthread_mutex_lock(&sampling->mutex);
  atomic_store(&sampling->stop, true);
  pthread_cond_broadcast(&sampling->changed);
  while (!thread->has_ended && status == 0)
    status = pthread_cond_timedwait(&sampling->changed, &sampling->mutex, &end);
  bool has_ended = thread->has_ended;
  pthread_mutex_unlock(&sampling->mutex);
  if (has_ended)
    pthread_join(sampling->thread, NULL);
  return has_ended;
}
