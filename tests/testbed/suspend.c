/* Tests a machine that is suspended to memory (S3) between two samples. */
#include "burner.h"
#include "chapters.h"
#include "cores.h"
#include "report.h"
#include "watch.h"

#include "cycles/engine_private.h"

#include <math.h>
#include <time.h>

#define MS UINT64_C(1000000)
#define CORE 1

static double suspended_s(void) {
  struct timespec boot, monotonic;
  clock_gettime(CLOCK_MONOTONIC, &monotonic);
  clock_gettime(CLOCK_BOOTTIME, &boot);
  return (double)(boot.tv_sec - monotonic.tv_sec) +
         (double)(boot.tv_nsec - monotonic.tv_nsec) / 1e9;
}

/* The alarm is set 7 s ahead, because it must fire after the guest has been
 * suspended, even on a slow host. */
bool fall_asleep(void) {
  return write_text("/sys/class/rtc/rtc0/wakealarm", "0") &&
         write_text("/sys/class/rtc/rtc0/wakealarm", "+7") &&
         write_text("/sys/power/state", "mem");
}

static void suspend(enum source_kind source) {
  static const struct pattern pattern = {"60 %", 12 * MS, 20 * MS,
                                         false,  0,       false};
  struct watch watch;
  struct burner burner;
  run_on(0);
  watch_open(&watch,
             (struct engine_options){.hardware = true, .source = source});
  burner_start(&burner, CORE, &pattern);
  watch_window_at_rest(&watch, CORE, &burner, 240 * MS);
  int descriptors = descriptors_open();
  for (int i = 0; i < 2; i++) {
    struct core_totals before = watch_total(&watch, CORE);
    struct core_totals before_0 = watch_core(&watch, 0)->total;
    uint64_t discarded = watch.engine->counts.windows_discarded;
    double slept_s = suspended_s();
    if (!fall_asleep()) {
      result(false, "the guest can be suspended to memory and wakes again");
      break;
    }
    slept_s = suspended_s() - slept_s;
    struct core_totals after = watch_total(&watch, CORE);
    struct core_totals after_0 = watch_core(&watch, 0)->total;
    sleep_ns(20 * MS);
    struct window window =
        watch_window_at_rest(&watch, CORE, &burner, 240 * MS);
    const char *name = source_name(watch_core(&watch, CORE)->source);
    const char *nth = i == 0 ? "first" : "second";
    note("slept %.2f s; then truth %.2f load %.2f", slept_s, 100 * window.truth,
         100 * window.load);
    result(slept_s > 1,
           "%s, %s suspend: the guest was suspended and woke again", name, nth);
    result(isnan(engine_load(&before, &after)) &&
               isnan(engine_load(&before_0, &after_0)) &&
               watch.engine->counts.windows_discarded > discarded,
           "%s, %s suspend: its window is dropped on every core", name, nth);
    result(fabs(window.load - window.truth) <= 0.15 + window.late,
           "%s, %s suspend: a correct value within two samples after waking",
           name, nth);
  }
  result(descriptors_open() == descriptors,
         "%s: suspending leaks no descriptor",
         source_name(watch_core(&watch, CORE)->source));
  burner_stop(&burner);
  watch_close(&watch);
}

void chapter_suspend(void) {
  suspend(SOURCE_IDLE);
#ifdef PERCORE_BPF
  suspend(SOURCE_BPF);
#endif
}
