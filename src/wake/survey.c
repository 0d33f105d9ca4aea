#include "survey.h"

#include "base/array.h"
#include "core.h"
#include "distribution.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* How far the number of idle states that the programs saw may differ from the
 * number that cpuidle counted: by one state at each end of a burst, plus a
 * share too small to distort the percentiles. */
#define IDLES_EDGE 2
#define IDLES_SHARE 0.01

#define NO_BUCKET UINT16_MAX

/* A datapoint in the window: its bucket in each distribution. */
struct counted {
  uint64_t round_ns; /* when its round began */
  uint16_t buckets[WAKE_METRICS];
};

struct surveyed {
  int core;
  bool said; /* the reason why this core is not measured has been logged */
  struct wake_points points; /* the datapoints of the last burst, and how many
                                of all bursts had interrupts on or off */
  struct counted *window;    /* oldest first */
  size_t window_len, window_capacity;
  struct wake_distribution distribution[WAKE_METRICS];
};

_Static_assert(WAKE_DISTRIBUTION_BUCKETS < NO_BUCKET, "a bucket fits");

struct wake_survey {
  struct wake_survey_options options;
  struct wake_burst *burst;
  struct surveyed **list;
  size_t len;
  int next; /* the number of the core with which the next round begins */
  uint64_t probes;
};

static int no_memory(char why[WAKE_WHY_SIZE]) {
  snprintf(why, WAKE_WHY_SIZE, "out of memory");
  return -ENOMEM;
}

int wake_survey_open(struct wake_survey **result,
                     const struct wake_survey_options *options,
                     char why[WAKE_WHY_SIZE]) {
  struct wake_survey *survey = calloc(1, sizeof(*survey));
  *result = NULL;
  if (survey == NULL)
    return no_memory(why);
  survey->options = *options;
  int status = wake_burst_open(&survey->burst, &options->burst, why);
  if (status != 0) {
    free(survey);
    return status;
  }
  *result = survey;
  return 0;
}

void wake_survey_close(struct wake_survey *survey) {
  if (survey == NULL)
    return;
  for (size_t i = 0; i < survey->len; i++) {
    wake_points_free(&survey->list[i]->points);
    free(survey->list[i]->window);
    free(survey->list[i]);
  }
  free(survey->list);
  wake_burst_close(survey->burst);
  free(survey);
}

/* ---------------------------------------------------------------------------
 * One core
 */

static struct surveyed *find(const struct wake_survey *survey, int core) {
  for (size_t i = 0; i < survey->len; i++)
    if (survey->list[i]->core == core)
      return survey->list[i];
  return NULL;
}

/* Returns the entry of a core, which is added if the core is new. Returns NULL
 * if out of memory. */
static struct surveyed *find_or_add(struct wake_survey *survey, int core) {
  struct surveyed *found = find(survey, core);
  if (found != NULL)
    return found;
  if (!array_resize(&survey->list, survey->len + 1, sizeof(*survey->list)) ||
      (found = calloc(1, sizeof(*found))) == NULL)
    return NULL;
  found->core = core;
  wake_core_states(core, &found->points);
  return survey->list[survey->len++] = found;
}

__attribute__((format(printf, 3, 4))) static void
say_once(const struct wake_survey *survey, struct surveyed *core,
         const char *format, ...) {
  char line[WAKE_WHY_SIZE + 64];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  if (!core->said)
    survey->options.say(survey->options.context, line);
  core->said = true;
}

/* Adds a datapoint to the distributions, or takes it away again. */
static void count(struct surveyed *core, const struct counted *counted,
                  int change) {
  for (int metric = 0; metric < WAKE_METRICS; metric++)
    if (counted->buckets[metric] != NO_BUCKET) {
      struct wake_distribution *distribution = &core->distribution[metric];
      distribution->total += (uint64_t)change;
      distribution->count[counted->buckets[metric]] += (uint32_t)change;
    }
}

/* Forgets the datapoints of rounds that began before `since_ns`. */
static void forget(struct surveyed *core, uint64_t since_ns) {
  size_t old = 0;
  while (old < core->window_len && core->window[old].round_ns < since_ns)
    count(core, &core->window[old++], -1);
  core->window_len -= old;
  if (old > 0)
    memmove(core->window, core->window + old,
            core->window_len * sizeof(*core->window));
}

/* Moves the datapoints of the last burst into the window. Returns 0 or -ENOMEM.
 */
