/* survey: probes the cores of a machine, one after another and again and again,
 * to measure how fast they wake. A probe arms a BPF timer that expires at most
 * 4 ms later. The figures are about a window of time that ends now. Takes 32
 * bytes of memory per datapoint in the window. */
#ifndef PERCORE_WAKE_SURVEY_H
#define PERCORE_WAKE_SURVEY_H

#include "wake.h"

#define WAKE_SURVEY_PROBES_MAX 1000 /* of one core in one round */
#define WAKE_SURVEY_VALUES 7

/* Returns the name of a value, such as "timer_wake_p50". */
const char *wake_survey_value_name(int value);

struct wake_survey_options {
  uint64_t probes; /* of each core in a round */
  uint64_t window_ns;
  double load_max; /* cores with a higher load are not probed */
  uint64_t (*now_ns)(void *context); /* CLOCK_MONOTONIC */
  /* Sleeps for `ns` nanoseconds. Returns false if the round must end
   * immediately. */
  bool (*wait)(void *context, uint64_t ns);
  /* Called at most once for each core, with the reason why it is not measured
   * or why its probes are ignored. */
  void (*say)(void *context, const char *line);
  void *context;
};

/* A core that may be probed, and its figures over the window. */
struct wake_survey_core {
  int core;
  double load; /* recent load, 0 to 1; if it is NAN, the core is not probed */
  size_t datapoints;                  /* that count */
  double value_s[WAKE_SURVEY_VALUES]; /* NAN: fewer than 10 datapoints above */
};

struct wake_survey;

/* Loads the BPF programs. Returns 0, -ENODEV if cpuidle has no driver, because
 * results could then not be checked, or another negative errno. */
int wake_survey_open(struct wake_survey **survey,
                     const struct wake_survey_options *options,
                     char why[WHY_SIZE]);
void wake_survey_close(struct wake_survey *survey); /* NULL is ignored */

/* Forgets the datapoints that have left the window, probes the cores, which
 * must be sorted by core number, smallest first, and stores their figures. If
 * there is not enough time for all cores, the next round begins where this
 * round ended. Returns 0 or a negative errno; after an error, close the survey.
 */
int wake_survey_round(struct wake_survey *survey,
                      struct wake_survey_core *cores, size_t len,
                      uint64_t duration_ns, char why[WHY_SIZE]);

/* Returns how many probes have been made so far on all cores. */
uint64_t wake_survey_probes(const struct wake_survey *survey);

#endif
