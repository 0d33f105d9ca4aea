#include "survey.h"

#include "base/array.h"
#include "base/core_set.h"
#include "core.h"
#include "summary.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define DISTANCE_NS UINT64_C(4000000)
#define POLL_NS UINT64_C(20000000)
#define WINDOW_NS (WAKE_SURVEY_WINDOW_S * UINT64_C(1000000000))
#define LATE_NS UINT64_C(100000000) /* how long to wait for late probes */

_Static_assert(WAKE_SURVEY_PROBES <= WAKE_EVENTS_KEPT, "events would be lost");

static const struct {
  const char *name;
  enum wake_metric metric;
  double percent;
} values[WAKE_SURVEY_VALUES] = {
    {"timer_wake_p50", WAKE_LATENCY, 50},
    {"timer_wake_p99", WAKE_LATENCY, 99},
    {"timer_wake_p99_9", WAKE_LATENCY, 99.9},
    {"timer_intr_p50", WAKE_INTR_LATENCY, 50},
    {"timer_intr_p99", WAKE_INTR_LATENCY, 99},
    {"timer_intr_p99_9", WAKE_INTR_LATENCY, 99.9},
    {"timer_silent_p50", WAKE_SILENT_TIME, 50},
};

struct surveyed {
  bool said; /* the reason why this core is not measured has been logged */
  struct wake_points points; /* in the window */
  struct wake_states states; /* of a burst that counted; len is 0: none */
};

struct wake_survey {
  struct wake_survey_options options;
  struct wake_collect *collect;
  struct surveyed *list; /* by number of core */
  size_t len;
  int next; /* the number of the core with which the next round begins */
  uint64_t until_ns; /* when the round ends */
  uint64_t probes;
  struct wake_stats stats; /* of the core whose figures are wanted */
};

static bool goes_on(void *context) {
  const struct wake_survey *survey = context;
  return survey->options.wait(survey->options.context, 0);
}

/* Says why a core is not measured, the first time. */
static void say_once(const struct wake_survey *survey, struct surveyed *core,
                     int number, const char *why) {
  char line[WHY_SIZE + 64];
  snprintf(line, sizeof(line),
           "a burst of probes on core %d gave no wake latencies: %s", number,
           why);
  if (!core->said)
    survey->options.say(survey->options.context, line);
  core->said = true;
}

/* True if any core has an idle driver: the first may be offline, or differ. */
static bool has_idle_driver(void) {
  struct wake_states states;
  for (int core = 0; core < CORES_MAX; core++) {
    wake_core_states("", core, &states);
    if (!isnan(states.list[0].latency_us))
      return true;
  }
  return false;
}

int wake_survey_open(struct wake_survey **result,
                     const struct wake_survey_options *options,
                     char why[WHY_SIZE]) {
  struct wake_survey *survey = calloc(1, sizeof(*survey));
  const struct wake_collect_options collect = {.method = WAKE_ANY,
                                               .distance_ns = DISTANCE_NS,
                                               .armed_max = WAKE_SURVEY_PROBES,
                                               .smis = -1,
                                               .goes_on = goes_on,
                                               .context = survey};
  *result = NULL;
  if (survey == NULL)
    return why_fails(why, -ENOMEM, "out of memory");
  survey->options = *options;
  int status =
      has_idle_driver()
          ? wake_collect_open(&survey->collect, &collect, why)
          : why_fails(why, -ENODEV,
                      "cpuidle has no driver here, so there is no count of "
                      "idle states to check the figures against; percore wake "
                      "shows unchecked figures");
  if (status != 0) {
    free(survey);
    return status;
  }
  if (why[0] != '\0')
    options->say(options->context, why);
  *result = survey;
  return 0;
}

void wake_survey_close(struct wake_survey *survey) {
  if (survey == NULL)
    return;
  for (size_t i = 0; i < survey->len; i++)
    wake_points_free(&survey->list[i].points);
  free(survey->list);
  wake_stats_free(&survey->stats);
  wake_collect_close(survey->collect);
  free(survey);
}

/* ---------------------------------------------------------------------------
 * One core
 */

/* Waits until all probes are done or the time is up. Returns false if `wait`
 * returned false. First sleeps for as long as the probes take on average,
 * because this thread would disturb the core if it woke up there earlier. */
static bool wait_for_probes(const struct wake_survey *survey) {
  const struct wake_survey_options *options = &survey->options;
  uint64_t begin = options->now_ns(options->context);
  uint64_t most = WAKE_SURVEY_PROBES * DISTANCE_NS;
  uint64_t until = begin + most + LATE_NS;
  if (until > survey->until_ns)
    until = survey->until_ns;
  uint64_t left = until > begin ? until - begin : 0;
  bool going =
      options->wait(options->context, most / 2 < left ? most / 2 : left);
  while (going && !wake_collect_is_done(survey->collect) &&
         options->now_ns(options->context) < until)
    going = options->wait(options->context, POLL_NS);
  return going;
}

