/* Tests a PMU with fewer counters than events. */
#include "burner.h"
#include "chapters.h"
#include "pmu.h"
#include "report.h"
#include "watch.h"

#include "cycles/engine_private.h"

#include <math.h>

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
  note("%s: truth %.2f load %.2f, running / enabled %.3f, source %s", what,
       100 * window->truth, 100 * window->load,
       watch_core(watch, CORE)->multiplexed,
       source_name(watch_core(watch, CORE)->source));
}

/* Tests an engine that starts while other events hold all counters. Some
 * counters are released later. */
static void share(void) {
  int fds[COMPETITORS_MAX], flexible[COMPETITORS_MAX];
  struct watch watch;
  struct burner burner;
  struct window window;
  watch_open(&watch, by_event());
  engine_sample(watch.engine, false);
  burner_start(&burner, CORE, &half);
  window_of(&watch, &burner, "alone", &window);
  result(watch_core(&watch, CORE)->multiplexed == 1,
         "an event with its own counter is not multiplexed");
  burner_stop(&burner);
  watch_close(&watch);

  int taken = take_all(fds);
  note("the core has %d counters for such events", taken);
  watch_open(&watch, by_event());
  engine_set_proof(watch.engine, engine_source(watch.engine, SOURCE_EVENT),
                   PROOF_PROVEN); /* as when it was alone */
  engine_sample(watch.engine, false);
  burner_start(&burner, CORE, &half);
  window_of(&watch, &burner, "all counters pinned by others", &window);
  static const char *const lost[] = {"event", "counter", NULL};
  result(watch_said(&watch, lost),
         "a pinned event that gets no counter is reported");
  result(isnan(window.load) || fabs(window.load - window.truth) < 0.03,
         "an event that never ran gives no wrong load");

  /* One counter is released, and four events compete for it. */
  competitors_close(&fds[--taken], 1);
  for (int i = 0; i < 3; i++)
    flexible[i] = competitor_open(CORE, SW_INCR, false);
  engine_sample(watch.engine, false);
  window_of(&watch, &burner, "one counter for four events", &window);
  double running = watch_core(&watch, CORE)->multiplexed;
  result(watch_core(&watch, CORE)->source == SOURCE_EVENT,
         "an event that lost its counter continues unpinned");
  result(running > 0.1 && running < 0.5,
         "time running / time enabled is about a quarter");
  result(fabs(window.load - window.truth) <= 0.10,
         "a load that is scaled up four times is within 10 points");

  /* Two more counters are released, so four events share three counters. */
  competitors_close(&fds[taken - 2], 2);
  taken -= 2;
  engine_sample(watch.engine, false);
  window_of(&watch, &burner, "three counters for four events", &window);
  running = watch_core(&watch, CORE)->multiplexed;
  result(running > 0.6 && running < 0.9,
         "time running / time enabled is about three quarters");
  result(fabs(window.load - window.truth) <= 0.05,
         "a load from three quarters of the time is within 5 points");
  competitors_close(flexible, 3);
  competitors_close(fds, taken);
  engine_sample(watch.engine, false);
  window_of(&watch, &burner, "alone again", &window);
  result(watch_core(&watch, CORE)->multiplexed > 0.99 &&
             fabs(window.load - window.truth) <= 0.015,
         "without the other events, the event always runs and is correct");
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
  result(watch_core(&watch, CORE)->multiplexed == 1 &&
             fabs(window.load - window.truth) <= 0.015,
         "a pinned event keeps its counter beside twelve others");
  burner_stop(&burner);
  competitors_close(flexible, 12);
  watch_close(&watch);
}

void chapter_sharing(void) {
  run_on(0);
  hold();
  share();
}
