/* result: writes datapoints, as they come, as a raw result of wult, format 1.3:
 * a directory with datapoints.csv and info.yml, which `wult report` reads at
 * any time. */
#ifndef PERCORE_WAKE_RESULT_H
#define PERCORE_WAKE_RESULT_H

#include "collect.h"

#include <time.h>

struct wake_result {
  const char *folder;
  bool is_new;   /* the folder did not exist */
  bool has_rows; /* datapoints.csv is not empty */
  time_t begun;
  int dir, csv, info; /* descriptors of the folder and the files */
};

/* Makes the directory, or takes one that contains no result, and makes the
 * files. Call this before measuring. `folder` must stay valid. */
int wake_result_open(struct wake_result *result, const char *folder,
                     char why[WHY_SIZE]);

/* Replaces info.yml, which says why the measurement ended, or that it goes on
 * if `ended` is NULL. Then appends datapoints, which must have been armed: wult
 * wants their LDist. info.yml never grows, so that it can be replaced even if
 * the disk has become full. If not all datapoints can be written, no part of a
 * row stays. */
int wake_result_write(struct wake_result *result,
                      const struct wake_points *points,
                      const struct wake_collect_status *status,
                      const char *ended, char why[WHY_SIZE]);

/* Closes the files. Without rows, removes them and a new directory. */
void wake_result_close(struct wake_result *result);

#endif
