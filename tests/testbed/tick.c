/* Tests that, with every kind of tick, the source "idle" is correct or is
 * flagged as tick-sampled. */
#include "burner.h"
#include "chapters.h"
#include "cores.h"
#include "report.h"
#include "watch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define WINDOW_NS (2000 * MS)
#define RIGHT 0.05
#define TRIES 10

static const struct pattern patterns[] = {
    {"no work", 0, 200 * MS, false, 0, false},
    {"50 % drifting", 61 * MS / 2, 61 * MS, false, 0, false},
    {"hog over the tick", 3300000, 4 * MS, true, 250000, true},
    {"anti-hog at the tick", 300000, 4 * MS, true, -150000, true},
};

static struct window take_window(struct watch *watch, int core,
                                 const struct pattern *pattern) {
  struct window window = watch_pattern(watch, core, pattern, WINDOW_NS);
  for (int tries = 1; tries < TRIES && isnan(window.load) &&
                      window.edges * WINDOW_NS > HALT_NS;
       tries++) {
    note("a window is taken again: its samples took %.0f ms",
         1e-6 * window.edges * WINDOW_NS);
    window = watch_pattern(watch, core, pattern, WINDOW_NS);
  }
  return window;
}

/* Returns the largest error of all patterns, after subtracting what can explain
 * it. If the load is too high, this is the load of the same number of empty
 * rounds (the cost of wake-ups) or the uncertainty from late rounds, whichever
 * is larger. If the load is too low, this is the time that the samples took. */
static double worst_error(struct watch *watch, int core) {
  double worst = 0;
  for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
    struct pattern empty_rounds = patterns[i];
    empty_rounds.busy_ns = 0;
    struct window window = take_window(watch, core, &patterns[i]);
    struct window empty = take_window(watch, core, &empty_rounds);
    double waking = fmax(empty.load - empty.truth, window.late);
    double error = window.load - window.truth;
    note("%-21s truth %6.2f  load %6.2f  error %+6.2f  empty rounds %6.2f  "
         "busy columns %6.2f  sum of columns %6.2f",
         patterns[i].name, 100 * window.truth, 100 * window.load, 100 * error,
         100 * waking, 100 * window.busy_columns, 100 * window.sum_columns);
    double beyond = fabs(error) - (error > 0 ? waking : window.edges);
    worst = fmax(worst, isnan(error) ? INFINITY : beyond);
  }
  return worst;
}

void chapter_tick(void) {
  struct watch watch;
  int last = cores_present() - 1;
  run_on(0);
  watch_open(&watch,
             (struct engine_options){.hardware = true, .source = SOURCE_IDLE});
  watch_window(&watch, last, NULL, 500 * MS);
  const struct core *core = watch_core(&watch, last);
  result(core->source == SOURCE_IDLE, "the core uses the source idle");
  bool flagged =
      core->proof == PROOF_TICK_SAMPLED && engine_tick_sampled(watch.engine);
  note("idle is %s", proof_name(core->proof));
  double worst = worst_error(&watch, last);
  note("worst error %.2f points, %s", 100 * worst,
       flagged ? "flagged tick-sampled" : "not flagged");
  result(flagged || worst <= RIGHT,
         "idle is correct within %.0f points or flagged tick-sampled",
         100 * RIGHT);
  result(!flagged || worst > RIGHT,
         "idle is not flagged tick-sampled if it is correct");
  if (core->proof == PROOF_UNPROVEN)
    skipped("the proof of idle ended", "%s",
            engine_source_reason(watch.engine, SOURCE_IDLE));
  else
    result(core->proof == PROOF_PROVEN || flagged, "the proof of idle ended");
  watch_close(&watch);
}