static int count_points(struct surveyed *core, uint64_t round_ns) {
  struct wake_points *points = &core->points;
  size_t len = points->len;
  points->len = 0;
  for (size_t i = 0; i < len; i++) {
    struct counted counted = {.round_ns = round_ns};
    if (!wake_point_counts(points, &points->list[i]))
      continue;
    for (int metric = 0; metric < WAKE_METRICS; metric++) {
      double us = wake_point_us(&points->list[i], (enum wake_metric)metric);
      counted.buckets[metric] =
          isnan(us)
              ? NO_BUCKET
              : (uint16_t)wake_distribution_bucket((uint64_t)llround(us * 1e3));
    }
    if (!array_reserve(&core->window, core->window_len, &core->window_capacity,
                       sizeof(*core->window)))
      return -ENOMEM;
    core->window[core->window_len++] = counted;
    count(core, &counted, 1);
  }
  return 0;
}

/* Counts the events of a burst if the programs and cpuidle counted about the
 * same number of idle states. Otherwise ignores the burst, and logs this once.
 * Returns 0 or -ENOMEM. */
static int count_events(const struct wake_survey *survey, struct surveyed *core,
                        const struct wake_burst_result *result,
                        uint64_t round_ns) {
  double missed = fabs((double)result->usage - (double)result->idles);
  if (result->usage < 0) {
    say_once(survey, core,
             "wake latency of core %d is not measured: cpuidle has no driver "
             "for it",
             core->core);
    return 0;
  }
  if (missed > IDLES_EDGE + IDLES_SHARE * (double)result->usage) {
    say_once(survey, core,
             "a burst of probes on core %d is ignored: the programs saw "
             "%llu idle states, cpuidle counted %lld",
             core->core, (unsigned long long)result->idles,
             (long long)result->usage);
    return 0;
  }
  int status = 0;
  for (size_t i = 0; status == 0 && i < result->events_len; i++)
    status = wake_points_add(&core->points, &result->events[i], NAN);
  return status == 0 ? count_points(core, round_ns) : status;
}

/* Probes one core and counts its datapoints. Returns 0, -ENOMEM, or -ETIME or
 * -EINTR if the round is over. */
static int probe(struct wake_survey *survey, int number, uint64_t round_ns,
                 char why[WAKE_WHY_SIZE]) {
  struct wake_burst_result result;
  struct surveyed *core = find_or_add(survey, number);
  if (core == NULL)
    return no_memory(why);
  int status = wake_burst_probe(survey->burst, number, &result, why);
  if (status == -ETIME || status == -EINTR)
    return status;
  if (status != 0) {
    say_once(survey, core, "wake latency of core %d is not measured: %s",
             number, why);
    return 0;
  }
  survey->probes += result.armed;
  status = count_events(survey, core, &result, round_ns);
  return status == 0 ? 0 : no_memory(why);
}

/* ---------------------------------------------------------------------------
 * All cores
 */

static int probe_all(struct wake_survey *survey,
                     const struct wake_survey_core *cores, size_t len,
                     uint64_t round_ns, char why[WAKE_WHY_SIZE]) {
  size_t first = 0;
  while (first < len && cores[first].core < survey->next)
    first++;
  survey->next = 0;
  for (size_t i = 0; i < len; i++) {
    const struct wake_survey_core *core = &cores[(first + i) % len];
    if (!(core->load <= survey->options.load_max))
      continue;
    int status = probe(survey, core->core, round_ns, why);
    if (status == -ETIME)
      survey->next = core->core;
    if (status != 0)
      return status == -ETIME || status == -EINTR ? 0 : status;
  }
  return 0;
}

int wake_survey_round(struct wake_survey *survey,
                      const struct wake_survey_core *cores, size_t len,
                      uint64_t now_ns, uint64_t duration_ns,
                      char why[WAKE_WHY_SIZE]) {
  bool any = false;
  for (size_t i = 0; i < survey->len; i++)
    if (now_ns > survey->options.window_ns)
      forget(survey->list[i], now_ns - survey->options.window_ns);
  for (size_t i = 0; i < len; i++)
    any |= cores[i].load <= survey->options.load_max;
  if (!any)
    return 0;
  int status = wake_burst_begin(survey->burst, duration_ns, why);
  if (status != 0)
    return status;
  status = probe_all(survey, cores, len, now_ns, why);
  wake_burst_end(survey->burst);
  return status;
}

uint64_t wake_survey_probes(const struct wake_survey *survey) {
  return survey->probes;
}

size_t wake_survey_datapoints(const struct wake_survey *survey, int core) {
  const struct surveyed *found = find(survey, core);
  return found == NULL ? 0 : found->window_len;
}

double wake_survey_percentile(const struct wake_survey *survey, int core,
                              enum wake_metric metric, double percent) {
  const struct surveyed *found = find(survey, core);
  return found == NULL ? NAN
                       : wake_distribution_percentile(
                             &found->distribution[metric], percent) /
                             1e9;
}
