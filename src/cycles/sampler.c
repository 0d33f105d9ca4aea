#include "sampler.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct sampler {
  struct sampler_options options;
  struct engine *engine;
  struct figures *figures;
  pthread_t thread;
  atomic_bool stop;
  atomic_bool has_source;

  pthread_mutex_t mutex;  /* guards what follows */
  pthread_cond_t changed; /* on CLOCK_MONOTONIC: stop, or a new snapshot */
  struct snapshot *queue[SAMPLER_QUEUE];
  size_t queue_begin, queue_len;
  uint64_t dropped;

  /* The thread's own. */
  struct schedule schedule;
  uint64_t worst_late_ns, worst_cost_ns;
  uint64_t cpu_ns, cpu_since_ns; /* at the last snapshot */
};

static uint64_t clock_now(const struct sampler *sampler, clockid_t clock) {
  const struct machine *machine = sampler->options.engine.machine;
  return machine->clock_ns(machine->context, clock);
}

static uint64_t thread_cpu_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

/* ---------------------------------------------------------------------------
 * The thread
 */

static void put(struct sampler *sampler, struct snapshot *snapshot) {
  pthread_mutex_lock(&sampler->mutex);
  if (sampler->queue_len == SAMPLER_QUEUE) {
    snapshot_free(sampler->queue[sampler->queue_begin]);
    sampler->queue_begin = (sampler->queue_begin + 1) % SAMPLER_QUEUE;
    sampler->queue_len--;
    sampler->dropped++;
  }
  snapshot->self.snapshots_dropped = sampler->dropped;
  sampler->queue[(sampler->queue_begin + sampler->queue_len) % SAMPLER_QUEUE] =
      snapshot;
  sampler->queue_len++;
  pthread_cond_broadcast(&sampler->changed);
  pthread_mutex_unlock(&sampler->mutex);
}

static void take_snapshot(struct sampler *sampler, uint64_t stamp_ns) {
  struct snapshot *snapshot = figures_interval(sampler->figures);
  if (snapshot == NULL)
    return;
  uint64_t now_ns = clock_now(sampler, CLOCK_MONOTONIC);
  uint64_t cpu_ns = thread_cpu_ns();
  snapshot->time_ns = stamp_ns;
  snapshot->interval_ns = sampler->options.interval_ns;
  snapshot->self.lateness_s = (double)sampler->worst_late_ns / 1e9;
  snapshot->self.sample_cost_s = (double)sampler->worst_cost_ns / 1e9;
  snapshot->self.sampler_cpu = (double)(cpu_ns - sampler->cpu_ns) /
                               (double)(now_ns - sampler->cpu_since_ns);
  sampler->worst_late_ns = sampler->worst_cost_ns = 0;
  sampler->cpu_ns = cpu_ns;
  sampler->cpu_since_ns = now_ns;
  put(sampler, snapshot);
}

static void sample(struct sampler *sampler) {
  uint64_t begin_ns = clock_now(sampler, CLOCK_MONOTONIC);
  struct schedule_due due = schedule_take(&sampler->schedule, begin_ns,
                                          clock_now(sampler, CLOCK_REALTIME));
  if (due.what == 0)
    return;
  if (due.late_ns > sampler->worst_late_ns)
    sampler->worst_late_ns = due.late_ns;
  /* A sample that fails leaves the totals as they are, so that the windows
   * below are empty and have no value. */
  engine_sample(sampler->engine, due.late);
  if (due.what & SCHEDULE_SAMPLE)
    figures_sample(sampler->figures);
  if (due.what & SCHEDULE_LOAD_AVERAGE)
    figures_load_average(sampler->figures);
  uint64_t cost_ns = clock_now(sampler, CLOCK_MONOTONIC) - begin_ns;
  if (cost_ns > sampler->worst_cost_ns)
    sampler->worst_cost_ns = cost_ns;
  atomic_store(&sampler->has_source, engine_has_source(sampler->engine));
  if (due.what & SCHEDULE_INTERVAL)
    take_snapshot(sampler, due.stamp_ns);
}

/* Sleeps until something is due or the sampler is stopped. */
static void wait_until_due(struct sampler *sampler) {
  uint64_t now_ns = clock_now(sampler, CLOCK_MONOTONIC);
  uint64_t until_ns =
      now_ns + schedule_wait_ns(&sampler->schedule, now_ns,
                                clock_now(sampler, CLOCK_REALTIME));
  struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
                           .tv_nsec = (long)(until_ns % 1000000000)};
  pthread_mutex_lock(&sampler->mutex);
  int status = 0;
  while (!atomic_load(&sampler->stop) && status == 0)
    status = pthread_cond_timedwait(&sampler->changed, &sampler->mutex, &until);
  pthread_mutex_unlock(&sampler->mutex);
}

