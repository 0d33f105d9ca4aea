#include "csv.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define COLUMNS_MAX 1024
#define LINE_MAX_BYTES 65536
#define NO_COLUMN (-1)

enum { INTR_OFF = WAKE_METRICS, STATE, DISTANCE, KNOWN };

static const char *known_name(int known) {
  static const char *const others[] = {"IntrOff", "ReqCState", "LDist"};
  return known < WAKE_METRICS ? wake_metric_name((enum wake_metric)known)
                              : others[known - WAKE_METRICS];
}

/* Columns of wult that percore does not use but that must contain numbers.
 * Columns whose names end with % must also contain numbers; other columns may
 * contain anything. */
static const char *const numbers[] = {"WakeLatencyRaw",
                                      "IntrLatencyRaw",
                                      "CPUFreq",
                                      "SMICnt",
                                      "NMICnt",
                                      "SWIRQCnt",
                                      "WarmupDelay",
                                      "LatchDelay",
                                      "LTime",
                                      "TBI",
                                      "TAI",
                                      "TIntr"};
#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

struct reading {
  const char *path;
  FILE *file;
  const struct wake_csv_options *options;
  double us_per_unit;
  char line[LINE_MAX_BYTES];
  size_t line_number;
  size_t columns;
  char *values[COLUMNS_MAX];   /* of the line */
  double numbers[COLUMNS_MAX]; /* of the line, if is_number; NAN if empty */
  bool is_number[COLUMNS_MAX]; /* the column must contain numbers */
  int known[KNOWN];            /* index of each known column, or NO_COLUMN */
  /* Indexes of the columns that the filters use. */
  int include[WAKE_COMPARISONS_MAX], exclude[WAKE_COMPARISONS_MAX];
  char *why;
};

__attribute__((format(printf, 2, 3))) static int fail(struct reading *reading,
                                                      const char *format, ...) {
  int length = snprintf(reading->why, WAKE_WHY_SIZE,
                        "%.200s:%zu: ", reading->path, reading->line_number);
  va_list list;
  va_start(list, format);
  vsnprintf(reading->why + length, WAKE_WHY_SIZE - (size_t)length, format,
            list);
  va_end(list);
  return -EINVAL;
}

/* ---------------------------------------------------------------------------
 * Lines
 */

/* Reads a line. Returns 1, 0 at the end of the file, or -EINVAL. */
static int next_line(struct reading *reading) {
  size_t length = 0;
  int c;
  reading->line_number++;
  while ((c = getc_unlocked(reading->file)) != EOF && c != '\n') {
    if (c == '\0')
      return fail(reading, "binary data: a NUL byte");
    if (length + 1 == sizeof(reading->line))
      return fail(reading, "the line is longer than %d bytes",
                  LINE_MAX_BYTES - 1);
    reading->line[length++] = (char)c;
  }
  if (ferror(reading->file))
    return fail(reading, "cannot read the file: %s", strerror(errno));
  if (length > 0 && reading->line[length - 1] == '\r')
    length--;
  reading->line[length] = '\0';
  return c != EOF || length > 0;
}

/* Cuts the line at its commas. Returns the number of values; if there are too
 * many, returns COLUMNS_MAX. */
static size_t split(struct reading *reading) {
  size_t len = 0;
  for (char *at = reading->line; at != NULL && len < COLUMNS_MAX;) {
    reading->values[len++] = at;
    at = strchr(at, ',');
    if (at != NULL)
      *at++ = '\0';
  }
  return len;
}

static bool is_printable(const char *text) {
  for (; *text != '\0'; text++)
    if ((unsigned char)*text < ' ' || (unsigned char)*text >= 0x7f)
      return false;
  return true;
}

/* Returns a value as it is shown in messages. */
static const char *shown(const char *value) {
  return is_printable(value) ? value : "(binary)";
}

/* ---------------------------------------------------------------------------
 * The header
 */

static bool is_number_column(const char *name) {
  size_t length = strlen(name);
  for (size_t i = 0; i < NUMBERS; i++)
    if (strcmp(name, numbers[i]) == 0)
      return true;
  return length > 0 && name[length - 1] == '%';
}

