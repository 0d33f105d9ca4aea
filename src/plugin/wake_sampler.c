#include "wake_sampler.h"

#include "base/clock.h"
#include "cycles/sampling_thread.h"
#include "put.h"
#include "wake/survey.h"

#include "utils/common/common.h"

#include <math.h>

/* A burst begins after 1/BEGIN of an interval, when collectd's reads and writes
 * are over. It lasts at most 1/DURATION of the interval, so it ends before the
 * next interval. */
#define BEGIN 4
#define DURATION 2

/* The cores to probe, and what is known about them after the burst. */
struct wake_burst {
  cdtime_t time; /* of the loads, and of the values */
  size_t cores_len;
  struct wake_survey_core cores[];
};

struct wake_sampler {
  const struct config *config;
  plugin_ctx_t context;
  uint64_t interval_ns;
  bool warned; /* of the option Cores; used by wake_sampler_tell only */
  struct wake_burst *_Atomic next; /* NULL: no new loads */
  uint64_t cpu_ns, cpu_since_ns;   /* CPU time and clock at the last burst */
  struct sampling_thread sampling;
};

static void warn(void *context, const char *line) {
  (void)context;
  WARNING("percore: %s", line);
}

/* ---------------------------------------------------------------------------
 * Loads
 */

/* Warns of cores that the user has named but that are not measured. */
static void warn_of_absent(const struct core_set *named,
                           const struct snapshot *snapshot) {
  struct core_set measured = {0}, absent = *named;
  char list[256];
  for (size_t i = 0; i < snapshot->cores_len; i++)
    core_set_add(&measured, snapshot->cores[i].core);
  core_set_subtract(&absent, &measured);
  core_set_format(&absent, list, sizeof(list));
  if (core_set_next(&absent, -1) >= 0)
    WARNING("percore: wake latency is not measured on cores %s: WakeLatency "
            "names them, but their loads are not measured; check WakeLatency "
            "and Cores.",
            list);
}

/* Each burst interrupts every core of the machine, and on some kernels loading
 * the programs does so too. If any core is isolated, there are bursts only if
 * the user has named the cores to probe. */
void wake_sampler_tell(struct wake_sampler *sampler,
                       const struct snapshot *snapshot) {
  if (sampler == NULL)
    return;
  const struct core_set *named = config_cores(&sampler->config->wake_cores);
  bool is_allowed = named != NULL || !snapshot->isolates;
  if (!sampler->warned && !is_allowed)
    WARNING("percore: wake latency is not measured: each burst of probes "
            "interrupts isolated cores, too; name the cores to measure, such "
            "as WakeLatency \"0-1\".");
  if (!sampler->warned && named != NULL)
    warn_of_absent(named, snapshot);
  sampler->warned |= named != NULL || !is_allowed;
  struct wake_burst *next = NULL;
  if (is_allowed)
    next = malloc(sizeof(*next) + snapshot->cores_len * sizeof(next->cores[0]));
  if (next == NULL)
    return;
  next->time = NS_TO_CDTIME_T(snapshot->time_ns);
  next->cores_len = 0;
  for (size_t i = 0; i < snapshot->cores_len; i++) {
    const struct core_figures *core = &snapshot->cores[i];
    if (core->online && (named == NULL || core_set_has(named, core->core)))
      next->cores[next->cores_len++] =
          (struct wake_survey_core){.core = core->core, .load = core->load};
  }
  free(atomic_exchange(&sampler->next, next));
}

/* ---------------------------------------------------------------------------
 * The thread
 */

static uint64_t now_ns(void *context) {
  (void)context;
  return clock_now_ns(CLOCK_MONOTONIC);
}

/* Sleeps for `ns` nanoseconds. Returns false as soon as the thread must end. */
static bool wait_for(void *context, uint64_t ns) {
  struct wake_sampler *sampler = context;
  return sampling_thread_sleep(&sampler->sampling, now_ns(NULL) + ns);
}

/* Returns the CPU time of this thread since the last call, divided by the wall
 * time since then. */