/* Probes one core and adds its datapoints. Returns 0, -ENOMEM, or -EINTR if the
 * round must end. */
static int probe(struct wake_survey *survey, int number, char why[WHY_SIZE]) {
  size_t len = (size_t)number + 1;
  if (len > survey->len) {
    if (!array_grow(&survey->list, survey->len, len, sizeof(*survey->list)))
      return -ENOMEM;
    survey->len = len;
  }
  struct surveyed *core = &survey->list[number];
  int status = wake_collect_begin(survey->collect, number, why);
  if (status == 0 && !wait_for_probes(survey))
    status = -EINTR;
  const struct wake_collect_status *found =
      wake_collect_status(survey->collect);
  survey->probes += found->armed;
  if (status == 0 && wake_collect_check(found, why) == WAKE_AGREES) {
    core->states = found->states;
    status = wake_collect_poll(survey->collect, &core->points);
  } else if (status != -EINTR) {
    say_once(survey, core, number, why);
    status = 0;
  }
  wake_collect_end(survey->collect);
  return status;
}

/* ---------------------------------------------------------------------------
 * All cores
 */

static int probe_all(struct wake_survey *survey,
                     const struct wake_survey_core *cores, size_t len,
                     char why[WHY_SIZE]) {
  const struct wake_survey_options *options = &survey->options;
  size_t first = 0;
  int status = 0;
  while (first < len && cores[first].core < survey->next)
    first++;
  survey->next = 0;
  for (size_t i = 0; status == 0 && i < len; i++) {
    const struct wake_survey_core *core = &cores[(first + i) % len];
    if (!(core->load <= WAKE_SURVEY_LOAD_MAX))
      continue;
    if (options->now_ns(options->context) >= survey->until_ns) {
      survey->next = core->core;
      break;
    }
    status = probe(survey, core->core, why);
  }
  return status == -ENOMEM ? why_fails(why, status, "out of memory") : 0;
}

static void put_known(wake_survey_put *put, void *context, const char *name,
                      double us) {
  if (!isnan(us))
    put(context, name, us / 1e6);
}

uint64_t wake_survey_figures(struct wake_survey *survey, int number,
                             wake_survey_put *put, void *context) {
  static const double percents[] = {50, 99};
  struct wake_stats *stats = &survey->stats;
  wake_stats_clear(stats);
  if ((size_t)number >= survey->len)
    return 0;
  const struct surveyed *core = &survey->list[number];
  for (size_t i = 0; i < core->points.len; i++)
    if (wake_stats_add(stats, &core->points.list[i]) != 0)
      return 0;
  for (int v = 0; v < WAKE_SURVEY_VALUES; v++) {
    const struct histogram *all = stats->of[WAKE_ALL_STATES];
    put_known(put, context, values[v].name,
              wake_percentile(&all[values[v].metric], values[v].percent));
  }
  for (int state = 0; state < core->states.len; state++)
    for (int p = 0; p < 2; p++) {
      const struct histogram *latency = wake_stats_latency(stats, state);
      char name[64];
      snprintf(name, sizeof(name), "cstate_%s_p%g",
               core->states.list[state].name, percents[p]);
      put_known(put, context, name, wake_percentile(latency, percents[p]));
    }
  return core->points.len;
}

void wake_survey_advertised(const struct wake_survey *survey,
                            wake_survey_put *put, void *context) {
  const struct surveyed *core = survey->list, *end = core + survey->len;
  while (core < end && core->states.len == 0)
    core++;
  for (int i = 0; core < end && i < core->states.len; i++) {
    char name[64];
    snprintf(name, sizeof(name), "cstate_%s_advertised",
             core->states.list[i].name);
    put_known(put, context, name, core->states.list[i].latency_us);
  }
}

int wake_survey_round(struct wake_survey *survey,
                      const struct wake_survey_core *cores, size_t len,
                      uint64_t duration_ns, char why[WHY_SIZE]) {
  const struct wake_survey_options *options = &survey->options;
  uint64_t now_ns = options->now_ns(options->context);
  bool any = false;
  int status = 0;
  for (size_t i = 0; i < survey->len; i++)
    if (now_ns > WINDOW_NS)
      wake_points_forget(&survey->list[i].points, now_ns - WINDOW_NS);
  for (size_t i = 0; i < len; i++)
    any |= cores[i].load <= WAKE_SURVEY_LOAD_MAX;
  if (any) {
    survey->until_ns = now_ns + duration_ns;
    status = wake_collect_attach(survey->collect, why);
    if (status == 0)
      status = probe_all(survey, cores, len, why);
    wake_collect_detach(survey->collect);
  }
  return status;
}

uint64_t wake_survey_probes(const struct wake_survey *survey) {
  return survey->probes;
}