static int find_columns(struct reading *reading) {
  for (int known = 0; known < KNOWN; known++)
    reading->known[known] = NO_COLUMN;
  for (size_t i = 0; i < reading->columns; i++) {
    const char *name = reading->values[i];
    if (!is_printable(name))
      return fail(reading, "the names of the columns are not text");
    reading->is_number[i] = is_number_column(name);
    for (int known = 0; known < KNOWN; known++) {
      if (strcmp(name, known_name(known)) != 0)
        continue;
      if (reading->known[known] != NO_COLUMN)
        return fail(reading, "two columns are named %s", name);
      reading->known[known] = (int)i;
      reading->is_number[i] = known != INTR_OFF && known != STATE;
    }
  }
  if (reading->known[WAKE_LATENCY] == NO_COLUMN &&
      reading->known[WAKE_INTR_LATENCY] == NO_COLUMN &&
      reading->known[WAKE_USER_LATENCY] == NO_COLUMN)
    return fail(reading, "the file has no column WakeLatency, IntrLatency or "
                         "UserLatency, so it holds no datapoints");
  return 0;
}

static int find_filter_columns(struct reading *reading,
                               const struct wake_filter *filter, int *columns) {
  for (size_t f = 0; f < filter->len; f++) {
    columns[f] = NO_COLUMN;
    for (size_t i = 0; i < reading->columns; i++)
      if (strcmp(reading->values[i], filter->list[f].column) == 0)
        columns[f] = (int)i;
    if (columns[f] == NO_COLUMN)
      return fail(reading, "the file has no column %s to filter by",
                  filter->list[f].column);
    if (!filter->list[f].is_number && reading->is_number[columns[f]])
      return fail(
          reading,
          "%s is a number, but '%s' is not; only 'and' joins comparisons",
          filter->list[f].column, filter->list[f].text);
  }
  return 0;
}

static int read_header(struct reading *reading) {
  int status = next_line(reading);
  if (status == 0)
    return fail(reading, "the file is empty");
  if (status < 0)
    return status;
  reading->columns = split(reading);
  if (reading->columns == COLUMNS_MAX)
    return fail(reading, "the file has more than %d columns", COLUMNS_MAX - 1);
  status = find_columns(reading);
  if (status == 0)
    status = find_filter_columns(reading, &reading->options->include,
                                 reading->include);
  if (status == 0)
    status = find_filter_columns(reading, &reading->options->exclude,
                                 reading->exclude);
  return status;
}

/* ---------------------------------------------------------------------------
 * Datapoints
 */

static const char *value_of(const struct reading *reading, int known) {
  int column = reading->known[known];
  return column == NO_COLUMN ? NULL : reading->values[column];
}

static int refuse_number(struct reading *reading, size_t column) {
  const char *value = shown(reading->values[column]);
  for (int known = 0; known < KNOWN; known++)
    if (reading->known[known] == (int)column)
      return fail(reading, "%s is '%.40s', not a number", known_name(known),
                  value);
  return fail(reading, "column %zu is '%.40s', not a number", column + 1,
              value);
}

/* Parses the numbers in the line, including those that percore does not use,
 * because a bad number is a sign of a damaged line. Refuses numbers above
 * FLT_MAX, because a datapoint cannot store them. */
static int read_numbers(struct reading *reading) {
  for (size_t i = 0; i < reading->columns; i++) {
    double *number = &reading->numbers[i];
    *number = NAN;
    if (reading->is_number[i] && reading->values[i][0] != '\0' &&
        (!wake_to_number(number, reading->values[i]) ||
         fabs(*number) > (double)FLT_MAX))
      return refuse_number(reading, i);
  }
  return 0;
}

/* Returns a duration in microseconds, or NAN if the line does not contain it.
 */
static float us_of(const struct reading *reading, int known) {
  int column = reading->known[known];
  return column == NO_COLUMN
             ? NAN
             : (float)(reading->numbers[column] * reading->us_per_unit);
}

static int read_flag(struct reading *reading, bool *interrupts_off,
                     const char *state) {
  const char *text = value_of(reading, INTR_OFF);
  *interrupts_off = strcmp(state, "POLL") != 0;
  if (text == NULL)
    return 0;
  bool off = strcmp(text, "True") == 0 || strcmp(text, "1") == 0;
  if (!off && strcmp(text, "False") != 0 && strcmp(text, "0") != 0)
    return fail(reading, "IntrOff is '%.40s', not True or False", shown(text));
  *interrupts_off = off;
  return 0;
}

static int read_state(struct reading *reading, struct wake_points *points,
                      uint8_t *number) {
  const char *text = value_of(reading, STATE);
  if (text == NULL || text[0] == '\0')
    text = "unknown";
  if (!is_printable(text))
    return fail(reading, "ReqCState is not text");
  int state = wake_points_state(points, text);
  if (state < 0)
    return fail(reading,
                "ReqCState '%.40s' is too long, or the file has more than %d "
                "idle states",
                text, WAKE_STATES_MAX);
  *number = (uint8_t)state;
  return 0;
}

