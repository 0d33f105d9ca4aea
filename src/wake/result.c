#include "result.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DATAPOINTS "datapoints.csv"
#define INFO "info.yml"
#define INFO_SIZE 2048 /* info.yml is padded, so that it never grows */

static int fail(const char *path, int error, char why[WHY_SIZE]) {
  return why_fails(why, -error, "cannot write %.200s: %s; %s", path,
                   strerror(error),
                   error == ENOSPC ? "what was measured until then is kept"
                                   : "name a directory that you can write to");
}

int wake_result_open(struct wake_result *result, const char *folder,
                     char why[WHY_SIZE]) {
  *result = (struct wake_result){
      .folder = folder, .begun = time(NULL), .csv = -1, .info = -1};
  result->is_new = mkdir(folder, 0777) == 0;
  int dir = result->is_new || errno == EEXIST
                ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                : -1;
  result->dir = dir;
  if (dir < 0)
    return fail(folder, errno, why);
  int status = 0;
  if (faccessat(dir, DATAPOINTS, F_OK, 0) == 0 ||
      faccessat(dir, INFO, F_OK, 0) == 0)
    status = why_fails(why, -EEXIST,
                       "%.200s holds a measurement, and %.220s/" INFO " says "
                       "how it ended; name a new directory, because a result "
                       "is never overwritten",
                       folder, folder);
  else if (faccessat(dir, ".", W_OK, 0) != 0)
    status = fail(folder, errno, why);
  if (status != 0)
    close(dir);
  return status;
}

void wake_result_close(struct wake_result *result) {
  bool is_empty = result->csv < 0 || lseek(result->csv, 0, SEEK_END) == 0;
  if (is_empty && result->csv >= 0)
    unlinkat(result->dir, DATAPOINTS, 0);
  if (is_empty && result->info >= 0)
    unlinkat(result->dir, INFO, 0);
  if (is_empty && result->is_new)
    rmdir(result->folder);
  close(result->csv);
  close(result->info);
  close(result->dir);
}

/* ---------------------------------------------------------------------------
 * datapoints.csv
 */

/* Writes no column that is empty, because wult refuses empty values. */
static void write_titles(FILE *file, const struct wake_result *result) {
  for (int metric = 0; metric < WAKE_METRICS; metric++)
    if (metric != WAKE_USER_LATENCY || result->has_user)
      fprintf(file, "%s,", wake_metric_names[metric]);
  fprintf(file, "LDist,IntrOff,%sReqCState\n",
          result->has_smis ? "SMICnt," : "");
}

static void write_rows(FILE *file, const struct wake_result *result,
                       const struct wake_points *points) {
  for (size_t i = 0; i < points->len; i++) {
    const struct wake_point *point = &points->list[i];
    for (int metric = 0; metric < WAKE_METRICS; metric++)
      if (metric != WAKE_USER_LATENCY || result->has_user)
        fprintf(file, "%.3f,", (double)point->us[metric]);
    fprintf(file, "%.3f,%s,", (double)point->distance_us,
            point->interrupts_off ? "True" : "False");
    if (result->has_smis)
      fprintf(file, "%u,", point->smis);
    fprintf(file, "%s\n", points->states.list[point->state].name);
  }
}

/* Appends lines. If not all can be written, no part of a line stays. Returns 0
 * or a negative errno. */
static int append(int fd, const char *text, size_t size) {
  size_t done = 0;
  while (done < size) {
    ssize_t written = write(fd, text + done, size - done);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0) {
      int status = written < 0 ? -errno : -ENOSPC;
      off_t part = 0;
      for (; done > 0 && text[done - 1] != '\n'; done--)
        part++;
      return ftruncate(fd, lseek(fd, -part, SEEK_CUR)) == 0 ? status : -errno;
    }
    done += (size_t)written;
  }
  return 0;
}

/* ---------------------------------------------------------------------------
 * info.yml
 */

