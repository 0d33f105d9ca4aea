/* Tests the library's loads (percore.h) in a guest while a core goes offline
 * and comes back online. */
#include "percore_load.h"
#include "percore_tune.h"
#include "../unit/calls.h"

#include "burner.h"
#include "chapters.h"
#include "cores.h"
#include "report.h"

#include <math.h>
#include <sched.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define CORE 1

void chapter_library(void) {
  static const struct pattern pattern = {"70 %", 14 * MS, 20 * MS,
                                         false,  0,       false};
  struct burner burner;
  struct percore_load *load;
  cpu_set_t before, after;
  run_on(0);
  sched_getaffinity(0, sizeof(before), &before);
  int status = percore_load_open(&load, NULL);
  sched_getaffinity(0, sizeof(after), &after);
  result(status == 0, "percore_load_open works in a guest");
  if (status != 0)
    return;
  result(CPU_EQUAL(&before, &after),
         "percore_load_open leaves the caller's affinity alone");
  burner_start(&burner, CORE, &pattern);
  sleep_ns(250 * MS);
  percore_load_update(load);
  sleep_ns(1000 * MS);
  percore_load_update(load);
  double busy = percore_load_get(load, CORE, NULL);
  note("library: core 1 %.3f from %s", busy, load_details(load, CORE).source);
  result(fabs(busy - 0.7) < 0.05, "percore_load_get is within 5 points");
  core_set_online(CORE, false);
  percore_load_update(load);
  sleep_ns(300 * MS);
  percore_load_update(load);
  result(percore_load_get(load, CORE, NULL) == -1 &&
             strcmp(load_details(load, CORE).source, "none") == 0,
         "percore_load_get is -1 for an offline core");
  result(percore_load_get(load, 0, NULL) >= 0,
         "the other core has a value while a core is offline");
  core_set_online(CORE, true);
  sleep_ns(250 * MS);
  percore_load_update(load);
  sleep_ns(1000 * MS);
  percore_load_update(load);
  busy = percore_load_get(load, CORE, NULL);
  note("library: core 1 %.3f when it is back", busy);
  result(
      fabs(busy - 0.7) < 0.05,
      "percore_load_get is correct at the second update after a core is back");
  result(percore_load_get(load, -1, NULL) == -1 &&
             percore_load_get(load, 99999, NULL) == -1,
         "percore_load_get is -1 for a core that does not exist");
  burner_stop(&burner);
  percore_load_close(load);
}
