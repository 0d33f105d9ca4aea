/* survey: probes the cores of a machine, one after another and again and again,
 * to measure how fast they wake. A probe arms a timer that expires within 4 ms.
 * The figures are about a window of time that ends now. Takes 48 bytes of
 * memory per datapoint in the window. */
#ifndef PERCORE_WAKE_SURVEY_H
#define PERCORE_WAKE_SURVEY_H

#include "collect.h"

#define WAKE_SURVEY_PROBES 100   /* of one core in one round */
#define WAKE_SURVEY_WINDOW_S 600 /* of the figures */
#define WAKE_SURVEY_LOAD_MAX 0.5 /* cores with a higher load are not probed */
#define WAKE_SURVEY_VALUES 7     /* percentiles over all idle states */

struct wake_survey_options {
  uint64_t (*now_ns)(void *context); /* CLOCK_MONOTONIC */
  /* Sleeps for `ns` nanoseconds. Returns false if the round must end
   * immediately. */
  bool (*wait)(void *context, uint64_t ns);
  /* Called at most once for each core, with the reason why it is not measured
   * or why its probes are ignored. */
  void (*say)(void *context, const char *line);
  void *context;
};

/* A core that may be probed. */
struct wake_survey_core {
  int core;
  double load; /* recent load, 0 to 1; if it is NAN, the core is not probed */
};

struct wake_survey;

/* Loads the BPF programs, and says if there is no BPF timer. Returns
 * 0, -ENODEV if cpuidle has no driver, because results could then not be
 * checked, or another negative errno. */
int wake_survey_open(struct wake_survey **survey,
                     const struct wake_survey_options *options,
                     char why[WHY_SIZE]);
void wake_survey_close(struct wake_survey *survey); /* NULL is ignored */

/* Forgets the datapoints that have left the window, and probes the cores, which
 * must be sorted by core number, smallest first. If there is not enough time
 * for all cores, the next round begins where this round ended. Returns 0 or a
 * negative errno; after an error, close the survey.
 */
int wake_survey_round(struct wake_survey *survey,
                      const struct wake_survey_core *cores, size_t len,
                      uint64_t duration_ns, char why[WHY_SIZE]);

/* Calls put() for each percentile in the window that at least 10 datapoints of
 * a core exceed, in seconds: "timer_wake_p50" and others over all idle states,
 * "cstate_C6_p50" and "cstate_C6_p99" of each state. Returns the number of
 * datapoints. */
typedef void wake_survey_put(void *context, const char *name, double value_s);
uint64_t wake_survey_figures(struct wake_survey *survey, int core,
                             wake_survey_put *put, void *context);

/* Calls put() for the exit latency that is advertised for each idle state of
 * the first core whose probes agreed with cpuidle: "cstate_C6_advertised". */
void wake_survey_advertised(const struct wake_survey *survey,
                            wake_survey_put *put, void *context);

/* Returns how many probes have been made so far on all cores. */
uint64_t wake_survey_probes(const struct wake_survey *survey);

#endif