/* Writes text with only the characters that wult allows in a report's ID. */
static void write_id(FILE *file, const char *text) {
  for (; *text != '\0'; text++)
    fputc(isalnum((unsigned char)*text) || strchr("-.", *text) != NULL ? *text
                                                                       : '_',
          file);
}

/* What woke the core is the "device" of wult; `resolution` is in ns. */
static void write_info(FILE *file, const struct wake_result_info *info,
                       time_t begun) {
  const struct wake_collect_status *status = info->status;
  char date[32], moment[32], host[256] = "unknown";
  struct timespec resolution;
  struct tm local;
  localtime_r(&begun, &local);
  strftime(date, sizeof(date), "%d %b %Y", &local);
  strftime(moment, sizeof(moment), "%Y%m%d-%H%M%S", &local);
  clock_getres(CLOCK_MONOTONIC, &resolution);
  gethostname(host, sizeof(host) - 1);
  fputs("reportid: ", file);
  write_id(file, host);
  fprintf(file,
          "-cpu%d-%s-%s\ntoolname: wult\ntoolver: percore %s\n"
          "format_version: '1.3'\ncpu: %d\ndate: %s\ndevid: %s\n"
          "devdescr: percore wake with BPF programs, without wult's driver",
          info->core, info->method, moment, info->version, info->core, date,
          info->method);
  if (!wake_collect_has_result(status))
    fprintf(file, ", NOT A RESULT because only %llu of %llu events count",
            (unsigned long long)status->datapoints,
            (unsigned long long)status->armed);
  fprintf(file,
          "\nresolution: %ld\nduration: %.1fs\nended: '%s'\narmed: %llu\n"
          "datapoints: %llu\ndropped:\n",
          resolution.tv_nsec, info->seconds,
          info->ended != NULL ? info->ended : "running",
          (unsigned long long)status->armed,
          (unsigned long long)status->datapoints);
  for (int i = 0; i < WAKE_DROPS; i++)
    fprintf(file, "  %s: %llu\n", wake_drop_texts[i].name,
            (unsigned long long)status->drops[i]);
}

/* Writes over the old text, which has the same size. */
static int replace_info(const struct wake_result *result,
                        const struct wake_result_info *info) {
  char text[INFO_SIZE];
  FILE *file = fmemopen(text, sizeof(text), "w");
  if (file == NULL)
    return -errno;
  write_info(file, info, result->begun);
  fflush(file);
  size_t size = (size_t)ftell(file);
  fclose(file);
  memset(text + size, '\n', sizeof(text) - size);
  return pwrite(result->info, text, sizeof(text), 0) < 0 ? -errno : 0;
}

/* ---------------------------------------------------------------------------
 * Both
 */

static int make(const struct wake_result *result, const char *name) {
  return openat(result->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                0666);
}

/* Writes info.yml first: it has its space before datapoints take the last. */
static int write_both(struct wake_result *result,
                      const struct wake_points *points,
                      const struct wake_result_info *info) {
  char *text = NULL;
  size_t size = 0;
  bool is_first = result->csv < 0;
  if (points->len == 0 && is_first)
    return 0;
  if (is_first && ((result->csv = make(result, DATAPOINTS)) < 0 ||
                   (result->info = make(result, INFO)) < 0))
    return -errno;
  int status = replace_info(result, info);
  FILE *file = status == 0 ? open_memstream(&text, &size) : NULL;
  if (file == NULL)
    return status != 0 ? status : -ENOMEM;
  if (is_first) {
    result->has_user = !isnan(points->list[0].us[WAKE_USER_LATENCY]);
    result->has_smis = info->status->smis >= 0;
    write_titles(file, result);
  }
  write_rows(file, result, points);
  fclose(file);
  status = append(result->csv, text, size);
  free(text);
  return status;
}

int wake_result_write(struct wake_result *result,
                      const struct wake_points *points,
                      const struct wake_result_info *info, char why[WHY_SIZE]) {
  int status = write_both(result, points, info);
  return status == 0 ? 0 : fail(result->folder, -status, why);
}
