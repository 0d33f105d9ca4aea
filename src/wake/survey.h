/* survey: how fast the cores of a machine wake, from bursts of probes. Counts
 * all datapoints since it was opened, in 28 KiB of memory per core; datapoints
 * that are held back may take as much again. */
#ifndef PERCORE_WAKE_SURVEY_H
#define PERCORE_WAKE_SURVEY_H

#include "burst.h"
#include "distribution.h"

/* Percentiles of a core with fewer datapoints are unknown. */
#define WAKE_SURVEY_DATAPOINTS_MIN 1000

struct wake_survey_options {
  struct wake_burst_options burst;
  double load_max; /* cores with a higher load are not probed */
  /* Called once for each core that cannot be measured. */
  void (*say)(void *context, const char *line);
  void *context;
};

/* A core that may be probed. */
struct wake_survey_core {
  int core;
  double load; /* recent, 0 to 1; a core with NAN is not probed */
};

struct wake_survey;

/* Returns 0, or an error as wake_burst_open does. */
int wake_survey_open(struct wake_survey **survey,
                     const struct wake_survey_options *options,
                     char why[WAKE_WHY_SIZE]);
void wake_survey_close(struct wake_survey *survey); /* NULL is ignored */

/* Probes the cores, which are in rising order, one after another. If there is
 * not enough time for all, the next round begins where this one ended. Returns
 * 0 or a negative errno; after an error, close the survey. */
int wake_survey_round(struct wake_survey *survey,
                      const struct wake_survey_core *cores, size_t len,
                      uint64_t duration_ns, char why[WAKE_WHY_SIZE]);

/* Returns the number of probes of all cores so far. */
uint64_t wake_survey_probes(const struct wake_survey *survey);

/* Returns a percentile in seconds, or NAN if there are too few datapoints. */
double wake_survey_percentile(const struct wake_survey *survey, int core,
                              enum wake_metric metric, double percent);

#endif