static void *run(void *argument) {
  struct sampler *sampler = argument;
  engine_prove(sampler->engine);
  schedule_start(&sampler->schedule, sampler->options.interval_ns,
                 sampler->options.sample_interval_ns,
                 clock_now(sampler, CLOCK_MONOTONIC),
                 clock_now(sampler, CLOCK_REALTIME));
  /* The windows begin here, not with the proofs. */
  engine_sample(sampler->engine, false);
  figures_sample(sampler->figures);
  figures_load_average(sampler->figures);
  snapshot_free(figures_interval(sampler->figures));
  sampler->cpu_ns = thread_cpu_ns();
  sampler->cpu_since_ns = clock_now(sampler, CLOCK_MONOTONIC);
  while (!atomic_load(&sampler->stop)) {
    wait_until_due(sampler);
    if (atomic_load(&sampler->stop))
      break;
    sample(sampler);
    /* Behind the sample, so that none is late for it. */
    if (engine_proof_due(sampler->engine))
      engine_prove(sampler->engine);
  }
  return NULL;
}

/* ---------------------------------------------------------------------------
 * Start and stop
 */

static int start_thread(struct sampler *sampler) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int status = pthread_create(&sampler->thread, NULL, run, sampler);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return -status;
}

static void destroy(struct sampler *sampler) {
  for (; sampler->queue_len > 0; sampler->queue_len--) {
    snapshot_free(sampler->queue[sampler->queue_begin]);
    sampler->queue_begin = (sampler->queue_begin + 1) % SAMPLER_QUEUE;
  }
  figures_close(sampler->figures);
  engine_close(sampler->engine);
  pthread_cond_destroy(&sampler->changed);
  pthread_mutex_destroy(&sampler->mutex);
  free(sampler);
}

int sampler_start(struct sampler **result,
                  const struct sampler_options *options) {
  struct sampler *sampler = calloc(1, sizeof(*sampler));
  if (sampler == NULL)
    return -ENOMEM;
  sampler->options = *options;
  if (sampler->options.sample_interval_ns == 0)
    sampler->options.sample_interval_ns = LOADAVG_INTERVAL_NS / 4;
  sampler->options.engine.cancel = &sampler->stop;
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&sampler->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  pthread_mutex_init(&sampler->mutex, NULL);

  int status = engine_open(&sampler->engine, &sampler->options.engine);
  if (status == 0) {
    atomic_store(&sampler->has_source, engine_has_source(sampler->engine));
    sampler->figures = figures_open(&options->figures, sampler->engine);
    status = sampler->figures == NULL ? -ENOMEM : start_thread(sampler);
  }
  if (status != 0) {
    destroy(sampler);
    return status;
  }
  *result = sampler;
  return 0;
}

void sampler_stop(struct sampler *sampler) {
  if (sampler == NULL)
    return;
  pthread_mutex_lock(&sampler->mutex);
  atomic_store(&sampler->stop, true);
  pthread_cond_broadcast(&sampler->changed);
  pthread_mutex_unlock(&sampler->mutex);
  pthread_join(sampler->thread, NULL);
  destroy(sampler);
}

/* ---------------------------------------------------------------------------
 * Taking
 */

/* Call with the mutex held. */
static struct snapshot *take_oldest(struct sampler *sampler) {
  if (sampler->queue_len == 0)
    return NULL;
  struct snapshot *snapshot = sampler->queue[sampler->queue_begin];
  sampler->queue_begin = (sampler->queue_begin + 1) % SAMPLER_QUEUE;
  sampler->queue_len--;
  return snapshot;
}

struct snapshot *sampler_take(struct sampler *sampler) {
  pthread_mutex_lock(&sampler->mutex);
  struct snapshot *snapshot = take_oldest(sampler);
  pthread_mutex_unlock(&sampler->mutex);
  return snapshot;
}

struct snapshot *sampler_wait(struct sampler *sampler, uint64_t timeout_ns) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  uint64_t until_ns = (uint64_t)until.tv_sec * UINT64_C(1000000000) +
                      (uint64_t)until.tv_nsec + timeout_ns;
  until.tv_sec = (time_t)(until_ns / 1000000000);
  until.tv_nsec = (long)(until_ns % 1000000000);
  int status = 0;
  pthread_mutex_lock(&sampler->mutex);
  while (sampler->queue_len == 0 && status == 0)
    status = pthread_cond_timedwait(&sampler->changed, &sampler->mutex, &until);
  struct snapshot *snapshot = take_oldest(sampler);
  pthread_mutex_unlock(&sampler->mutex);
  return snapshot;
}

bool sampler_has_source(struct sampler *sampler) {
  return atomic_load(&sampler->has_source);
}
