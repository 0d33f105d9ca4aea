/* Tests a PMU with fewer counters than events. */
#include "burner.h"
#include "chapters.h"
#include "pmu.h"
#include "report.h"
#include "watch.h"

#include "cycles/engine_private.h"

#include <math.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define CORE 1
#define COMPETITORS_MAX 16
/* INST_RETIRED and SW_INCR can use any counter except the cycle counter. */
#define INST_RETIRED 0x08
#define SW_INCR 0x00

static const struct pattern half = {"50 %", 30 * MS, 61 * MS, false, 0, false};

static struct engine_options by_event(void) {
  return (struct engine_options){
      .machine = pmu_machine(125e6),
      .hardware = true,
      .source = SOURCE_EVENT,
  };
}

/* Occupies every counter of the core with pinned events. Returns the number of
 * events. */
static int take_all(int fds[COMPETITORS_MAX]) {
  int len = 0;
  while (len < COMPETITORS_MAX) {
    fds[len] = competitor_open(CORE, SW_INCR, true);
    if (fds[len] < 0)
      break;
    sleep_ns(MS);
    if (!competitor_counts(fds[len])) {
      competitors_close(&fds[len], 1);
      break;
    }
    len++;
  }
  return len;
}

static void window_of(struct watch *watch, struct burner *burner,
                      const char *what, struct window *window) {
  *window = watch_window_at_rest(watch, CORE, burner, 2000 * MS);
  note("%s: truth %.2f load %.2f, source %s", what, 100 * window->truth,
       100 * window->load, source_name(watch_core(watch, CORE)->source));
}

/* Tests an engine that starts while other events hold all counters. One is
 * released later. */
static void wait_for_a_counter(void) {
  int fds[COMPETITORS_MAX], flexible[3];
  struct watch watch;
  struct burner burner;
  struct window window;
  int taken = take_all(fds);
  note("the core has %d counters for such events", taken);
  watch_open(&watch, by_event());
  struct source *event = engine_source(watch.engine, SOURCE_EVENT);
  engine_set_proof(watch.engine, event, PROOF_PROVEN);
  engine_sample(watch.engine, false);
  burner_start(&burner, CORE, &half);
  window_of(&watch, &burner, "all counters pinned by others", &window);
  result(strstr(event->reason, "other users of the PMU") != NULL,
         "the reason says that others hold the counters");
  result(watch_core(&watch, CORE)->source == SOURCE_IDLE &&
             fabs(window.load - window.truth) < 0.03,
         "meanwhile, the source idle is within 3 points");

  /* One counter is released, and four events compete for it. */
  competitors_close(&fds[--taken], 1);
  for (int i = 0; i < 3; i++)
    flexible[i] = competitor_open(CORE, SW_INCR, false);
  for (int i = 0; i < 5; i++) { /* the source is tried again in time */
    sleep_ns(1000 * MS);
    engine_sample(watch.engine, false);
  }
  window_of(&watch, &burner, "one counter for four events", &window);
  result(watch_core(&watch, CORE)->source == SOURCE_EVENT &&
             fabs(window.load - window.truth) <= 0.015,
         "an event takes the first counter that is free, and is correct");
  competitors_close(flexible, 3);
  competitors_close(fds, taken);
  burner_stop(&burner);
  watch_close(&watch);
}

/* Tests that a pinned event keeps its counter while other events, which are not
 * pinned, compete for counters. */
static void hold(void) {
  int flexible[COMPETITORS_MAX];
  struct watch watch;
  struct burner burner;
  struct window window;
  watch_open(&watch, by_event());
  for (int i = 0; i < 12; i++)
    flexible[i] = competitor_open(CORE, INST_RETIRED, false);
  engine_sample(watch.engine, false);
  burner_start(&burner, CORE, &half);
  window_of(&watch, &burner, "twelve other events", &window);
  result(watch_core(&watch, CORE)->source == SOURCE_EVENT &&
             fabs(window.load - window.truth) <= 0.015,
         "a pinned event keeps its counter beside twelve others");
  burner_stop(&burner);
  competitors_close(flexible, 12);
  watch_close(&watch);
}

void chapter_sharing(void) {
  run_on(0);
  hold();
  wait_for_a_counter();
}
