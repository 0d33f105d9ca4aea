/* writer.c: the parts that the other files of the writer share: the lock, and
 * the frequency of percore_tsc. Calls no other file of the writer. */
#include "percore_config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "writer.h"

#include "base/cancellation.h"
#include "base/clock.h"

bool region_lock(struct percore_region *region) {
  errno = ENODEV;
  if (region->is_sink)
    return false;
  pthread_mutex_lock(&region->mutex);
  if (!region->forked)
    return true;
  pthread_mutex_unlock(&region->mutex);
  return false;
}

void region_unlock(struct percore_region *region) {
  pthread_mutex_unlock(&region->mutex);
}

bool region_lock_table(struct percore_region *region, uint32_t *table) {
  if (!region_lock(region))
    return false;
  if (*table < region->table_count - 1) {
    ++*table;
    return true;
  }
  region_unlock(region);
  errno = EINVAL;
  return false;
}

/* fprintf would take 8 KiB of stack, because stderr has no buffer. */
void region_say(const struct percore_region *region, const char *format, ...) {
  char line[512] = "percore: ";
  va_list arguments;
  NOT_CANCELLED;
  if (region->quiet)
    return;
  size_t start = strlen(line);
  va_start(arguments, format);
  vsnprintf(line + start, sizeof(line) - start - 1, format, arguments);
  va_end(arguments);
  strcat(line, "\n");
  while (write(STDERR_FILENO, line, strlen(line)) < 0 && errno == EINTR)
    ;
}

uint32_t region_count_threads(void) {
  struct stat tasks; /* two links more than subdirectories */
  if (stat("/proc/self/task", &tasks) != 0 || tasks.st_nlink < 3)
    return 1;
  return (uint32_t)tasks.st_nlink - 2;
}

/* ---------------------------------------------------------------------------
 * The frequency of percore_tsc
 */

static uint64_t measured_tsc_hz;

#if defined(__x86_64__)
/* Reads the clock and the tick count as simultaneously as possible: reads the
 * tick count between two readings of the clock, and keeps the attempt in which
 * these two were closest together. */
static void read_both(uint64_t *ns, uint64_t *tsc) {
  uint64_t shortest = UINT64_MAX;
  for (int i = 0; i < 8; i++) {
    uint64_t before = clock_now_ns(CLOCK_MONOTONIC_RAW);
    uint64_t ticks = percore_tsc();
    uint64_t after = clock_now_ns(CLOCK_MONOTONIC_RAW);
    if (after - before >= shortest)
      continue;
    shortest = after - before;
    *ns = before + (after - before) / 2;
    *tsc = ticks;
  }
}
#endif

static void measure_tsc_hz(void) {
#if defined(__aarch64__)
  __asm__("mrs %0, cntfrq_el0" : "=r"(measured_tsc_hz));
#elif defined(__x86_64__)
  struct timespec pause = {.tv_nsec = 20000000};
  uint64_t ns[2] = {0}, tsc[2] = {0};
  read_both(&ns[0], &tsc[0]);
  nanosleep(&pause, NULL);
  read_both(&ns[1], &tsc[1]);
  measured_tsc_hz =
      (uint64_t)((double)(tsc[1] - tsc[0]) * 1e9 / (double)(ns[1] - ns[0]));
#else
  measured_tsc_hz = 1000000000u;
#endif
}

uint64_t region_tsc_hz(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, measure_tsc_hz);
  return measured_tsc_hz;
}