static bool holds(const struct reading *reading,
                  const struct wake_filter *filter, const int *columns) {
  for (size_t f = 0; f < filter->len; f++)
    if (!wake_comparison_holds(&filter->list[f], reading->values[columns[f]]))
      return false;
  return true;
}

static bool is_taken(const struct reading *reading) {
  const struct wake_csv_options *options = reading->options;
  return holds(reading, &options->include, reading->include) &&
         (options->exclude.len == 0 ||
          !holds(reading, &options->exclude, reading->exclude));
}

static int read_point(struct reading *reading, struct wake_points *points) {
  size_t columns = split(reading);
  if (columns != reading->columns)
    return fail(reading, "the line has %zu values, but there are %zu columns",
                columns, reading->columns);
  struct wake_point point;
  int status = read_numbers(reading);
  if (status == 0)
    status = read_state(reading, points, &point.state);
  if (status == 0)
    status =
        read_flag(reading, &point.interrupts_off, points->states[point.state]);
  if (status != 0 || !is_taken(reading))
    return status;
  point.distance_us = us_of(reading, DISTANCE);
  for (int metric = 0; metric < WAKE_METRICS; metric++)
    point.us[metric] = us_of(reading, metric);
  if (!point.interrupts_off)
    point.us[WAKE_LATENCY] = NAN;
  return wake_points_add(points, &point) == 0 ? 0
                                              : fail(reading, "out of memory");
}

/* ---------------------------------------------------------------------------
 * info.yml
 */

static void path_beside(char *beside, size_t size, const char *path,
                        const char *name) {
  const char *slash = strrchr(path, '/');
  int folder = slash != NULL ? (int)(slash - path) + 1 : 0;
  snprintf(beside, size, "%.*s%s", folder, path, name);
}

/* Reads the version from a line such as "format_version: '1.3'". */
static bool read_version(FILE *file, char *version, size_t size) {
  char line[1024], value[64];
  while (fgets(line, sizeof(line), file) != NULL)
    if (sscanf(line, "format_version: %63[^\n]", value) == 1) {
      const char *first = value + (value[0] == '\'' || value[0] == '"');
      snprintf(version, size, "%.*s", (int)strcspn(first, "'\" \r"), first);
      return true;
    }
  return false;
}

/* Returns 0 if info.yml says that durations are in microseconds, otherwise
 * -EPROTO. Files written before 2021 contain integers in nanoseconds. */
static int check_format(const char *path, char why[WAKE_WHY_SIZE]) {
  char info[4096], version[32] = "";
  path_beside(info, sizeof(info), path, "info.yml");
  FILE *file = fopen(info, "re");
  bool known = file != NULL && read_version(file, version, sizeof(version));
  if (file != NULL)
    fclose(file);
  if (known && strcmp(version, WAKE_FORMAT_VERSION) == 0)
    return 0;
  snprintf(
      why, WAKE_WHY_SIZE,
      known
          ? "%.200s: format_version %s is unknown, because only %s is "
            "supported; give the unit of the times with --unit us or --unit ns"
          : "%.200s: no format_version%s%s; give the unit of the times "
            "with --unit us or --unit ns",
      info, known ? version : "", known ? WAKE_FORMAT_VERSION : "");
  return -EPROTO;
}

/* ---------------------------------------------------------------------------
 * Files
 */

static int none_matches(const struct reading *reading,
                        const struct wake_points *points) {
  size_t used = (size_t)snprintf(
      reading->why, WAKE_WHY_SIZE,
      "%.200s: none of %zu datapoints matches; idle states in this file:",
      reading->path,
      reading->line_number - 2); /* minus header and end of file */
  for (size_t s = 0; s < points->states_len && used < WAKE_WHY_SIZE; s++)
    used += (size_t)snprintf(reading->why + used, WAKE_WHY_SIZE - used, "%s %s",
                             s > 0 ? "," : "", points->states[s]);
  return -ENOENT;
}

static int read_all(struct reading *reading, struct wake_points *points) {
  int status = read_header(reading), more = 1;
  while (status == 0 && (more = next_line(reading)) > 0)
    status = read_point(reading, points);
  if (status != 0 || more < 0)
    return status != 0 ? status : more;
  bool is_none = points->states_len > 0 && points->len == 0;
  return is_none ? none_matches(reading, points) : 0;
}

