/* result: writes datapoints, as they come, as a raw result of wult, format 1.3:
 * a directory with datapoints.csv and info.yml, which `wult report` reads at
 * any time. */
#ifndef PERCORE_WAKE_RESULT_H
#define PERCORE_WAKE_RESULT_H

#include "collect.h"

#include <time.h>

/* What info.yml says about the measurement. */
struct wake_result_info {
  const char *version; /* of percore */
  const char *method;  /* what woke the core */
  const char *ended;   /* why the measurement ended; NULL while it goes on */
  int core;
  double seconds;
  const struct wake_collect_status *status;
};

struct wake_result {
  const char *folder;
  bool is_new; /* the folder did not exist */
  time_t begun;
  int dir;       /* descriptor of the folder */
  int csv, info; /* descriptors; -1 before the first datapoint */
  bool has_user, has_smis;
};

/* Makes the directory, or takes one that contains no result. Call this before
 * measuring. `folder` must stay valid. */
int wake_result_open(struct wake_result *result, const char *folder,
                     char why[WHY_SIZE]);

/* Appends datapoints, which must have been armed: wult wants their LDist. Then
 * replaces info.yml. The files are made with the first datapoint, and their
 * space with them, so that info.yml can be replaced even if the disk is full.
 * If not all datapoints can be written, no part of a row stays. */
int wake_result_write(struct wake_result *result,
                      const struct wake_points *points,
                      const struct wake_result_info *info, char why[WHY_SIZE]);

/* Closes the files. Removes the directory if it is new and has no rows. */
void wake_result_close(struct wake_result *result);

#endif
