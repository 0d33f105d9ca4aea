/* Tests events that do not measure unhalted time, and the sources that replace
 * them. */
#include "burner.h"
#include "chapters.h"
#include "overlay.h"
#include "report.h"
#include "watch.h"

#include <math.h>
#include <string.h>

#define MS UINT64_C(1000000)

static const struct pattern half = {"50 %", 30 * MS, 61 * MS, false, 0, false};

static void successor_is_right(struct watch *watch, const char *what) {
  struct burner burner;
  burner_start(&burner, 1, &half);
  struct window window = watch_window_at_rest(watch, 1, &burner, 2000 * MS);
  burner_stop(&burner);
  note("%s: truth %.2f load %.2f by idle", what, 100 * window.truth,
       100 * window.load);
  result(watch_core(watch, 1)->source == SOURCE_IDLE &&
             fabs(window.load - window.truth) <= 0.03,
         "idle in its place is within 3 points: %s", what);
}

/* Checks that an engine that is given these descriptions of events as mperf and
 * the TSC reports a line that contains all of `words`, and uses the source
 * "idle" instead. */
static void refuse(const char *mperf, const char *tsc, const char *sentence,
                   const char *const words[]) {
#define MSR "/sys/bus/event_source/devices/msr/"
  const struct overlay_file files[] = {
      {MSR "type", "4\n"}, /* PERF_TYPE_RAW */
      {MSR "events/mperf", mperf},
      {MSR "events/tsc", tsc},
      {"/proc/cpuinfo",
       "processor\t: 0\nflags\t\t: constant_tsc nonstop_tsc\n"},
      {NULL, NULL}};
  struct overlay overlay;
  struct watch watch;
  overlay_open(&overlay, files);
  watch_open(&watch, (struct engine_options){.machine = &overlay.machine,
                                             .hardware = true,
                                             .source = SOURCE_AUTO});
  engine_sample(watch.engine, false);
  result(watch_said(&watch, words) &&
             engine_source_reason(watch.engine, SOURCE_MPERF)[0] != '\0',
         "%s", sentence);
  static const char *const over[] = {"mperf", "gives way to idle", NULL};
  result(watch_said(&watch, over),
         "mperf gives way to idle, and a line names both sources and the "
         "reason");
  successor_is_right(&watch, sentence);
  watch_close(&watch);
  overlay_close(&overlay);
}

/* On this CPU, event 0x11 is cpu_cycles, and 0x120 is one that it does not
 * count. The driver accepts any event number. */
void chapter_refusal(void) {
  run_on(0);
  static const char *const idle_half[] = {"mperf", "refuted", "idle", NULL};
  static const char *const spin_half[] = {"mperf", "refuted", "spin", NULL};
  refuse("event=0x11\n", "event=0x11\n",
         "a counter that counts while the core halts is refused by the idle "
         "half of the proof",
         idle_half);
  refuse("event=0x120\n", "event=0x11\n",
         "an event that never counts is refused by the spin half "
         "of the proof",
         spin_half);
}
