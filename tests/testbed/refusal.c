/* Tests events that do not measure unhalted time, and the sources that replace
 * them. */
#include "burner.h"
#include "chapters.h"
#include "pmu.h"
#include "report.h"
#include "watch.h"

#include <math.h>
#include <string.h>

#define MS UINT64_C(1000000)

static const struct pattern half = {"50 %", 30 * MS, 61 * MS, false, 0, false};

static void successor_is_right(struct watch *watch, const char *event) {
  struct burner burner;
  burner_start(&burner, 1, &half);
  struct window window = watch_window_at_rest(watch, 1, &burner, 2000 * MS);
  burner_stop(&burner);
  note("idle instead of %s: truth %.2f load %.2f", event, 100 * window.truth,
       100 * window.load);
  result(watch_core(watch, 1)->source == SOURCE_IDLE &&
             fabs(window.load - window.truth) <= 0.03,
         "idle instead of %s is within 3 points", event);
}

/* Checks that an engine that is given this event reports a line that contains
 * all of `words`, and uses the source "idle" instead. */
static void refuse(const char *event, double base_frequency_hz,
                   const char *sentence, const char *const words[]) {
  struct watch watch;
  watch_open(&watch, (struct engine_options){
                         .hardware = true,
                         .source = SOURCE_AUTO,
                         .event = event,
                         .base_frequency_hz = base_frequency_hz,
                     });
  engine_sample(watch.engine, false);
  result(watch_said(&watch, words) &&
             engine_source_reason(watch.engine, SOURCE_EVENT)[0] != '\0',
         "%s", sentence);
  static const char *const over[] = {"event", "gives way to idle", NULL};
  result(watch_said(&watch, over),
         "%s gives way to idle, and a line names both sources and the reason",
         event);
  successor_is_right(&watch, event);
  watch_close(&watch);
}

static void refuse_unknown(void) {
  struct watch watch;
  static const char *const event = "no_such_pmu/cycles/";
  static const char *const words[] = {"event", "no_such_pmu", NULL};
  watch_open(&watch, (struct engine_options){
                         .hardware = true,
                         .source = SOURCE_AUTO,
                         .event = event,
                         .base_frequency_hz = 1e9,
                     });
  engine_sample(watch.engine, false);
  result(watch_said(&watch, words), "an event of a missing PMU is reported");
  successor_is_right(&watch, event);
  watch_close(&watch);
}

void chapter_refusal(void) {
  run_on(0);
  static const char *const idle_half[] = {"event", "refuted", "idle", NULL};
  static const char *const spin_half[] = {"event", "refuted", "spin", NULL};
  refuse(core_pmu_event("cpu_cycles"), 1e9,
         "a counter that counts while the core halts is refused by the idle "
         "half of the proof",
         idle_half);
  /* r120 is an event that this CPU does not count. The driver accepts any event
   * number. */
  refuse("r120", 1e9,
         "an event that never counts is refused by the spin half "
         "of the proof",
         spin_half);
  refuse_unknown();
}
