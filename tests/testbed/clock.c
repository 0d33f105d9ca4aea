/* Compares the source "bpf" and the time of softirqs with an exact clock, on
 * one core, first with softirqs of known length and then with tasks. */
#include "base/bpf.h"
#include "burner.h"
#include "chapters.h"
#include "cycles/programs.h"
#include "cycles/softirq_time.h"
#include "integration/softirq_timer.h"
#include "pmu.h"
#include "report.h"
#include "soaker.h"
#include "watch.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define LENGTH_NS (3000 * MS)
/* For each halt, the clock may count this part of the time to enter and leave
 * the halt as halted time: 1000 instructions at 125 MHz. */
#define MISSED_PER_HALT_S 8e-6
#define INSTRUCTIONS_PER_S 125e6
#define COST_PER_HALT 900
/* The number of instructions that the clock may cost at each halt, in addition
 * to the cost of calling programs that do nothing. */
#define OWN_COST_PER_HALT 400
#define COST_PER_SOFTIRQ 1100
/* The time of softirqs must be at least this share of the softirq time in the
 * log. */
#define SOFTIRQ_PART 0.9
/* Loads may differ by this much, because the two engines are sampled one after
 * the other. */
#define TOLERANCE 0.002
#define SOAK_NS (1000 * MS)
#define SOAK_TOLERANCE 0.005

struct loads {
  double truth, clock, log, fires_per_s;
  double soaked; /* lower bound of the load, from the soaker */
};

static void *soak(void *context) {
  struct soak *soak = context;
  int status = soak_core(soak, 0, SOAK_NS);
  if (status != 0)
    note("the soaker: %s", strerror(-status));
  return NULL;
}

/* Returns the share of time in which a thread of the lowest scheduling class
 * could not run. */
static double soak_share(void) {
  struct soak soaked;
  pthread_t thread;
  if (pthread_create(&thread, NULL, soak, &soaked) != 0)
    return NAN;
  pthread_join(thread, NULL);
  return (double)soaked.lost_ns / (double)soaked.total_ns;
}

/* Samples, waits, samples again, and returns the loads between the samples. If
 * clock is NULL, no idle clock is loaded. If timer is NULL, no softirqs of
 * known length are logged. */
static struct loads measure(struct watch *truth, struct watch *clock,
                            const struct softirq_timer_bpf *timer) {
  struct softirq_log from = {0}, to = {0};
  struct core_totals clock_from = {0}, clock_to = {0};
  if (clock != NULL)
    clock_from = watch_total(clock, 0);
  struct core_totals truth_from = watch_total(truth, 0);
  if (timer != NULL)
    softirq_timer_read(timer, &from);
  sleep_ns(LENGTH_NS);
  if (clock != NULL)
    clock_to = watch_total(clock, 0);
  struct core_totals truth_to = watch_total(truth, 0);
  if (timer != NULL)
    softirq_timer_read(timer, &to);
  double wall_ns = truth_to.wall - truth_from.wall;
  return (struct loads){
      .truth = engine_load(&truth_from, &truth_to),
      .clock = engine_load(&clock_from, &clock_to),
      .log = (double)(to.spun_ns - from.spun_ns) / wall_ns,
      .fires_per_s = 1e9 * (double)(to.fires - from.fires) / wall_ns,
  };
}

/* Checks that the clock's load is consistent with the log, the soaker and the
 * truth. `base` is the load that the soaker measures on an idle core. */
static void judge(const char *name, struct loads loads, double halts_per_s,
                  double base) {
  note("%s: log %.2f soaker %.2f (base %.2f) clock %.2f truth %.2f, %.0f a "
       "second, missed %.1f us each",
       name, 100 * loads.log, 100 * loads.soaked, 100 * base, 100 * loads.clock,
       100 * loads.truth, halts_per_s,
       1e6 * (loads.truth - loads.clock) / halts_per_s);
  result(loads.soaked > base &&
             loads.clock >= loads.soaked - base - SOAK_TOLERANCE,
         "%s: the clock is no less than what the soaker did not get", name);
  result(loads.clock >= loads.log - TOLERANCE &&
             loads.clock <= loads.truth + TOLERANCE,
         "%s: the clock is no less than the work and no more than the truth",
         name);
  result(loads.truth - loads.clock <=
             MISSED_PER_HALT_S * halts_per_s + TOLERANCE,
         "%s: the clock misses 1000 instructions a halt at most", name);
}

static const struct {
  const char *name;
  uint64_t period_ns, spin_ns;
} softirqs[] = {{"softirq 300/1000 us", 1000 * US, 300 * US},
                {"softirq 60/200 us", 200 * US, 60 * US},
                {"softirq 10/100 us", 100 * US, 10 * US}};
#define SOFTIRQS (sizeof(softirqs) / sizeof(softirqs[0]))