static double measure_cpu(struct wake_sampler *sampler) {
  uint64_t cpu_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
  uint64_t now = now_ns(NULL);
  double cpu = (double)(cpu_ns - sampler->cpu_ns) /
               (double)(now - sampler->cpu_since_ns);
  sampler->cpu_ns = cpu_ns;
  sampler->cpu_since_ns = now;
  return cpu;
}

static void put_latency(void *context, const char *name, double value_s) {
  put_gauge(context, "latency", name, value_s);
}

static void dispatch(struct wake_sampler *sampler,
                     const struct wake_burst *burst,
                     struct wake_survey *survey) {
  value_list_t list = {.time = burst->time};
  for (size_t i = 0; i < burst->cores_len; i++) {
    char number[16];
    int core = burst->cores[i].core;
    snprintf(number, sizeof(number), "%d", core);
    put_subject(&list, PLUGIN_CORE, number);
    put_gauge(&list, "gauge", "timer_datapoints",
              (double)wake_survey_figures(survey, core, put_latency, &list));
  }
  put_subject(&list, PLUGIN_HOST, INSTANCE_SELF);
  wake_survey_advertised(survey, put_latency, &list);
  put_gauge(&list, "percent", "wake_cpu",
            fmin(100 * measure_cpu(sampler), 100));
  put_derive(&list, "derive", "wake_probes", wake_survey_probes(survey));
}

/* Runs bursts until the thread must end. Opens the survey before the first
 * burst. Returns 0, or a negative errno after which the thread gives up. */
static int measure(struct wake_sampler *sampler, struct wake_survey **survey,
                   char why[WHY_SIZE]) {
  const struct wake_survey_options options = {
      .now_ns = now_ns, .wait = wait_for, .say = warn, .context = sampler};
  uint64_t lead_ns = sampler->interval_ns - sampler->interval_ns / BEGIN;
  int status = 0;
  measure_cpu(sampler);
  while (status == 0 &&
         sampling_thread_sleep_to_grid(&sampler->sampling, sampler->interval_ns,
                                       lead_ns)) {
    struct wake_burst *burst = atomic_exchange(&sampler->next, NULL);
    if (burst == NULL)
      continue;
    if (*survey == NULL)
      status = wake_survey_open(survey, &options, why);
    if (status == 0)
      status = wake_survey_round(*survey, burst->cores, burst->cores_len,
                                 sampler->interval_ns / DURATION, why);
    if (status == 0)
      dispatch(sampler, burst, *survey);
    free(burst);
  }
  return status;
}

static void *run_wake(void *argument) {
  struct wake_sampler *sampler = argument;
  char why[WHY_SIZE];
  struct wake_survey *survey = NULL;
  plugin_set_ctx(sampler->context);
  int status = measure(sampler, &survey, why);
  if (status != 0 && survey == NULL)
    WARNING("percore: wake latency is not measured: %s.", why);
  else if (status != 0)
    WARNING("percore: wake latency is no longer measured: %s; restart collectd "
            "to try again.",
            why);
  wake_survey_close(survey);
  return NULL;
}

/* ---------------------------------------------------------------------------
 * Start and stop
 */

int wake_sampler_start(struct wake_sampler **result,
                       const struct config *config, uint64_t interval_ns) {
  *result = NULL;
  if (!config->wake_latency)
    return 0;
  if (!machine_is_ours(config->sys_root)) {
    WARNING("percore: wake latency is not measured: " MACHINE_NOT_OURS ".");
    return 0;
  }
  struct wake_sampler *sampler = calloc(1, sizeof(*sampler));
  if (sampler == NULL)
    return -ENOMEM;
  sampler->config = config;
  sampler->context = plugin_get_ctx();
  sampler->interval_ns = interval_ns;
  int status = sampling_thread_start(&sampler->sampling, run_wake, sampler);
  if (status == 0)
    *result = sampler;
  else
    wake_sampler_stop(sampler);
  return status;
}

void wake_sampler_stop(struct wake_sampler *sampler) {
  if (sampler == NULL)
    return;
  sampling_thread_stop(&sampler->sampling, UINT64_MAX);
  free(sampler->next);
  free(sampler);
}
