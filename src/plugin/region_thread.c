#include "region_thread.h"

#include "base/clock.h"
#include "cycles/sampling_thread.h"

#include "utils/common/common.h"

#include <sys/ioctl.h>

struct region_thread {
  struct region_watch_options options;
  plugin_ctx_t context;
  struct region_watch
      *watch; /* while the thread runs, only it uses the watch */
  struct sampling_thread sampling;
  atomic_uint_least64_t moved_ns; /* CLOCK_MONOTONIC: when a round was last seen
                                     to go on; UINT64_MAX: between rounds */
  atomic_int notices; /* while the thread sleeps until there are some; or -1 */
  bool runs;
};

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

static uint64_t worked_ns(void *argument) {
  (void)argument;
  return clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Sleeps until the next multiple of the interval of CLOCK_REALTIME, at which
 * the core sampler makes its snapshots, too; while there is nothing to read,
 * until region_thread_keep finds a notice. Returns the timestamp of the round:
 * the multiple or, if the thread is late, the time; 0 if the thread must end.
 */
static uint64_t wait_for_round(struct region_thread *thread) {
  uint64_t interval_ns = thread->options.interval_ns,
           near_ns = interval_ns / 100;
  uint64_t now_ns = clock_now_ns(CLOCK_REALTIME);
  uint64_t wait_ns = interval_ns - (now_ns + near_ns) % interval_ns + near_ns;
  int notices = region_watch_rests(thread->watch);
  atomic_store(&thread->moved_ns, UINT64_MAX);
  atomic_store(&thread->notices, notices);
  if (!sampling_thread_sleep(&thread->sampling,
                             clock_now_ns(CLOCK_MONOTONIC) +
                                 (notices < 0 ? wait_ns : REGION_LIST_NS)))
    return 0;
  atomic_store(&thread->notices, -1);
  atomic_store(&thread->moved_ns, clock_now_ns(CLOCK_MONOTONIC));
  now_ns = clock_now_ns(CLOCK_REALTIME);
  uint64_t off_ns = (now_ns + near_ns) % interval_ns;
  return off_ns > 2 * near_ns ? now_ns : now_ns + near_ns - off_ns;
}

/* The first round begins at once, so that the counts of a program that lives
 * for an interval are not lost. */
static void *run_regions(void *argument) {
  struct region_thread *thread = argument;
  uint64_t stamp_ns = clock_now_ns(CLOCK_REALTIME);
  plugin_set_ctx(thread->context);
  while (stamp_ns != 0) {
    region_watch_round(
        thread->watch,
        &(struct region_moment){.stamp_ns = stamp_ns,
                                .monotonic_ns = clock_now_ns(CLOCK_MONOTONIC),
                                .boottime_ns = clock_now_ns(CLOCK_BOOTTIME)});
    stamp_ns = wait_for_round(thread);
  }
  return NULL;
}

struct region_thread *
region_thread_new(const struct region_watch_options *options,
                  uint64_t began_boottime_ns) {
  struct region_thread *thread = calloc(1, sizeof(*thread));
  if (thread == NULL)
    return NULL;
  thread->options = *options;
  thread->options.is_wanted = is_wanted;
  thread->options.now_ns = now_ns;
  thread->options.worked_ns = worked_ns;
  thread->options.argument = thread;
  thread->context = plugin_get_ctx();
  atomic_init(&thread->moved_ns, UINT64_MAX);
  atomic_init(&thread->notices, -1);
  thread->watch = region_watch_new(&thread->options, began_boottime_ns);
  if (thread->watch != NULL)
    return thread;
  free(thread);
  return NULL;
}

int region_thread_keep(struct region_thread *thread) {
  if (thread->runs) {
    uint64_t moved_ns = atomic_load(&thread->moved_ns);
    uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
    bool hangs =
        now_ns > moved_ns && now_ns - moved_ns > REGION_THREAD_HANGS_NS;
    int notices = atomic_load(&thread->notices), size = 0;
    if (notices >= 0 && ioctl(notices, FIONREAD, &size) == 0 && size > 0)
      semaphore_post(&thread->sampling.stopped);
    return hangs ? -EBUSY : 0;
  }
  int status = sampling_thread_start(&thread->sampling, run_regions, thread);
  thread->runs = status == 0;
  return status;
}

bool region_thread_stop(struct region_thread *thread) {
  return thread == NULL ||
         sampling_thread_stop(&thread->sampling,
                              clock_now_ns(CLOCK_MONOTONIC) + NS_PER_S);
}