/* Attaches a program that does nothing to each tracepoint at which the idle
 * clock would run a program when a core halts and a timer wakes the core. */
static void attach_nothing(struct programs *programs,
                           const struct softirq_timer_bpf *timer) {
  static const char *const tracepoints[] = {"cpu_idle", "irq_handler_entry",
                                            "softirq_entry"};
  char why[WHY_SIZE];
  for (int i = 0; i < 3; i++)
    if ((programs->links[i] = bpf_attach(
             tracepoints[i], softirq_timer_nothing(timer), why)) < 0)
      note("%s", why);
}

/* Returns the loads while a timer causes the softirqs of entry i. If clock is
 * NULL, no idle clock is loaded; if `calls` is also true, programs that do
 * nothing run in its place. If the timer cannot be used, skips the test and
 * returns loads of 0. */
static struct loads measure_softirq(size_t i, struct watch *truth,
                                    struct watch *clock, bool calls) {
  struct loads loads = {0};
  struct programs programs;
  struct softirq_timer_bpf *timer =
      softirq_timer_start(0, softirqs[i].period_ns, softirqs[i].spin_ns);
  if (timer == NULL) {
    skipped(softirqs[i].name, "%s", strerror(errno));
    return loads;
  }
  programs_init(&programs);
  if (calls)
    attach_nothing(&programs, timer);
  sleep_ns(200 * MS);
  loads = measure(truth, clock, timer);
  if (clock != NULL)
    loads.soaked = soak_share();
  programs_close(&programs);
  softirq_timer_stop(timer);
  return loads;
}

/* Returns by how many instructions the true load per halt grew when a clock was
 * loaded. */
static double cost_of(struct loads without, struct loads with) {
  return INSTRUCTIONS_PER_S *
         (with.truth / with.fires_per_s - without.truth / without.fires_per_s);
}

static void judge_cost(const char *name, const char *clock, double most,
                       struct loads without, struct loads with) {
  double cost = cost_of(without, with);
  note("%s: %s costs %.0f instructions a halt", name, clock, cost);
  result(cost <= most, "%s: %s costs %.0f instructions a halt at most", name,
         clock, most);
}

/* The time of softirqs must include that in the log and, in addition, the
 * kernel's work around the timer. Interrupt handlers and softirqs together must
 * not exceed the true load. */
static void judge_softirq_time(struct watch *truth, size_t i,
                               struct loads without) {
  const char *name = softirqs[i].name;
  struct watch idle;
  watch_open(&idle,
             (struct engine_options){.hardware = true, .source = SOURCE_IDLE});
  struct softirq_time *time = softirq_time_open(idle.engine);
  softirq_time_read(time);
  struct loads loads = measure_softirq(i, truth, NULL, false);
  softirq_time_read(time);
  struct softirq_shares shares = softirq_time_core(time, 0);
  double hard = shares.kind[SOFTIRQ_HARD];
  softirq_time_close(time);
  watch_close(&idle);
  note("%s: log %.2f, softirqs %.2f, hard %.2f, truth %.2f", name,
       100 * loads.log, 100 * shares.all, 100 * hard, 100 * loads.truth);
  result(shares.all >= SOFTIRQ_PART * loads.log &&
             hard + shares.all <= loads.truth,
         "%s: softirqs are those of the log, and part of the truth", name);
  judge_cost(name, "the time of softirqs", COST_PER_SOFTIRQ, without, loads);
}

void chapter_clock(void) {
  static const struct pattern pattern = {"30 %", 3 * MS, 10 * MS,
                                         false,  0,      false};
  struct watch truth, clock;
  struct loads without[SOFTIRQS], calls[SOFTIRQS];
  struct burner burner;
  const double base = soak_share();
  watch_open(&truth, (struct engine_options){
                         .machine = pmu_machine(INSTRUCTIONS_PER_S),
                         .hardware = true,
                         .source = SOURCE_EVENT,
                     });
  for (size_t i = 0; i < SOFTIRQS; i++) {
    without[i] = measure_softirq(i, &truth, NULL, false);
    calls[i] = measure_softirq(i, &truth, NULL, true);
    if (without[i].fires_per_s > 0)
      judge_softirq_time(&truth, i, without[i]);
  }
  watch_open(&clock,
             (struct engine_options){.hardware = true, .source = SOURCE_BPF});
  result(watch_core(&clock, 0)->source == SOURCE_BPF,
         "the idle clock is loaded and serves");
  for (size_t i = 0; i < SOFTIRQS; i++) {
    const char *name = softirqs[i].name;
    struct loads with = measure_softirq(i, &truth, &clock, false);
    if (with.fires_per_s == 0)
      continue;
    judge(name, with, with.fires_per_s, base);
    judge_cost(name, "the clock", COST_PER_HALT, without[i], with);
    note("%s: programs that do nothing cost %.0f instructions a halt", name,
         cost_of(without[i], calls[i]));
    result(cost_of(calls[i], with) <= OWN_COST_PER_HALT,
           "%s: the clock costs %d instructions a halt more at most", name,
           OWN_COST_PER_HALT);
  }
  burner_start(&burner, 0, &pattern);
  sleep_ns(200 * MS);
  uint64_t busy_ns = burner_busy_ns(&burner);
  struct loads loads = measure(&truth, &clock, NULL);
  loads.log = (double)(burner_busy_ns(&burner) - busy_ns) / LENGTH_NS;
  loads.soaked = soak_share();
  burner_stop(&burner);
  /* Each second, the core halts 100 times for the burner and 250 times for the
   * tick. */
  judge("tasks 3/10 ms", loads, 100 + 250, base);
  watch_close(&clock);
  watch_close(&truth);
}

