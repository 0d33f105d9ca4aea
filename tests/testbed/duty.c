/* Loads of a core whose true load is known, from a real PMU. */
#include "burner.h"
#include "chapters.h"
#include "overlay.h"
#include "pmu.h"
#include "report.h"
#include "watch.h"

#include <math.h>

#define MS UINT64_C(1000000)
#define WINDOW_NS (UINT64_C(1000) * MS)
#define CORE 1
#define POINTS_MAX 1.5
#define REST_MAX 0.3
#define HOG_PHASE_NS 250000

/* Every share once drifting against the tick and once locked to it. */
static const struct pattern patterns[] = {
    {"10 %", 61 * MS / 10, 61 * MS, false, 0},
    {"25 %", 61 * MS / 4, 61 * MS, false, 0},
    {"50 %", 61 * MS / 2, 61 * MS, false, 0},
    {"75 %", 61 * MS * 3 / 4, 61 * MS, false, 0},
    {"90 %", 61 * MS * 9 / 10, 61 * MS, false, 0},
    {"10 %, locked to the tick", 2 * MS, 20 * MS, true, MS},
    {"25 %, locked to the tick", 5 * MS, 20 * MS, true, MS},
    {"50 %, locked to the tick", 10 * MS, 20 * MS, true, MS},
    {"75 %, locked to the tick", 15 * MS, 20 * MS, true, MS},
    {"90 %, locked to the tick", 18 * MS, 20 * MS, true, MS},
    {"a hog that sleeps over the tick", 3300000, 4 * MS, true, HOG_PHASE_NS},
    {"an anti-hog that runs only around the tick", 300000, 4 * MS, true,
     -150000},
};

/* Rounds of the same number, each without work: what the guest's kernel spends
 * on waking a thread and letting it sleep, which no burner's log can hold. */
static double overhead(struct watch *watch, const struct pattern *pattern) {
  struct pattern empty = *pattern;
  struct burner burner;
  empty.busy_ns = 0;
  burner_start(&burner, CORE, &empty);
  sleep_ns(2 * empty.period_ns);
  struct window window = watch_window_at_rest(watch, CORE, &burner, WINDOW_NS);
  burner_stop(&burner);
  return window.load - window.truth;
}

/* Waking up in every tick costs more than 1.5 points where an instruction takes
 * 8 ns (slow_guest). It is true load all the same, and what it amounts to is
 * measured by empty rounds and printed. */
static void measure(struct watch *watch, const struct pattern *pattern,
                    const char *how, bool slow_guest) {
  struct burner burner;
  burner_start(&burner, CORE, pattern);
  sleep_ns(2 * pattern->period_ns);
  struct window window = watch_window_at_rest(watch, CORE, &burner, WINDOW_NS);
  burner_stop(&burner);
  double points = 100 * (window.load - window.truth);
  double empty = 100 * overhead(watch, pattern);
  bool allow = slow_guest && pattern->period_ns == TICK_NS;
  note("%-43s truth %6.2f  load %6.2f  error %+5.2f  empty rounds %+5.2f  busy "
       "columns %6.2f",
       pattern->name, 100 * window.truth, 100 * window.load, points, empty,
       100 * window.busy_columns);
  result(points >= -POINTS_MAX &&
             points <= POINTS_MAX + (allow ? fmax(empty, 0) : 0),
         "%s: the load is within %.1f points of the truth%s with %s",
         pattern->name, POINTS_MAX,
         allow ? " and what its empty rounds cost" : "", how);
  result(fabs(points - empty) <= REST_MAX,
         "%s: but for what its empty rounds cost, the load is within %.1f "
         "points with %s",
         pattern->name, REST_MAX, how);
  if (pattern->phase_ns == HOG_PHASE_NS)
    result(window.busy_columns < 0.10 && window.truth > 0.80,
           "%s: the tick sees less than 10 %% of it (%s)", pattern->name, how);
  if (pattern->phase_ns < 0)
    result(window.busy_columns > 0.50 && window.truth < 0.15,
           "%s: the tick sees more than 50 %% (%s)", pattern->name, how);
}

static void measure_all(struct watch *watch, const char *how, bool slow_guest) {
  struct window idle = watch_window(watch, CORE, NULL, WINDOW_NS);
  note("a core without work: load %.3f points (kernel threads, and reading it)",
       100 * idle.load);
  result(idle.load < POINTS_MAX / 100,
         "a core without work: the load is under %.1f points with %s",
         POINTS_MAX, how);
  for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
    measure(watch, &patterns[i], how, slow_guest);
}

void chapter_duty(void) {
  run_on(0);
  struct watch watch;
  watch_open(&watch, (struct engine_options){
                         .hardware = true,
                         .source = SOURCE_EVENT,
                         .event = core_pmu_event("inst_retired"),
                         .base_frequency_hz = 125e6,
                         .denominator = DENOMINATOR_TIME_ENABLED,
                     });
  const struct engine_core *core = watch_core(&watch, CORE);
  engine_sample(watch.engine, false);
  result(core->source == SOURCE_EVENT && core->proof == PROOF_PROVEN,
         "an event that counts unhalted time is proven and serves");
  measure_all(&watch, "event / time-enabled", true);
  watch_close(&watch);
}

/* With one instruction a nanosecond INSTRUCTIONS and CPU_CYCLES count at the
 * same rate, as MPERF and the TSC do; the first stops in WFI and the second
 * does not. Under the names of MPERF and the TSC they prove the code for both
 * of them on counters of a real PMU. */
void chapter_tsc(void) {
#define MSR "/sys/bus/event_source/devices/msr/"
  static const struct overlay_file files[] = {
      {MSR "type", "4\n"}, /* PERF_TYPE_RAW */
      {MSR "format/event", "config:0-63\n"},
      {MSR "events/mperf", "event=0x08\n"},
      {MSR "events/tsc", "event=0x11\n"},
      {"/proc/cpuinfo",
       "processor\t: 0\nflags\t\t: constant_tsc nonstop_tsc\n"},
      {"/sys/devices/system/clocksource/clocksource0/current_clocksource",
       "tsc\n"},
      {NULL, NULL}};
  static const struct {
    enum denominator denominator;
    const char *how;
  } hows[] = {{DENOMINATOR_TSC, "mperf / tsc"},
              {DENOMINATOR_TIME_ENABLED, "mperf / time-enabled"}};
  run_on(0);
  for (size_t i = 0; i < sizeof(hows) / sizeof(hows[0]); i++) {
    struct overlay overlay;
    struct watch watch;
    overlay_open(&overlay, files);
    watch_open(&watch, (struct engine_options){
                           .machine = &overlay.machine,
                           .hardware = true,
                           .source = SOURCE_AUTO,
                           .denominator = hows[i].denominator,
                       });
    engine_sample(watch.engine, false);
    const struct engine_core *core = watch_core(&watch, CORE);
    result(core->source == SOURCE_MPERF && core->proof == PROOF_PROVEN,
           "auto takes mperf, proven, with %s", hows[i].how);
    measure_all(&watch, hows[i].how, false);
    watch_close(&watch);
    overlay_close(&overlay);
  }
}
