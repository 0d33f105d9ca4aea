/* csv: datapoints as CSV, with the columns of wult. */
#ifndef PERCORE_WAKE_CSV_H
#define PERCORE_WAKE_CSV_H

#include "filter.h"

/* The format_version of wult's files with times in microseconds. */
#define WAKE_FORMAT_VERSION "1.3"

struct wake_csv_options {
  const struct wake_filter *include; /* NULL: all */
  const struct wake_filter *exclude; /* NULL: none */
  double
      us_per_unit; /* 0: as given by info.yml, which must be beside the file */
};

/* Adds the datapoints of a file, or of datapoints.csv in a directory. Columns
 * are found by their names: SilentTime, LDist, IntrOff, ReqCState, and at least
 * one of WakeLatency, IntrLatency and UserLatency. Only filters use other
 * columns. Adds the datapoints for which `include` holds and `exclude` does
 * not. Returns 0 or a negative errno; `why` names the file, the line and the
 * column. */
int wake_csv_read(struct wake_points *points, const char *path,
                  const struct wake_csv_options *options,
                  char why[WAKE_WHY_SIZE]);

/* The contents of info.yml. */
struct wake_csv_info {
  const char *version; /* of percore */
  const char *method;  /* what woke the core; NULL: the datapoints come from a
                          file, and the rest is unknown */
  const char *source;
  int core;
  double seconds;
};

/* Writes datapoints, and info.yml beside them, with the keys of wult. Returns 0
 * or a negative errno. */
int wake_csv_write(const struct wake_points *points, const char *path,
                   const struct wake_csv_info *info, char why[WAKE_WHY_SIZE]);

#endif
