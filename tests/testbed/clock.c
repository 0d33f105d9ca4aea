/* Compares source bpf with an exact clock: on one core, with softirqs of a
 * known length and with tasks. */
#include "burner.h"
#include "chapters.h"
#include "integration/softirq_timer.h"
#include "pmu.h"
#include "report.h"
#include "watch.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define LENGTH_NS (3000 * MS)
/* How much of entering and leaving a halt the clock counts as halted: 1000
 * instructions at 125 MHz. */
#define MISSED_PER_HALT_S 8e-6
/* The two engines are sampled one after the other. */
#define TOLERANCE 0.002

struct loads {
  double truth, clock, log, fires_per_s;
};

/* Takes a sample, waits, and takes another. timer NULL: no softirqs. */
static struct loads measure(struct watch *truth, struct watch *clock,
                            const struct softirq_timer_bpf *timer) {
  struct softirq_log from = {0}, to = {0};
  struct core_totals clock_from = watch_total(clock, 0);
  struct core_totals truth_from = watch_total(truth, 0);
  if (timer != NULL)
    softirq_timer_read(timer, &from);
  sleep_ns(LENGTH_NS);
  struct core_totals clock_to = watch_total(clock, 0);
  struct core_totals truth_to = watch_total(truth, 0);
  if (timer != NULL)
    softirq_timer_read(timer, &to);
  double wall_ns = clock_to.wall - clock_from.wall;
  return (struct loads){
      .truth = engine_load(&truth_from, &truth_to),
      .clock = engine_load(&clock_from, &clock_to),
      .log = (double)(to.spun_ns - from.spun_ns) / wall_ns,
      .fires_per_s = 1e9 * (double)(to.fires - from.fires) / wall_ns,
  };
}

static void judge(const char *name, struct loads loads, double halts_per_s) {
  note("%s: log %.2f clock %.2f truth %.2f, %.0f a second, missed %.1f us each",
       name, 100 * loads.log, 100 * loads.clock, 100 * loads.truth, halts_per_s,
       1e6 * (loads.truth - loads.clock) / halts_per_s);
  result(loads.clock >= loads.log - TOLERANCE &&
             loads.clock <= loads.truth + TOLERANCE,
         "%s: the clock is no less than the work and no more than the truth",
         name);
  result(loads.truth - loads.clock <=
             MISSED_PER_HALT_S * halts_per_s + TOLERANCE,
         "%s: the clock misses 1000 instructions a halt at most", name);
}

static void measure_softirq(struct watch *truth, struct watch *clock) {
  static const struct {
    const char *name;
    uint64_t period_ns, spin_ns;
  } cases[] = {{"softirq 300/1000 us", 1000 * US, 300 * US},
               {"softirq 60/200 us", 200 * US, 60 * US},
               {"softirq 10/100 us", 100 * US, 10 * US}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct softirq_timer_bpf *timer =
        softirq_timer_start(0, cases[i].period_ns, cases[i].spin_ns);
    if (timer == NULL) {
      skipped(cases[i].name, "%s", strerror(errno));
      continue;
    }
    sleep_ns(200 * MS);
    struct loads loads = measure(truth, clock, timer);
    judge(cases[i].name, loads, loads.fires_per_s);
    softirq_timer_stop(timer);
  }
}

void chapter_clock(void) {
  static const struct pattern pattern = {"30 %", 3 * MS, 10 * MS,
                                         false,  0,      false};
  struct watch truth, clock;
  struct burner burner;
  watch_open(&truth, (struct engine_options){
                         .hardware = true,
                         .source = SOURCE_EVENT,
                         .event = core_pmu_event("inst_retired"),
                         .base_frequency_hz = 125e6,
                         .denominator = DENOMINATOR_TIME_ENABLED,
                     });
  watch_open(&clock,
             (struct engine_options){.hardware = true, .source = SOURCE_BPF});
  result(watch_core(&clock, 0)->source == SOURCE_BPF,
         "the idle clock is loaded and serves");
  measure_softirq(&truth, &clock);
  burner_start(&burner, 0, &pattern);
  sleep_ns(200 * MS);
  uint64_t busy_ns = burner_busy_ns(&burner);
  struct loads loads = measure(&truth, &clock, NULL);
  loads.log = (double)(burner_busy_ns(&burner) - busy_ns) / LENGTH_NS;
  burner_stop(&burner);
  /* Wake-ups of the burner, and the tick's. */
  judge("tasks 3/10 ms", loads, 100 + 250);
  watch_close(&clock);
  watch_close(&truth);
}
