/* csv: reads and writes datapoints as CSV files with the columns of wult. */
#ifndef PERCORE_WAKE_CSV_H
#define PERCORE_WAKE_CSV_H

#include "filter.h"

/* The format_version of wult's files whose durations are in microseconds. */
#define WAKE_FORMAT_VERSION "1.3"

struct wake_csv_options {
  struct wake_filter include; /* empty: all datapoints */
  struct wake_filter exclude; /* empty: none */
  /* The unit of the file's durations, in microseconds. 0 means that the unit is
   * 1 us, which info.yml in the same directory must confirm. */
  double us_per_unit;
};

/* Adds the datapoints for which `include` holds and `exclude` does not, from a
 * file or, if `path` is a directory, from the file datapoints.csv in it. The
 * file must contain at least one of the columns WakeLatency, IntrLatency and
 * UserLatency; SilentTime, LDist, IntrOff and ReqCState are also read, and
 * filters can use any column. If a value is bad, `why` names the file, the line
 * and the column. */
int wake_csv_read(struct wake_points *points, const char *path,
                  const struct wake_csv_options *options,
                  char why[WAKE_WHY_SIZE]);

/* The contents of info.yml. */
struct wake_csv_info {
  const char *version; /* of percore */
  const char *method;  /* what woke the core; NULL if the datapoints come from a
                          file: then the members below are unused */
  const char *source;
  int core;
  double seconds;
};

/* Writes datapoints to a file. Also writes info.yml, which contains the keys
 * that wult uses, to the same directory. */
int wake_csv_write(const struct wake_points *points, const char *path,
                   const struct wake_csv_info *info, char why[WAKE_WHY_SIZE]);

#endif
