#include "result.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PATH_SIZE 4096

static int fail(const char *path, int error, char why[WHY_SIZE]) {
  return why_fails(
      why, -error, "cannot write %.200s: %s; %s", path, strerror(error),
      error == EEXIST
          ? "name a new directory, because a result is never overwritten"
          : "name a directory that you can write to");
}

int wake_result_prepare(const char *folder, char why[WHY_SIZE]) {
  return mkdir(folder, 0777) == 0 ? 0 : fail(folder, errno, why);
}

/* Writes no column that is empty, because wult refuses empty values. */
static void write_points(FILE *file, const struct wake_points *points,
                         const struct wake_result_info *info) {
  bool has_user = !isnan(points->list[0].us[WAKE_USER_LATENCY]);
  for (int metric = 0; metric < WAKE_METRICS; metric++)
    if (metric != WAKE_USER_LATENCY || has_user)
      fprintf(file, "%s,", wake_metric_names[metric]);
  (void)info;
  fputs("LDist,IntrOff,ReqCState\n", file);
  for (size_t i = 0; i < points->len; i++) {
    const struct wake_point *point = &points->list[i];
    if (!wake_point_counts(points, point))
      continue;
    for (int metric = 0; metric < WAKE_METRICS; metric++)
      if (metric != WAKE_USER_LATENCY || has_user)
        fprintf(file, "%.3f,", (double)point->us[metric]);
    fprintf(file, "%.3f,%s,%s\n", (double)point->distance_us,
            point->interrupts_off ? "True" : "False",
            points->states[point->state]);
  }
}

/* Writes text with only the characters that wult allows in a report's ID. */
static void write_id(FILE *file, const char *text) {
  for (; *text != '\0'; text++)
    fputc(isalnum((unsigned char)*text) || strchr("-.", *text) != NULL ? *text
                                                                       : '_',
          file);
}

/* What woke the core is the "device" of wult; `resolution` is in ns. */
static void write_info(FILE *file, const struct wake_points *points,
                       const struct wake_result_info *info) {
  char date[32], moment[32], host[256] = "unknown";
  struct timespec resolution;
  time_t now = time(NULL);
  struct tm local;
  (void)points;
  localtime_r(&now, &local);
  strftime(date, sizeof(date), "%d %b %Y", &local);
  strftime(moment, sizeof(moment), "%Y%m%d-%H%M%S", &local);
  clock_getres(CLOCK_MONOTONIC, &resolution);
  gethostname(host, sizeof(host) - 1);
  fputs("reportid: ", file);
  write_id(file, host);
  fprintf(file,
          "-cpu%d-%s-%s\ntoolname: wult\ntoolver: percore %s\n"
          "format_version: '1.3'\ncpu: %d\ndate: %s\ndevid: %s\n"
          "devdescr: percore wake with BPF programs, without wult's driver\n"
          "resolution: %ld\nduration: %.1fs\n",
          info->core, info->method, moment, info->version, info->core, date,
          info->method, resolution.tv_nsec, info->seconds);
}

int wake_result_write(const struct wake_points *points, const char *folder,
                      const struct wake_result_info *info, char why[WHY_SIZE]) {
  static const struct {
    const char *name;
    void (*write)(FILE *file, const struct wake_points *points,
                  const struct wake_result_info *info);
  } parts[] = {{"datapoints.csv", write_points}, {"info.yml", write_info}};
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
    char path[PATH_SIZE];
    snprintf(path, sizeof(path), "%s/%s", folder, parts[i].name);
    FILE *file = fopen(path, "wxe");
    if (file == NULL)
      return fail(path, errno, why);
    parts[i].write(file, points, info);
    if ((ferror(file) != 0) | (fclose(file) != 0))
      return fail(path, errno != 0 ? errno : EIO, why);
  }
  return 0;
}
