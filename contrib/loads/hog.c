/* hog: a load that the timer tick never sees.
 *
 * The kernel charges a whole tick period to the task that is running when the
 * tick fires. This program runs for most of every period and sleeps when the
 * tick fires, so tick-based accounting shows an idle core. It reports for what
 * share of the time it was really busy.
 *
 * Ticks fire at multiples of their period on CLOCK_MONOTONIC (unless the kernel
 * was booted with skew_tick=1). */
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define MICROSECOND INT64_C(1000)
#define SECOND INT64_C(1000000000)

static const char help[] =
    "Usage: hog CORE SECONDS [EVERY]\n"
    "Keeps a core busy for most of each timer tick and sleeps while the tick "
    "comes.\nPrints at the end how busy the core was. With EVERY, also prints "
    "a "
    "line\n'hog TIME PERCENT' whenever the clock is at a multiple of EVERY "
    "seconds.\n";

static int64_t now_ns(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * SECOND + time.tv_nsec;
}

static void sleep_until(int64_t time_ns) {
  struct timespec time = {.tv_sec = time_ns / SECOND,
                          .tv_nsec = time_ns % SECOND};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
    ;
}

static int64_t tick_period_ns(void) {
  struct timespec resolution;
  clock_getres(CLOCK_MONOTONIC_COARSE, &resolution);
  return resolution.tv_sec * SECOND + resolution.tv_nsec;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Busy time since the last line was printed. */
struct report {
  int64_t every_ns; /* 0: print no lines */
  int64_t due_ns;   /* when the next line is due, CLOCK_REALTIME */
  int64_t since_ns; /* CLOCK_MONOTONIC */
  int64_t busy_ns;
};

static void report_start(struct report *report, int64_t every_ns) {
  int64_t realtime_ns = now_ns(CLOCK_REALTIME);
  *report = (struct report){.every_ns = every_ns,
                            .since_ns = now_ns(CLOCK_MONOTONIC)};
  if (every_ns > 0)
    report->due_ns = (realtime_ns / every_ns + 1) * every_ns;
}

static void report_busy(struct report *report, int64_t busy_ns) {
  report->busy_ns += busy_ns;
  if (report->every_ns == 0 || now_ns(CLOCK_REALTIME) < report->due_ns)
    return;
  int64_t monotonic_ns = now_ns(CLOCK_MONOTONIC);
  printf("hog %lld %.1f\n", (long long)(report->due_ns / SECOND),
         100 * (double)report->busy_ns /
             (double)(monotonic_ns - report->since_ns));
  fflush(stdout);
  report->busy_ns = 0;
  report->since_ns = monotonic_ns;
  report->due_ns += report->every_ns;
}

static bool pin(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  if (sched_setaffinity(0, sizeof(cores), &cores) != 0) {
    fprintf(stderr, "hog: cannot run on core %d: %s\n", core, strerror(errno));
    return false;
  }
  prctl(PR_SET_TIMERSLACK, 1);
  /* sched_setscheduler fails without the right to use SCHED_FIFO, and hog then
   * runs at normal priority. If it succeeds, no normal task runs on the core
   * while hog is busy. */
  struct sched_param priority = {.sched_priority = 1};
  sched_setscheduler(0, SCHED_FIFO, &priority);
  return true;
}

/* Runs from shortly after each tick until well before the next tick, because
 * the tick must not fire while this program runs. Waking up takes tens of
 * microseconds. Returns the share of the time in which the program ran, 0 to
 * 1. */
static double burn(int64_t duration_ns, int64_t every_ns) {
  int64_t tick_ns = tick_period_ns();
  int64_t after_ns = least(150 * MICROSECOND, tick_ns / 16);
  int64_t before_ns = least(350 * MICROSECOND, tick_ns / 8);
  int64_t start_ns = now_ns(CLOCK_MONOTONIC), busy_ns = 0, now = start_ns;
  struct report report;
  report_start(&report, every_ns);
  while (now < start_ns + duration_ns) {
    int64_t next_tick_ns = (now / tick_ns + 1) * tick_ns;
    sleep_until(next_tick_ns + after_ns);
    int64_t begin_ns = now_ns(CLOCK_MONOTONIC);
    int64_t end_ns = (begin_ns / tick_ns + 1) * tick_ns - before_ns;
    do
      now = now_ns(CLOCK_MONOTONIC);
    while (now < end_ns);
    busy_ns += now - begin_ns;
    report_busy(&report, now - begin_ns);
  }
  return (double)busy_ns / (double)(now - start_ns);
}

static bool parse(const char *text, double least, double most, double *value) {
  char *end;
  *value = strtod(text, &end);
  return end != text && *end == '\0' && *value >= least && *value <= most;
}

int main(int argc, char **argv) {
  double core, seconds, every = 0;
  if (argc == 2 &&
      (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)) {
    fputs(help, stdout);
    return 0;
  }
  if (argc < 3 || argc > 4 || !parse(argv[1], 0, CPU_SETSIZE - 1, &core) ||
      !parse(argv[2], 0.1, 86400, &seconds) ||
      (argc == 4 && !parse(argv[3], 1, 3600, &every))) {
    fputs(help, stderr);
    return 2;
  }
  if (!pin((int)core))
    return 1;
  double busy = burn((int64_t)(seconds * 1e9), (int64_t)every * SECOND);
  printf("this load kept core %d busy for %.1f %% of %.1f s\n", (int)core,
         100 * busy, seconds);
  return 0;
}
