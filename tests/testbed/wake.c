/* Wake latency against an exact clock, with one core. The instructions between
 * two tracepoints are almost always the same, so latencies hardly differ. */
#include "burner.h"
#include "chapters.h"
#include "report.h"
#include "wake/collect.h"
#include "wake/summary.h"

#include <math.h>
#include <stdlib.h>

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define COUNT 1100 /* enough for 99 % */
#define POLLS_MAX 100
#define POLL_NS (100 * MS)
#define EXACT_US 0.1
/* With interrupts on, the way from the interrupt to its tracepoint takes 4.9 or
 * 5.2 us, and how often each differs between methods. */
#define WAYS_US 0.5
/* perf takes the time of an event later than a BPF program, here by some 600
 * instructions of 8 ns. */
#define PERF_US 6
#define IDLES_EDGE 2 /* begun before the measurement, or not yet over */

static const struct run {
  const char *name;
  enum wake_method method;
  enum wake_source source;
  double later_us; /* than the first run, at most */
} runs[] = {
    {"BPF timer", WAKE_BPF_TIMER, WAKE_BPF, 0},
    {"thread", WAKE_THREAD, WAKE_BPF, 0},
    {"thread seen by perf", WAKE_THREAD, WAKE_PERF, PERF_US},
};
#define RUNS (sizeof(runs) / sizeof(runs[0]))

/* With cpuidle, interrupts are off in the idle states of this guest. */
static void judge_counts(const char *name, struct wake_collect *collect,
                         bool has_cpuidle) {
  const struct wake_points *points = wake_collect_points(collect);
  struct wake_collect_status status;
  wake_collect_status(collect, &status);
  note("%s: %zu datapoints of %llu events, %llu busy; %llu idle states, usage "
       "%lld",
       name, points->len, (unsigned long long)status.armed,
       (unsigned long long)status.drops[WAKE_DROP_BUSY],
       (unsigned long long)status.idles, (long long)status.usage);
  bool in_order = points->len >= COUNT;
  for (size_t i = 0; i < points->len; i++)
    in_order &= points->list[i].interrupts_off == has_cpuidle;
  result(in_order, "%s: all datapoints have interrupts %s", name,
         has_cpuidle ? "off" : "on");
  result(has_cpuidle ? llabs(status.usage - (int64_t)status.idles) <= IDLES_EDGE
                     : status.usage == -1,
         has_cpuidle ? "%s: cpuidle counts the same idle states"
                     : "%s: without cpuidle nothing counts the idle states",
         name);
}

static void measure(const struct run *run, bool has_cpuidle,
                    struct wake_summary *summary) {
  char why[WAKE_WHY_SIZE] = "";
  enum wake_metric metric = has_cpuidle ? WAKE_LATENCY : WAKE_INTR_LATENCY;
  struct wake_collect *collect;
  *summary = (struct wake_summary){.median = NAN};
  if (wake_collect_open(
          &collect,
          &(struct wake_collect_options){.method = run->method,
                                         .source = run->source,
                                         .distance_min_ns = US,
                                         .distance_max_ns = 4 * MS},
          why) != 0) {
    note("%s: %s", run->name, why);
    result(false, "%s: measures", run->name);
    return;
  }
  const struct wake_points *points = wake_collect_points(collect);
  for (int i = 0; i < POLLS_MAX && points->len < COUNT; i++) {
    sleep_ns(POLL_NS);
    wake_collect_poll(collect, why);
  }
  judge_counts(run->name, collect, has_cpuidle);
  wake_summarize(summary, points, WAKE_ALL_STATES, metric);
  note("%s: %s min %.3f median %.3f 99 %% %.3f max %.3f us", run->name,
       wake_metric_name(metric), summary->min, summary->median,
       summary->percentile[0], summary->max);
  wake_collect_close(collect);
}

static void measure_all(bool has_cpuidle) {
  struct wake_summary summaries[RUNS];
  for (size_t i = 0; i < RUNS; i++) {
    measure(&runs[i], has_cpuidle, &summaries[i]);
    if (has_cpuidle)
      result(summaries[i].percentile[0] - summaries[i].min < EXACT_US,
             "%s: 99 %% of the wake latencies are within 0.1 us", runs[i].name);
    double later = summaries[i].median - summaries[0].median;
    double tolerance = has_cpuidle ? EXACT_US : WAYS_US;
    if (i > 0)
      result(later > -tolerance && later < runs[i].later_us + tolerance,
             "%s: the median is that of the %s, or up to %.0f us later",
             runs[i].name, runs[0].name, runs[i].later_us);
  }
}

void chapter_wake_off(void) { measure_all(true); }
void chapter_wake_on(void) { measure_all(false); }
