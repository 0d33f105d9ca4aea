/* survey: uses bursts of probes to measure how fast the cores of a machine
 * wake. The figures are about a window that ends with the last round. Takes 20
 * KiB of memory per core, and 16 bytes per datapoint in the window. */
#ifndef PERCORE_WAKE_SURVEY_H
#define PERCORE_WAKE_SURVEY_H

#include "burst.h"

struct wake_survey_options {
  struct wake_burst_options burst;
  uint64_t window_ns;
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

/* Forgets the datapoints of rounds that began more than window_ns before
 * now_ns, and then probes the cores one after another. `cores` must be sorted
 * by core number, smallest first. If there is not enough time for all cores,
 * the next round begins where this round ended. Returns 0 or a negative errno;
 * after an error, close the survey. */
int wake_survey_round(struct wake_survey *survey,
                      const struct wake_survey_core *cores, size_t len,
                      uint64_t now_ns, uint64_t duration_ns,
                      char why[WAKE_WHY_SIZE]);

/* Returns how many probes have been made so far on all cores. */
uint64_t wake_survey_probes(const struct wake_survey *survey);

/* Returns how many datapoints of a core are in the window. */
size_t wake_survey_datapoints(const struct wake_survey *survey, int core);

/* Returns a percentile of a metric on a core in seconds, or NAN if fewer than
 * 10 datapoints in the window are above it. UserLatency is not measured. */
double wake_survey_percentile(const struct wake_survey *survey, int core,
                              enum wake_metric metric, double percent);

#endif
