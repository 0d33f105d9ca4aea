/* Tests wake latencies in virtual time, with one core. The instructions between
 * two tracepoints are almost always the same, so latencies hardly differ. */
#include "burner.h"
#include "chapters.h"
#include "cores.h"
#include "report.h"
#include "wake/collect.h"
#include "wake/summary.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define MS UINT64_C(1000000)
#define COUNT 1100 /* enough datapoints for a 99 % percentile */
#define POLLS_MAX 100
#define POLL_NS (100 * MS)
#define EXACT_US 0.1
/* With interrupts on, it takes either 4.9 or 5.2 us from the interrupt to its
 * tracepoint. How often it takes 5.2 us depends on the method. */
#define WAYS_US 0.5
#define WAY_IN_US 20 /* more than it takes to enter an idle state */
#define IDLES_EDGE 2 /* idle states that lie only partly in the measurement */

static const struct run {
  const char *name;
  enum wake_method method;
} runs[] = {{"BPF timer", WAKE_BPF_TIMER}, {"thread", WAKE_THREAD}};
#define RUNS (sizeof(runs) / sizeof(runs[0]))

/* Begins to measure a core. Returns NULL if that fails, and its status in
 * `status`. */
static struct wake_collect *open_on(int core, enum wake_method method,
                                    int *status, char why[WHY_SIZE]) {
  const struct wake_collect_options options = {
      .method = method, .distance_ns = 4 * MS, .smis = -1};
  struct wake_collect *collect;
  *status = wake_collect_open(&collect, &options, why);
  if (*status == 0)
    *status = wake_collect_attach(collect, why);
  if (*status == 0)
    *status = wake_collect_begin(collect, core, why);
  if (*status == 0)
    return collect;
  wake_collect_close(collect);
  return NULL;
}

/* Checks the number of idle states. Also checks that interrupts were off at all
 * datapoints if there is a cpuidle driver, and on at all of them otherwise. */
static void judge_counts(const char *name, struct wake_collect *collect,
                         const struct wake_points *points, bool has_cpuidle) {
  const struct wake_collect_status *status = wake_collect_status(collect);
  note("%s: %zu datapoints of %llu events, %llu busy; %llu idle states, usage "
       "%lld",
       name, points->len, (unsigned long long)status->armed,
       (unsigned long long)status->drops[WAKE_DROP_BUSY],
       (unsigned long long)status->idles, (long long)status->usage);
  bool in_order = points->len >= COUNT;
  for (size_t i = 0; i < points->len; i++)
    in_order &= points->list[i].interrupts_off == has_cpuidle;
  result(in_order, "%s: all datapoints have interrupts %s", name,
         has_cpuidle ? "off" : "on");
  result(has_cpuidle
             ? llabs(status->usage - (int64_t)status->idles) <= IDLES_EDGE
             : status->usage == -1,
         has_cpuidle ? "%s: cpuidle counts the same idle states"
                     : "%s: without cpuidle nothing counts the idle states",
         name);
}

struct summary {
  double min_us, median_us, p99_us;
};

/* Summarizes the datapoints, except those of timers that expired while the core
 * was still entering the idle state. */
static void summarize(struct summary *summary, const struct wake_points *points,
                      enum wake_metric metric) {
  static struct wake_stats stats;
  const struct histogram *all = &stats.of[WAKE_ALL_STATES][metric];
  wake_stats_clear(&stats);
  for (size_t i = 0; i < points->len; i++)
    if (points->list[i].us[WAKE_SILENT_TIME] > WAY_IN_US)
      wake_stats_add(&stats, &points->list[i]);
  *summary = (struct summary){wake_figure(all, WAKE_MIN),
                              wake_figure(all, WAKE_MEDIAN),
                              wake_figure(all, WAKE_P99)};
}