int wake_csv_read(struct wake_points *points, const char *path,
                  const struct wake_csv_options *options,
                  char why[WAKE_WHY_SIZE]) {
  char inside[4096];
  struct stat status;
  if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
    snprintf(inside, sizeof(inside), "%s/datapoints.csv", path);
    path = inside;
  }
  FILE *file = fopen(path, "re");
  if (file == NULL) {
    int error = errno;
    snprintf(why, WAKE_WHY_SIZE, "%.200s: %s", path, strerror(error));
    return -error;
  }
  struct reading *reading = calloc(1, sizeof(*reading));
  int result = -ENOMEM;
  if (reading == NULL) {
    snprintf(why, WAKE_WHY_SIZE, "out of memory");
  } else {
    reading->path = path;
    reading->file = file;
    reading->options = options;
    reading->us_per_unit = options->us_per_unit == 0 ? 1 : options->us_per_unit;
    reading->why = why;
    result = read_all(reading, points);
  }
  free(reading);
  fclose(file);
  return result != 0 || options->us_per_unit != 0 ? result
                                                  : check_format(path, why);
}

/* ---------------------------------------------------------------------------
 * Writing
 */

static void write_us(FILE *file, float us) {
  if (isnan(us))
    fputc(',', file);
  else
    fprintf(file, "%.3f,", (double)us);
}

static int cannot_write(const char *path, char why[WAKE_WHY_SIZE]) {
  snprintf(why, WAKE_WHY_SIZE, "cannot write %.200s: %s", path,
           strerror(errno));
  return -EIO;
}

static int close_written(FILE *file, const char *path,
                         char why[WAKE_WHY_SIZE]) {
  bool failed = (ferror(file) != 0) | (fclose(file) != 0);
  return failed ? cannot_write(path, why) : 0;
}

/* wult allows letters, digits and -.,_~ in a report's ID. */
static void write_report_id(FILE *file, const struct wake_csv_info *info,
                            const char *day) {
  char host[256] = "unknown";
  gethostname(host, sizeof(host) - 1);
  for (char *at = host; *at != '\0'; at++)
    if (!isalnum((unsigned char)*at) && strchr("-.", *at) == NULL)
      *at = '_';
  fprintf(file, "reportid: %s-cpu%d-%s-%s\n", host, info->core, info->method,
          day);
}

/* Writes the lines of info.yml about the measurement. What woke the core is
 * called "device" in wult; `resolution` is in nanoseconds. */
static void write_measurement(FILE *file, const struct wake_csv_info *info) {
  char date[32], day[32];
  struct timespec resolution;
  time_t now = time(NULL);
  struct tm local;
  localtime_r(&now, &local);
  strftime(date, sizeof(date), "%d %b %Y", &local);
  strftime(day, sizeof(day), "%Y%m%d", &local);
  clock_getres(CLOCK_MONOTONIC, &resolution);
  write_report_id(file, info, day);
  fprintf(file,
          "cpu: %d\ndate: %s\ndevid: %s\n"
          "devdescr: percore wake, method %s, source %s\n"
          "resolution: %ld\nduration: %.1fs\n",
          info->core, date, info->method, info->method, info->source,
          resolution.tv_nsec, info->seconds);
}

int wake_csv_write(const struct wake_points *points, const char *path,
                   const struct wake_csv_info *info, char why[WAKE_WHY_SIZE]) {
  char beside[4096];
  FILE *file = fopen(path, "we");
  if (file == NULL)
    return cannot_write(path, why);
  for (int metric = 0; metric < WAKE_METRICS; metric++)
    fprintf(file, "%s,", wake_metric_name((enum wake_metric)metric));
  fputs("LDist,IntrOff,ReqCState\n", file);
  for (size_t i = 0; i < points->len; i++) {
    const struct wake_point *point = &points->list[i];
    for (int metric = 0; metric < WAKE_METRICS; metric++)
      write_us(file, point->us[metric]);
    write_us(file, point->distance_us);
    fprintf(file, "%s,%s\n", point->interrupts_off ? "True" : "False",
            points->states[point->state]);
  }
  int status = close_written(file, path, why);
  if (status != 0)
    return status;
  path_beside(beside, sizeof(beside), path, "info.yml");
  file = fopen(beside, "we");
  if (file == NULL)
    return cannot_write(beside, why);
  fprintf(file, "toolname: percore\ntoolver: %s\nformat_version: '%s'\n",
          info->version, WAKE_FORMAT_VERSION);
  if (info->method != NULL)
    write_measurement(file, info);
  return close_written(file, beside, why);
}
