#include "percore_config.h"

#include "result.h"

#include "base/metric_name.h"

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
  return why_fails(
      why, -error, "cannot write %.200s: %s; %s", path, strerror(error),
      error == ENOSPC   ? "what was measured until then is kept"
      : error == EEXIST ? "its " INFO
                          " says how that measurement ended; name a new "
                          "directory, because a result is never overwritten"
                        : "name a directory that you can write to");
}

static int make(const struct wake_result *result, const char *name) {
  return openat(result->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                0666);
}

int wake_result_open(struct wake_result *result, const char *folder,
                     char why[WHY_SIZE]) {
  *result = (struct wake_result){folder, .dir = -1, .csv = -1, .info = -1};
  result->begun = time(NULL);
  result->is_new = mkdir(folder, 0777) == 0;
  if ((result->is_new || errno == EEXIST) &&
      (result->dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC)) >= 0 &&
      (result->csv = make(result, DATAPOINTS)) >= 0 &&
      (result->info = make(result, INFO)) >= 0)
    return 0;
  int error = errno;
  wake_result_close(result);
  return fail(folder, error, why);
}

void wake_result_close(struct wake_result *result) {
  if (!result->has_rows && result->csv >= 0)
    unlinkat(result->dir, DATAPOINTS, 0);
  if (!result->has_rows && result->info >= 0)
    unlinkat(result->dir, INFO, 0);
  if (!result->has_rows && result->is_new)
    rmdir(result->folder);
  close(result->csv);
  close(result->info);
  close(result->dir);
}

/* ---------------------------------------------------------------------------
 * datapoints.csv
 */

/* Writes no column that is empty, because wult refuses empty values. */
static void write_rows(FILE *file, const struct wake_points *points,
                       const struct wake_collect_status *status,
                       bool has_titles) {
  bool has_smis = status->smis >= 0;
  bool has_user = !isnan(points->list[0].us[WAKE_USER_LATENCY]);
  if (!has_titles)
    fprintf(file,
            "WakeLatency,IntrLatency,SilentTime,LDist,IntrOff,ReqCState%s%s\n",
            has_smis ? ",SMICnt" : "", has_user ? ",UserLatency" : "");
  for (size_t i = 0; i < points->len; i++) {
    const struct wake_point *point = &points->list[i];
    fprintf(file, "%.3f,%.3f,%.3f,%.3f,%s,%s", (double)point->us[WAKE_LATENCY],
            (double)point->us[WAKE_INTR_LATENCY],
            (double)point->us[WAKE_SILENT_TIME], (double)point->distance_us,
            point->interrupts_off ? "True" : "False",
            status->states.list[point->state].name);
    if (has_smis)
      fprintf(file, ",%u", point->smis);
    if (has_user)
      fprintf(file, ",%.3f", (double)point->us[WAKE_USER_LATENCY]);
    fputc('\n', file);
  }
}

/* Appends lines, of which no part stays if not all can be written. */
static int append(struct wake_result *result, const char *text, size_t size) {
  off_t begin = lseek(result->csv, 0, SEEK_END);
  size_t done = 0;
  ssize_t more = 0;
  while (done < size &&
         (more = write(result->csv, text + done, size - done)) > 0)
    done += (size_t)more;
  int status = done < size ? -errno : 0;
  while (done > 0 && text[done - 1] != '\n')
    done--;
  result->has_rows |= done > 0;
  return ftruncate(result->csv, begin + (off_t)done) == 0 ? status : -errno;
}

/* ---------------------------------------------------------------------------
 * info.yml
 */

/* What woke the core is the "device" of wult; `resolution` is in ns. */
static void write_info(FILE *file, const struct wake_collect_status *status,
                       const char *ended, time_t begun) {
  char date[32], moment[32], host[256] = "unknown";
  struct timespec resolution;
  struct tm local;
  localtime_r(&begun, &local);
  strftime(date, sizeof(date), "%d %b %Y", &local);
  strftime(moment, sizeof(moment), "%Y%m%d-%H%M%S", &local);
  clock_getres(CLOCK_MONOTONIC, &resolution);
  gethostname(host, sizeof(host) - 1);
  metric_name_clean(host); /* a report's ID has the same characters */
  fprintf(file,
          "reportid: %s-cpu%d-%s-%s\ntoolname: wult\ntoolver: "
          "percore " PACKAGE_VERSION "\n"
          "format_version: '1.3'\ncpu: %d\ndate: %s\ndevid: %s\n"
          "devdescr: percore wake with BPF programs, without wult's driver",
          host, status->core, status->method, moment, status->core, date,
          status->method);
  if (!wake_collect_has_result(status))
    fprintf(file, ", NOT A RESULT because only %llu of %llu events count",
            (unsigned long long)status->datapoints,
            (unsigned long long)status->armed);
  fprintf(file,
          "\nresolution: %ld\nduration: %.1fs\nended: '%s'\narmed: %llu\n"
          "datapoints: %llu\ndropped:\n",
          resolution.tv_nsec, status->seconds,
          ended != NULL ? ended : "running", (unsigned long long)status->armed,
          (unsigned long long)status->datapoints);
  for (int i = 0; i < WAKE_DROPS; i++)
    fprintf(file, "  %s: %llu\n", wake_drop_texts[i].name,
            (unsigned long long)status->drops[i]);
}

/* Writes over the old text, which has the same size. */
static int replace_info(const struct wake_result *result,
                        const struct wake_collect_status *status,
                        const char *ended) {
  char text[INFO_SIZE + 1];
  FILE *file = fmemopen(text, sizeof(text), "w");
  if (file == NULL)
    return -errno;
  write_info(file, status, ended, result->begun);
  fprintf(file, "%*s", (int)(INFO_SIZE - ftell(file)), "\n");
  fclose(file);
  errno = ENOSPC; /* if only a part is written */
  return pwrite(result->info, text, INFO_SIZE, 0) == INFO_SIZE ? 0 : -errno;
}

int wake_result_write(struct wake_result *result,
                      const struct wake_points *points,
                      const struct wake_collect_status *status,
                      const char *ended, char why[WHY_SIZE]) {
  char *rows = NULL;
  size_t size = 0;
  int failed = replace_info(result, status, ended);
  if (failed == 0 && points->len > 0) {
    FILE *file = open_memstream(&rows, &size);
    if (file != NULL)
      write_rows(file, points, status, result->has_rows);
    failed = file != NULL && fclose(file) == 0 ? append(result, rows, size)
                                               : -ENOMEM;
    free(rows);
  }
  return failed == 0 ? 0 : fail(result->folder, -failed, why);
}