static void measure(const struct run *run, bool has_cpuidle,
                    struct summary *summary) {
  char why[WHY_SIZE] = "";
  int status;
  enum wake_metric metric = has_cpuidle ? WAKE_LATENCY : WAKE_INTR_LATENCY;
  struct wake_collect *collect = open_on(0, run->method, &status, why);
  struct wake_points points = {0};
  *summary = (struct summary){.median_us = NAN};
  if (collect == NULL) {
    note("%s: %s", run->name, why);
    result(false, "%s: measures", run->name);
    return;
  }
  for (int i = 0; i < POLLS_MAX && points.len < COUNT; i++) {
    sleep_ns(POLL_NS);
    wake_collect_poll(collect, &points);
  }
  judge_counts(run->name, collect, &points, has_cpuidle);
  summarize(summary, &points, metric);
  note("%s: %s min %.3f median %.3f 99 %% %.3f us", run->name,
       wake_metric_names[metric], summary->min_us, summary->median_us,
       summary->p99_us);
  wake_collect_close(collect);
  wake_points_free(&points);
}

static void measure_all(bool has_cpuidle) {
  struct summary summaries[RUNS];
  for (size_t i = 0; i < RUNS; i++) {
    measure(&runs[i], has_cpuidle, &summaries[i]);
    if (has_cpuidle)
      result(summaries[i].p99_us - summaries[i].min_us < EXACT_US,
             "%s: 99 %% of the wake latencies are within 0.1 us", runs[i].name);
    double later = summaries[i].median_us - summaries[0].median_us;
    double tolerance = has_cpuidle ? EXACT_US : WAYS_US;
    if (i > 0)
      result(fabs(later) < tolerance, "%s: the median is that of the %s",
             runs[i].name, runs[0].name);
  }
}

void chapter_wake_off(void) { measure_all(true); }
void chapter_wake_on(void) { measure_all(false); }

/* ---------------------------------------------------------------------------
 * A core that other threads keep busy
 */

/* While one emulated core never halts, QEMU switches between the cores only
 * every 0.1 s, so it takes long to end a measurement. */
#define ENDED_S 10

static atomic_bool hog_stops;

static void *hog(void *unused) {
  (void)unused;
  while (!atomic_load(&hog_stops))
    ;
  return NULL;
}

/* Starts a real-time thread that keeps the core busy, so that nothing else runs
 * on it until give_core_back. Returns the thread. */
static pthread_t take_core(int core) {
  pthread_t thread;
  pthread_attr_t attributes;
  cpu_set_t cores;
  struct sched_param highest = {.sched_priority = 50};
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  atomic_store(&hog_stops, false);
  pthread_attr_init(&attributes);
  pthread_attr_setaffinity_np(&attributes, sizeof(cores), &cores);
  pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
  pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
  pthread_attr_setschedparam(&attributes, &highest);
  if (pthread_create(&thread, &attributes, hog, NULL) != 0)
    abort();
  pthread_attr_destroy(&attributes);
  return thread;
}

static void give_core_back(pthread_t thread) {
  atomic_store(&hog_stops, true);
  pthread_join(thread, NULL);
}

void chapter_wake_taken(void) {
  char why[WHY_SIZE] = "";
  int status;
  run_on(0);
  write_text("/proc/sys/kernel/sched_rt_runtime_us", "-1");
  pthread_t taker = take_core(1);
  open_on(1, WAKE_THREAD, &status, why);
  note("%s", why);
  give_core_back(taker);
  result(status == -ETIMEDOUT, "a core that is taken is refused in the end");
  struct wake_collect *collect = open_on(1, WAKE_THREAD, &status, why);
  sleep_ns(POLL_NS);
  taker = take_core(1);
  sleep_ns(POLL_NS);
  uint64_t begun = now_ns();
  wake_collect_close(collect);
  double took_s = 1e-9 * (double)(now_ns() - begun);
  note("ended in %.3f s", took_s);
  result(status == 0 && took_s < ENDED_S,
         "a measurement of a core that was taken meanwhile ends");
  give_core_back(taker);
}