/* ---------------------------------------------------------------------------
 * Bounds
 */

/* Windows of a second, measured by an exact clock and by two sources. */
struct judged {
  enum source_kind kind;
  struct watch watch;
  struct core_totals from, to;
  int outside; /* windows in which the truth is outside of the bounds */
};

/* The truth is between `least` and `most`, because the engines are sampled one
 * after another, between two samples of the exact clock. */
static void judge_window(struct judged *judged, const char *name, double least,
                         double most, bool show) {
  struct bounds bounds = bounds_of(&judged->from, &judged->to);
  bool is_outside = !(most >= bounds.low && least <= bounds.high);
  judged->outside += is_outside;
  if (is_outside || show)
    note("%s, %s: truth %.2f to %.2f, load %.2f [%.2f, %.2f]%s", name,
         source_name(judged->kind), 100 * least, 100 * most,
         100 * engine_load(&judged->from, &judged->to), 100 * bounds.low,
         100 * bounds.high, is_outside ? " OUTSIDE" : "");
}

static void judge_pattern(struct watch *truth, struct judged judged[2],
                          const struct pattern *pattern, bool show) {
  struct burner burner;
  struct core_totals before[2], after[2];
  burner_start(&burner, 0, pattern);
  sleep_ns(200 * MS);
  before[0] = watch_total(truth, 0);
  for (int k = 0; k < 2; k++)
    judged[k].from = watch_total(&judged[k].watch, 0);
  after[0] = watch_total(truth, 0);
  sleep_ns(1000 * MS);
  before[1] = watch_total(truth, 0);
  for (int k = 0; k < 2; k++)
    judged[k].to = watch_total(&judged[k].watch, 0);
  after[1] = watch_total(truth, 0);
  burner_stop(&burner);
  for (int k = 0; k < 2; k++) {
    double wall_ns = judged[k].to.wall - judged[k].from.wall;
    judge_window(&judged[k], pattern->name,
                 (before[1].unhalted - after[0].unhalted) / wall_ns,
                 (after[1].unhalted - before[0].unhalted) / wall_ns, show);
  }
}

/* Loads with few halts and with many. */
static void judge_bounds(int rounds) {
  static const struct pattern patterns[] = {
      {"370/1300 us", 370 * US, 1300 * US, false, 0, false},
      {"50/1000 us", 50 * US, 1000 * US, false, 0, false},
      {"20/400 us", 20 * US, 400 * US, false, 0, false},
      {"10/250 us", 10 * US, 250 * US, false, 0, false},
      {"30/130 us", 30 * US, 130 * US, false, 0, false},
      {"800/1000 ms", 800 * MS, 1000 * MS, false, 0, false},
  };
  enum { PATTERNS = sizeof(patterns) / sizeof(patterns[0]) };
  struct judged judged[2] = {{.kind = SOURCE_IDLE}, {.kind = SOURCE_BPF}};
  struct watch truth;
  watch_open(&truth, (struct engine_options){
                         .machine = pmu_machine(INSTRUCTIONS_PER_S),
                         .hardware = true,
                         .source = SOURCE_EVENT,
                     });
  for (int k = 0; k < 2; k++)
    watch_open(&judged[k].watch,
               (struct engine_options){
                   .hardware = true, .source = judged[k].kind, .bounds = true});
  for (int i = 0; i < rounds * PATTERNS; i++)
    judge_pattern(&truth, judged, &patterns[i % PATTERNS], i < PATTERNS);
  for (int k = 0; k < 2; k++) {
    result(judged[k].outside == 0,
           "%s: the truth is outside of the bounds in %d of %d windows",
           source_name(judged[k].kind), judged[k].outside, rounds * PATTERNS);
    watch_close(&judged[k].watch);
  }
  watch_close(&truth);
}

void chapter_bounds(void) { judge_bounds(2); }
void chapter_bounds_long(void) { judge_bounds(34); }
