/* Tests that isolated cores are not disturbed. */
#include "burner.h"
#include "chapters.h"
#include "cores.h"
#include "pmu.h"
#include "report.h"
#include "watch.h"

#include <math.h>

#define MS UINT64_C(1000000)
#define CORE 1 /* the guest was booted with isolcpus=1 nohz_full=1 */
#define SAMPLES 50

static struct engine_options options_for(enum isolated_cores isolated) {
  return (struct engine_options){
      .machine = pmu_machine(125e6),
      .hardware = true,
      .source = SOURCE_EVENT,
      .isolated_cores = isolated,
  };
}

static int interrupts_of_samples(struct watch *watch) {
  uint64_t before = core_interrupts(CORE);
  for (int i = 0; i < SAMPLES; i++) {
    engine_sample(watch->engine, false);
    sleep_ns(10 * MS);
  }
  return (int)(core_interrupts(CORE) - before);
}

static int interrupts_of_rest(void) {
  uint64_t before = core_interrupts(CORE);
  for (int i = 0; i < SAMPLES; i++)
    sleep_ns(10 * MS);
  return (int)(core_interrupts(CORE) - before);
}

void chapter_isolated(void) {
  static const struct pattern half = {"50 %", 30 * MS, 61 * MS,
                                      false,  0,       false};
  struct watch watch;
  struct burner burner;
  run_on(0);
  sleep_ns(500 * MS);

  int rest = interrupts_of_rest();
  uint64_t before = core_interrupts(CORE);
  watch_open(&watch, options_for(ISOLATED_CORES_IDLE));
  int proof = (int)(core_interrupts(CORE) - before);
  int idle = interrupts_of_samples(&watch);
  const struct core *core = watch_core(&watch, CORE);
  result(core_set_has(&engine_topology(watch.engine)->isolated, CORE) &&
             core->source == SOURCE_IDLE,
         "an isolated core uses the source idle");
  result(watch_core(&watch, 0)->source == SOURCE_EVENT,
         "the other cores use the event");
  burner_start(&burner, CORE, &half);
  sleep_ns(100 * MS);
  struct window window = watch_window_at_rest(&watch, CORE, &burner, 2000 * MS);
  burner_stop(&burner);
  note("isolated core: truth %.2f load %.2f", 100 * window.truth,
       100 * window.load);
  result(fabs(window.load - window.truth) <= 0.03,
         "the idle source is within 3 points on an isolated core");
  watch_close(&watch);

  watch_open(&watch, options_for(ISOLATED_CORES_HARDWARE));
  sleep_ns(200 * MS);
  int hardware = interrupts_of_samples(&watch);
  result(watch_core(&watch, CORE)->source == SOURCE_EVENT,
         "with IsolatedCores hardware an isolated core uses the event");
  watch_close(&watch);

  note("interrupts on the isolated core: %d at rest, %d during the proofs, %d "
       "in %d samples by idle, %d in %d by hardware",
       rest, proof, idle, SAMPLES, hardware, SAMPLES);
  result(proof <= rest + 5, "no proof runs on an isolated core");
  result(idle <= rest + 5,
         "sampling by idle does not interrupt an isolated core");
  result(hardware >= SAMPLES,
         "sampling by hardware interrupts an isolated core each time");

  watch_open(&watch, options_for(ISOLATED_CORES_SKIP));
  window = watch_window(&watch, CORE, NULL, 200 * MS);
  core = watch_core(&watch, CORE);
  result((core == NULL || core->source == SOURCE_NONE) && isnan(window.load),
         "with IsolatedCores skip an isolated core has no value");
  watch_close(&watch);
}
