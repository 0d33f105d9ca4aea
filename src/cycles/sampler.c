#include "sampler.h"

#include "base/clock.h"
#include "base/descriptors.h"
#include "sampling_thread.h"
#include "schedule.h"

#include <errno.h>
#include <stdlib.h>

struct sampler {
  struct sampler_options options;
  struct engine *engine;
  struct figures *figures;
  struct sampling_thread sampling;
  atomic_bool has_source;
  struct snapshot *_Atomic newest; /* NULL: taken */
  struct semaphore ready;          /* is posted with each snapshot */

  /* The members below are used only by the thread. */
  struct schedule schedule;
  uint64_t worst_late_ns, worst_cost_ns;
  uint64_t cpu_ns;            /* CPU time at the last snapshot */
  uint64_t interval_began_ns; /* CLOCK_MONOTONIC of the sample that ended
                                 the last interval */
};

static uint64_t clock_now(const struct sampler *sampler, clockid_t clock) {
  return machine_now_ns(sampler->options.engine.machine, clock);
}

/* ---------------------------------------------------------------------------
 * The thread
 */

static void take_snapshot(struct sampler *sampler, uint64_t stamp_ns) {
  struct snapshot *snapshot = figures_interval(sampler->figures);
  if (snapshot == NULL)
    return;
  uint64_t cpu_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
  snapshot->time_ns = stamp_ns;
  snapshot->interval_ns = sampler->options.interval_ns;
  uint64_t sampled_ns = engine_time_ns(sampler->engine);
  snapshot->covered_ns = sampled_ns - sampler->interval_began_ns;
  sampler->interval_began_ns = sampled_ns;
  snapshot->self.lateness_s = (double)sampler->worst_late_ns / 1e9;
  snapshot->self.sample_cost_s = (double)sampler->worst_cost_ns / 1e9;
  snapshot->self.sampler_cpu =
      (double)(cpu_ns - sampler->cpu_ns) / (double)snapshot->covered_ns;
  sampler->worst_late_ns = sampler->worst_cost_ns = 0;
  sampler->cpu_ns = cpu_ns;
  if (sampler->options.publish != NULL)
    sampler->options.publish(sampler->options.context, snapshot,
                             engine_topology(sampler->engine));
  snapshot_free(atomic_exchange(&sampler->newest, snapshot));
  semaphore_post(&sampler->ready);
}

static void sample(struct sampler *sampler) {
  uint64_t begin_ns = clock_now(sampler, CLOCK_MONOTONIC);
  struct schedule_due due = schedule_take(&sampler->schedule, begin_ns,
                                          clock_now(sampler, CLOCK_REALTIME));
  if (due.what == 0)
    return;
  if (due.late_ns > sampler->worst_late_ns)
    sampler->worst_late_ns = due.late_ns;
  /* A failed sample does not change the totals, so the windows that end with it
   * are empty and produce no load. */
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

/* Sleeps until something is due. Returns false when the sampler is stopped. */
static bool wait_until_due(struct sampler *sampler) {
  uint64_t now_ns = clock_now(sampler, CLOCK_MONOTONIC);
  uint64_t wait_ns = schedule_wait_ns(&sampler->schedule, now_ns,
                                      clock_now(sampler, CLOCK_REALTIME));
  return sampling_thread_sleep(&sampler->sampling, now_ns + wait_ns);
}

static void *run_sampler(void *argument) {
  struct sampler *sampler = argument;
  engine_prove(sampler->engine);
  const struct sampler_options *options = &sampler->options;
  schedule_start(&sampler->schedule, options->interval_ns,
                 options->sample_interval_ns, options->from_start,
                 clock_now(sampler, CLOCK_MONOTONIC),
                 clock_now(sampler, CLOCK_REALTIME));
  /* The windows begin here, after the proofs. */
  engine_sample(sampler->engine, false);
  figures_sample(sampler->figures);
  figures_load_average(sampler->figures);
  snapshot_free(figures_interval(sampler->figures));
  sampler->interval_began_ns = engine_time_ns(sampler->engine);
  sampler->cpu_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
  while (wait_until_due(sampler)) {
    sample(sampler);
    engine_prove_aside(sampler->engine);
  }
  return NULL;
}

/* ---------------------------------------------------------------------------
 * Start and stop
 */

static void destroy(struct sampler *sampler) {
  snapshot_free(sampler->newest);
  figures_close(sampler->figures);
  engine_close(sampler->engine);
  free(sampler);
}

int sampler_start(struct sampler **result,
                  const struct sampler_options *options) {
  struct sampler *sampler = calloc(1, sizeof(*sampler));
  if (sampler == NULL)
    return -ENOMEM;
  sampler->options = *options;
  sampler->options.engine.cancel = &sampler->sampling.stop;
  descriptors_raise_limit();

  int status = engine_open(&sampler->engine, &sampler->options.engine);
  if (status == 0) {
    atomic_store(&sampler->has_source, engine_has_source(sampler->engine));
    sampler->figures = figures_open(&options->figures, sampler->engine);
    status =
        sampler->figures == NULL
            ? -ENOMEM
            : sampling_thread_start(&sampler->sampling, run_sampler, sampler);
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
  sampling_thread_stop(&sampler->sampling, UINT64_MAX);
  destroy(sampler);
}

/* Waits on the real clock, because a consumer waits in real time even if the
 * machine is simulated. */
struct snapshot *sampler_wait(struct sampler *sampler, uint64_t timeout_ns) {
  uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + timeout_ns;
  struct snapshot *newest;
  do
    newest = atomic_exchange(&sampler->newest, NULL);
  while (newest == NULL && semaphore_wait(&sampler->ready, until_ns));
  return newest;
}

bool sampler_has_source(struct sampler *sampler) {
  return atomic_load(&sampler->has_source);
}
