#include "wake_sampler.h"

#include "base/clock.h"
#include "cycles/sampling_thread.h"

#include "utils/common/common.h"

/* A burst begins after 1/BEGIN of an interval, when collectd's reads and writes
 * are over. It lasts at most 1/DURATION of the interval, so it ends before the
 * next interval. */
#define BEGIN 4
#define DURATION 2

struct wake_sampler {
  const struct config *config;
  uint64_t interval_ns;
  bool said_isolated, said_absent;   /* used by wake_sampler_tell only */
  struct wake_figures *_Atomic next; /* new loads for the next burst, or NULL */
  uint64_t cpu_ns, cpu_since_ns;     /* CPU time and clock at the last burst */
  struct sampling_thread sampling;
};

static void warn(void *context, const char *line) {
  (void)context;
  WARNING("percore: %s", line);
}

/* ---------------------------------------------------------------------------
 * Loads
 */

/* True if the core is online and the options allow probing it. */
static bool is_wanted(const struct wake_sampler *sampler,
                      const struct core_figures *core) {
  const struct core_set *cores =
      config_cores(&sampler->config->wake_latency.cores);
  return core->online && (cores == NULL || core_set_has(cores, core->core));
}

/* True if bursts are allowed. Each burst interrupts every core of the machine,
 * and on some kernels loading the programs does so too. If any core is
 * isolated, the user must therefore name the cores to probe. */
static bool is_allowed(struct wake_sampler *sampler,
                       const struct snapshot *snapshot) {
  if (!snapshot->isolates ||
      config_cores(&sampler->config->wake_latency.cores) != NULL)
    return true;
  if (!sampler->said_isolated)
    WARNING("percore: wake latency is not measured: each burst of probes "
            "interrupts isolated cores, too; name the cores to measure with "
            "Cores in <WakeLatency>.");
  sampler->said_isolated = true;
  return false;
}

/* Warns once if Cores in <WakeLatency> names cores that are not measured. */
static void warn_of_absent_cores(struct wake_sampler *sampler,
                                 const struct snapshot *snapshot) {
  if (sampler->said_absent)
    return;
  sampler->said_absent = true;
  struct core_set measured = {0};
  struct core_set absent = sampler->config->wake_latency.cores;
  for (size_t i = 0; i < snapshot->cores_len; i++)
    core_set_add(&measured, snapshot->cores[i].core);
  core_set_subtract(&absent, &measured);
  if (core_set_next(&absent, -1) < 0)
    return;
  char list[256];
  core_set_format(&absent, list, sizeof(list));
  WARNING("percore: wake latency is not measured on cores %s: Cores in "
          "<WakeLatency> names them, but their loads are not measured; check "
          "both lists of Cores.",
          list);
}

void wake_sampler_tell(struct wake_sampler *sampler,
                       const struct snapshot *snapshot) {
  if (sampler == NULL || !is_allowed(sampler, snapshot))
    return;
  warn_of_absent_cores(sampler, snapshot);
  struct wake_figures *next =
      malloc(sizeof(*next) + snapshot->cores_len * sizeof(next->cores[0]));
  if (next == NULL)
    return;
  next->cores_len = 0;
  for (size_t i = 0; i < snapshot->cores_len; i++)
    if (is_wanted(sampler, &snapshot->cores[i]))
      next->cores[next->cores_len++] = (struct wake_survey_core){
          .core = snapshot->cores[i].core, .load = snapshot->cores[i].busy};
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

static int open_survey(struct wake_sampler *sampler,
                       struct wake_survey **survey, char why[WAKE_WHY_SIZE]) {
  const struct config *config = sampler->config;
  const struct wake_survey_options options = {
      .probes = (uint64_t)config->wake_latency.probes,
      .window_ns = (uint64_t)(config->wake_latency.window_s * 1e9),
      .load_max = config->wake_latency.max_load / 100,
      .now_ns = now_ns,
      .wait = wait_for,
      .say = warn,
      .context = sampler};
  return wake_survey_open(survey, &options, why);
}

/* Runs bursts until the thread must end. Opens the survey before the first
 * burst. Returns 0, or a negative errno after which the thread gives up. */
static int measure(struct wake_sampler *sampler, struct wake_survey **survey,
                   char why[WAKE_WHY_SIZE]) {
  uint64_t lead_ns = sampler->interval_ns - sampler->interval_ns / BEGIN;
  int status = 0;
  measure_cpu(sampler);
  while (status == 0 &&
         sampling_thread_sleep_to_grid(&sampler->sampling, sampler->interval_ns,
                                       lead_ns)) {
    struct wake_figures *figures = atomic_exchange(&sampler->next, NULL);
    uint64_t dropped;
    if (figures == NULL)
      continue;
    if (*survey == NULL)
      status = open_survey(sampler, survey, why);
    if (status == 0)
      status = wake_survey_round(*survey, figures->cores, figures->cores_len,
                                 sampler->interval_ns / DURATION, why);
    if (status == 0) {
      figures->probes = wake_survey_probes(*survey);
      figures->cpu = measure_cpu(sampler);
      figures = sampling_thread_put(&sampler->sampling, figures, &dropped);
    }
    free(figures);
  }
  return status;
}

static void *run(void *argument) {
  struct wake_sampler *sampler = argument;
  char why[WAKE_WHY_SIZE];
  struct wake_survey *survey = NULL;
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
  if (!config->wake_latency.enabled)
    return 0;
  if (config->sys_root != NULL && !config->host_perf) {
    WARNING(
        "percore: wake latency is not measured: with SysRoot, the cores may "
        "be those of another kernel; if they are not, set HostPerf.");
    return 0;
  }
  struct wake_sampler *sampler = calloc(1, sizeof(*sampler));
  if (sampler == NULL)
    return -ENOMEM;
  sampler->config = config;
  sampler->interval_ns = interval_ns;
  sampling_thread_init(&sampler->sampling, 1);
  int status = sampling_thread_start(&sampler->sampling, run, sampler);
  if (status == 0)
    *result = sampler;
  else
    wake_sampler_stop(sampler);
  return status;
}

void wake_sampler_stop(struct wake_sampler *sampler) {
  if (sampler == NULL)
    return;
  sampling_thread_stop(&sampler->sampling);
  free(wake_sampler_take(sampler));
  free(sampler->next);
  sampling_thread_destroy(&sampler->sampling);
  free(sampler);
}

struct wake_figures *wake_sampler_take(struct wake_sampler *sampler) {
  return sampler == NULL ? NULL : sampling_thread_take(&sampler->sampling);
}
