/* result: writes datapoints as a raw result of wult, format 1.3: a directory
 * with datapoints.csv and info.yml, which `wult report` reads. */
#ifndef PERCORE_WAKE_RESULT_H
#define PERCORE_WAKE_RESULT_H

#include "wake.h"

/* What info.yml says about the measurement. */
struct wake_result_info {
  const char *version; /* of percore */
  const char *method;  /* what woke the core */
  int core;
  double seconds;
};

/* Makes the directory, which must not exist. Call this before measuring. */
int wake_result_prepare(const char *folder, char why[WHY_SIZE]);

/* Writes the datapoints that count, which must have been armed: wult wants
 * their LDist. Never overwrites a file. */
int wake_result_write(const struct wake_points *points, const char *folder,
                      const struct wake_result_info *info, char why[WHY_SIZE]);

#endif
