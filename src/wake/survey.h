/* survey: uses bursts of probes to measure how fast the cores of a machine
 * wake. Counts all datapoints since the survey was opened, in 28 KiB of memory
 * per core; datapoints that are held back may take as much again. */
#ifndef PERCORE_WAKE_SURVEY_H
#define PERCORE_WAKE_SURVEY_H

#include "burst.h"
#include "distribution.h"

/* Percentiles of a core with fewer datapoints are unknown. */
#define WAKE_SURVEY_DATAPOINTS_MIN 1000

struct wake_survey_options {
  struct wake_burst_options burst;
  double load_max; /* cores with a higher load are not probed */
  /* Called at most once for each core, with the reason why it is not measured
   * or why a burst is ignored. */
  void (*say)(void *context, const char *line);
  void *context;
};

/* A core that may be probed. */
struct wake_survey_core {
  int core;
  double load; /* recent load, 0 to 1; if it is NAN, the core is not probed */
};

struct wake_survey;

/* Opens a survey. Returns 0, or a negative errno as wake_burst_open does. */
int wake_survey_open(struct wake_survey **survey,
                     const struct wake_survey_options *options,
                     char why[WAKE_WHY_SIZE]);
void wake_survey_close(struct wake_survey *survey); /* NULL is ignored */

/* Probes the cores one after another. `cores` must be sorted by core number,
 * smallest first. If there is not enough time for all cores, the next round
 * begins where this round ended. Returns 0 or a negative errno; after an error,
 * close the survey. */
int wake_survey_round(struct wake_survey *survey,
                      const struct wake_survey_core *cores, size_t len,
                      uint64_t duration_ns, char why[WAKE_WHY_SIZE]);

/* Returns how many probes have been made so far on all cores. */
uint64_t wake_survey_probes(const struct wake_survey *survey);

/* Returns a percentile of a metric on a core in seconds, or NAN if there are
 * too few datapoints. */
double wake_survey_percentile(const struct wake_survey *survey, int core,
                              enum wake_metric metric, double percent);

#endif
