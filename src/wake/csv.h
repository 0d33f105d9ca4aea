/* csv: datapoints as CSV, with the columns of wult. */
#ifndef PERCORE_WAKE_CSV_H
#define PERCORE_WAKE_CSV_H

#include "filter.h"

/* The format_version of wult's files with times in microseconds. */
#define WAKE_FORMAT_VERSION "1.3"

struct wake_csv_options {
  struct wake_filter include; /* without comparisons: all datapoints */
  struct wake_filter exclude; /* without comparisons: none */
  /* The unit of the times; 0: as info.yml in the same directory specifies. */
  double us_per_unit;
};

/* Adds the datapoints of a file, or of datapoints.csv in a directory, for which
 * `include` holds and `exclude` does not. The file must contain at least one of
 * the columns WakeLatency, IntrLatency and UserLatency; SilentTime, LDist,
 * IntrOff and ReqCState are also read, and filters can use any column. If a
 * value is bad, `why` names the file, the line and the column. */
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

/* Writes datapoints, and info.yml with the keys of wult in the same directory.
 */
int wake_csv_write(const struct wake_points *points, const char *path,
                   const struct wake_csv_info *info, char why[WAKE_WHY_SIZE]);

#endif
