/* burner: makes a load of known size. Runs on one core, alternately busy and
 * asleep, and logs exactly when it was busy.
 *
 *   burner CORE PATTERN SECONDS LOG
 *
 * PATTERN is BUSY/PERIOD in microseconds (37000/61000), or one of these
 * patterns, which follow the kernel's timer tick:
 *
 *   tick     1 ms busy, 1 ms asleep, and always asleep when the tick fires
 *   hog      busy, except from 0.25 ms before each tick to 0.25 ms after it
 *   antihog  busy from 0.15 ms before each tick to 0.15 ms after it
 *   wakes    busy for a moment, 500 times per second, never at a tick
 *
 * The burner sets its timers early, by as much as recent wake-ups were late: a
 * halted guest may take 0.1 ms to wake, which is a large part of some patterns.
 *
 * The log begins with lines "# key value": fifo (1: with a real-time priority),
 * ticks_busy (ticks that fired while the burner was busy), ticks (all ticks),
 * cpu_ns (the CPU time of the burner). Then it contains a line "begin end" for
 * each busy span, in nanoseconds of CLOCK_REALTIME. The log does not include
 * the kernel's work to wake the burner and put it to sleep. */
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#define MICROSECOND INT64_C(1000)
#define MILLISECOND INT64_C(1000000)
#define SECOND INT64_C(1000000000)

/* The burner is busy from phase_ns to phase_ns + busy_ns after each multiple of
 * period_ns on CLOCK_MONOTONIC. */
struct pattern {
  int64_t period_ns, phase_ns, busy_ns;
};

struct span {
  int64_t begin_ns, end_ns;
};

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

/* Returns the period of the timer tick in nanoseconds. The tick fires at
 * multiples of this period on CLOCK_MONOTONIC. */
static int64_t tick_ns(void) {
  struct timespec resolution;
  clock_getres(CLOCK_MONOTONIC_COARSE, &resolution);
  return resolution.tv_sec * SECOND + resolution.tv_nsec;
}

static bool parse_pattern(struct pattern *pattern, const char *text) {
  int64_t tick = tick_ns();
  long busy_us, period_us;
  if (strcmp(text, "tick") == 0)
    *pattern = (struct pattern){2 * MILLISECOND, MILLISECOND / 2, MILLISECOND};
  else if (strcmp(text, "hog") == 0)
    *pattern = (struct pattern){tick, MILLISECOND / 4, tick - MILLISECOND / 2};
  else if (strcmp(text, "antihog") == 0)
    *pattern =
        (struct pattern){tick, tick - 150 * MICROSECOND, 300 * MICROSECOND};
  else if (strcmp(text, "wakes") == 0)
    *pattern = (struct pattern){2 * MILLISECOND, MILLISECOND, MICROSECOND};
  else if (sscanf(text, "%ld/%ld", &busy_us, &period_us) == 2 && busy_us > 0 &&
           period_us > busy_us)
    *pattern =
        (struct pattern){period_us * MICROSECOND, 0, busy_us * MICROSECOND};
  else
    return false;
  return true;
}

/* Pins this thread to the core, and sets a real-time priority, which keeps
 * other tasks off the core while this thread is busy. Returns false if the
 * priority is not permitted. */
static bool prepare(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  if (sched_setaffinity(0, sizeof(cores), &cores) != 0) {
    perror("burner: sched_setaffinity");
    exit(1);
  }
  prctl(PR_SET_TIMERSLACK, 1);
  struct sched_param priority = {.sched_priority = 60};
  return sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
}

struct log {
  struct span *spans;
  size_t len, max;
  int64_t ticks_busy, ticks;
};

/* Returns a new estimate, in nanoseconds, of how late wake-ups are: the old
 * estimate `late_ns`, moved one small step towards the lateness `seen_ns`. The
 * step is small, so that a single pause of the machine has little effect. The
 * estimate is limited, so that the pattern `hog` never wakes before a tick. */
static int64_t next_lateness(int64_t late_ns, int64_t seen_ns) {
  enum { STEP = 2000, MOST = 120000 };
  late_ns += seen_ns > late_ns ? STEP : -STEP;
  return late_ns < 0 ? 0 : late_ns > MOST ? MOST : late_ns;
}

static void burn(struct log *log, const struct pattern *pattern,
                 int64_t duration_ns) {
  int64_t begin_ns = now_ns(CLOCK_MONOTONIC);
  int64_t end_ns = begin_ns + duration_ns;
  int64_t next_ns = begin_ns / pattern->period_ns * pattern->period_ns +
                    pattern->period_ns + pattern->phase_ns;
  int64_t tick = tick_ns(), late_ns = 0;
  while (next_ns < end_ns && log->len < log->max) {
    sleep_until(next_ns - late_ns);
    struct span *span = &log->spans[log->len++];
    span->begin_ns = now_ns(CLOCK_MONOTONIC);
    late_ns = next_lateness(late_ns, span->begin_ns - (next_ns - late_ns));
    do
      span->end_ns = now_ns(CLOCK_MONOTONIC);
    while (span->end_ns < next_ns + pattern->busy_ns);
    log->ticks_busy += span->end_ns / tick - span->begin_ns / tick;
    while (next_ns <= span->end_ns)
      next_ns += pattern->period_ns;
  }
  log->ticks = (now_ns(CLOCK_MONOTONIC) - begin_ns) / tick;
}

static int write_log(FILE *file, const struct log *log, bool fifo,
                     int64_t realtime_ns) {
  fprintf(file, "# fifo %d\n# ticks_busy %lld\n# ticks %lld\n# cpu_ns %lld\n",
          fifo, (long long)log->ticks_busy, (long long)log->ticks,
          (long long)now_ns(CLOCK_PROCESS_CPUTIME_ID));
  for (size_t i = 0; i < log->len; i++)
    fprintf(file, "%lld %lld\n",
            (long long)(log->spans[i].begin_ns + realtime_ns),
            (long long)(log->spans[i].end_ns + realtime_ns));
  return fclose(file) == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
  struct pattern pattern;
  if (argc != 5 || !parse_pattern(&pattern, argv[2])) {
    fprintf(stderr,
            "usage: burner CORE BUSY_US/PERIOD_US|tick|hog|antihog|wakes "
            "SECONDS LOG\n");
    return 2;
  }
  int64_t duration_ns = (int64_t)(atof(argv[3]) * 1e9);
  struct log log = {.max = (size_t)(duration_ns / pattern.period_ns) + 2};
  log.spans = calloc(log.max, sizeof(*log.spans));
  FILE *file = fopen(argv[4], "w");
  if (log.spans == NULL || file == NULL) {
    perror("burner");
    return 1;
  }
  memset(log.spans, 1,
         log.max * sizeof(*log.spans)); /* avoids page faults in burn() */
  mlockall(MCL_CURRENT);
  bool fifo = prepare(atoi(argv[1]));
  int64_t realtime_ns = now_ns(CLOCK_REALTIME) - now_ns(CLOCK_MONOTONIC);
  burn(&log, &pattern, duration_ns);
  return write_log(file, &log, fifo, realtime_ns);
}
