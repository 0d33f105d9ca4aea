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
  if (region == NULL || region->is_sink)
    return false;
  pthread_mutex_lock(&region->mutex);
  region->room = 0;
  return true;
}

void region_unlock(struct percore_region *region) {
  pthread_mutex_unlock(&region->mutex);
}

bool region_lock_table(struct percore_region *region, uint32_t *table,
                       bool changes_rows) {
  if (!region_lock(region))
    return false;
  if (changes_rows && region->is_child)
    errno = EPERM;
  else if (table == NULL)
    return true;
  else if (*table >= region->table_count - 1)
    errno = EINVAL;
  else
    return ++*table > 0;
  region_unlock(region);
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

void region_pause(void) {
  struct timespec left = {.tv_nsec = 1000000};
  NOT_CANCELLED;
  while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
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
struct reading {
  uint64_t ns, tsc;
  uint64_t suspended_ns; /* how long the machine has been suspended */
};

/* Reads the clock and the tick count as simultaneously as possible: reads the
 * tick count between two readings of the clock, and keeps the attempt in which
 * these two were closest together. */
static struct reading read_both(void) {
  enum { ATTEMPTS = 32 };
  struct reading reading = {.suspended_ns = clock_now_ns(CLOCK_BOOTTIME) -
                                            clock_now_ns(CLOCK_MONOTONIC)};
  uint64_t shortest = UINT64_MAX;
  for (int i = 0; i < ATTEMPTS; i++) {
    uint64_t before = clock_now_ns(CLOCK_MONOTONIC_RAW);
    uint64_t ticks = percore_tsc();
    uint64_t after = clock_now_ns(CLOCK_MONOTONIC_RAW);
    if (after - before >= shortest)
      continue;
    shortest = after - before;
    reading.ns = before + (after - before) / 2;
    reading.tsc = ticks;
  }
  return reading;
}

static struct reading at_load;

static __attribute__((constructor)) void read_at_load(void) {
  at_load = read_both();
}

/* Measures from the load of the library on, so that a program seldom waits. The
 * wait is no sleep, which would take longer on a busy machine. The error was at
 * most 21 ppm over the least time, 1 ppm over a millisecond, and 0.5 ppm over
 * 20 ms. */
static void measure_tsc_hz(void) {
  enum { LEAST_NS = 200000 };
  struct reading from = at_load, to = read_both();
  if (to.suspended_ns - from.suspended_ns + LEAST_NS > 2 * LEAST_NS)
    from = to; /* the ticks may not have counted while it was suspended */
  while (to.ns - from.ns < LEAST_NS)
    to = read_both();
  measured_tsc_hz =
      (uint64_t)((double)(to.tsc - from.tsc) * 1e9 / (double)(to.ns - from.ns));
}
#else
static void measure_tsc_hz(void) {
#if defined(__aarch64__)
  __asm__("mrs %0, cntfrq_el0" : "=r"(measured_tsc_hz));
#else
  measured_tsc_hz = NS_PER_S;
#endif
}
#endif

uint64_t region_tsc_hz(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, measure_tsc_hz);
  return measured_tsc_hz;
}
