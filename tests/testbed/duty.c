/* Compares loads from a real PMU with known loads. */
#include "burner.h"
#include "chapters.h"
#include "duty_cycles.h"
#include "overlay.h"
#include "pmu.h"
#include "report.h"
#include "watch.h"

#include <math.h>

#define CORE 1

void chapter_duty(void) {
  run_on(0);
  struct watch watch;
  watch_open(&watch, (struct engine_options){
                         .machine = pmu_machine(125e6),
                         .hardware = true,
                         .source = SOURCE_EVENT,
                     });
  const struct core *core = watch_core(&watch, CORE);
  engine_sample(watch.engine, false);
  result(core->source == SOURCE_EVENT && core->proof == PROOF_PROVEN,
         "an event that counts unhalted time is proven and used");
  duty_cycles_measure(&watch, &(struct duty_terms){
                                  .core = CORE,
                                  .how = "event / time-enabled",
                                  .slow = true,
                                  .exact = true,
                              });
  watch_close(&watch);
}

/* With one instruction per nanosecond, INSTRUCTIONS and CPU_CYCLES count at the
 * same rate, as MPERF and the TSC do, and only INSTRUCTIONS stops in WFI. Under
 * the names MPERF and TSC, these two events of a real PMU test the code that
 * reads MPERF and the TSC.
 */
static void measure_mperf(const char *clocksource, const char *how) {
#define MSR "/sys/bus/event_source/devices/msr/"
  struct overlay_file files[] = {
      {MSR "type", "4\n"}, /* PERF_TYPE_RAW */
      {MSR "events/mperf", "event=0x08\n"},
      {MSR "events/tsc", "event=0x11\n"},
      {"/proc/cpuinfo",
       "processor\t: 0\nflags\t\t: constant_tsc nonstop_tsc\n"},
      {"/sys/devices/system/clocksource/clocksource0/current_clocksource",
       clocksource},
      {NULL, NULL}};
  struct overlay overlay;
  struct watch watch;
  run_on(0);
  overlay_open(&overlay, files);
  watch_open(&watch, (struct engine_options){
                         .machine = &overlay.machine,
                         .hardware = true,
                         .source = SOURCE_AUTO,
                     });
  engine_sample(watch.engine, false);
  const struct core *core = watch_core(&watch, CORE);
  result(core->source == SOURCE_MPERF && core->proof == PROOF_PROVEN,
         "auto takes mperf, proven, with %s", how);
  duty_cycles_measure(
      &watch, &(struct duty_terms){.core = CORE, .how = how, .exact = true});
  watch_close(&watch);
  overlay_close(&overlay);
}

void chapter_tsc(void) { measure_mperf("tsc\n", "mperf / tsc"); }

void chapter_time_enabled(void) {
  measure_mperf("hpet\n", "mperf / time-enabled");
}
