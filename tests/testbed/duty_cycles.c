#include "duty_cycles.h"

#include "burner.h"
#include "report.h"

#include <math.h>

#define MS UINT64_C(1000000)
#define POINTS_MAX 1.5
#define REST_MAX 0.3

/* Each busy share is tested twice: with rounds that drift relative to the tick,
 * and with rounds that are locked to the tick. */
static const struct pattern patterns[] = {
    {"10 %", 61 * MS / 10, 61 * MS, false, 0, false},
    {"25 %", 61 * MS / 4, 61 * MS, false, 0, false},
    {"50 %", 61 * MS / 2, 61 * MS, false, 0, false},
    {"75 %", 61 * MS * 3 / 4, 61 * MS, false, 0, false},
    {"90 %", 61 * MS * 9 / 10, 61 * MS, false, 0, false},
    {"10 %, locked to the tick", 2 * MS, 20 * MS, true, MS, false},
    {"25 %, locked to the tick", 5 * MS, 20 * MS, true, MS, false},
    {"50 %, locked to the tick", 10 * MS, 20 * MS, true, MS, false},
    {"75 %, locked to the tick", 15 * MS, 20 * MS, true, MS, false},
    {"90 %, locked to the tick", 18 * MS, 20 * MS, true, MS, false},
    {"a hog that sleeps over the tick", 3300000, 4 * MS, true, 250000, true},
    {"an anti-hog that runs only around the tick", 300000, 4 * MS, true,
     -150000, true},
};

#define WINDOW_NS (1000 * MS)

static void judge_tick(const struct pattern *pattern,
                       const struct window *window, const char *how) {
  if (find_tick(0) == 0)
    return; /* only root can find the tick and lock rounds to it */
  if (pattern->phase_ns > 0)
    result(window->busy_columns < 0.10 && window->truth > 0.75,
           "%s: busy columns show less than 10 %% (%s)", pattern->name, how);
  else
    result(window->busy_columns > 0.50 && window->truth < 0.20,
           "%s: busy columns show more than 50 %% (%s)", pattern->name, how);
}

static void judge_load(const struct pattern *pattern,
                       const struct duty_terms *terms,
                       const struct window *window, double empty) {
  double error = 100 * (window->load - window->truth);
  bool allow = terms->slow && pattern->each_tick;
  double least = -POINTS_MAX;
  double most = POINTS_MAX + (allow ? fmax(empty, 0) : 0);
  if (!terms->exact) { /* other tasks also run */
    least -= 100 * window->edges;
    most += 100 * window->late;
  }
  result(error >= least && error <= most,
         "%s: the load is within %.1f points of the truth%s with %s",
         pattern->name, POINTS_MAX,
         allow ? " and the cost of its empty rounds" : "", terms->how);
  if (terms->exact)
    result(fabs(error - empty) <= REST_MAX,
           "%s: less the cost of its empty rounds, the load is within %.1f "
           "points with %s",
           pattern->name, REST_MAX, terms->how);
}

static void measure(struct watch *watch, const struct pattern *pattern,
                    const struct duty_terms *terms) {
  struct pattern empty_rounds = *pattern;
  empty_rounds.busy_ns = 0;
  struct window window = watch_pattern(watch, terms->core, pattern, WINDOW_NS);
  struct window empty =
      watch_pattern(watch, terms->core, &empty_rounds, WINDOW_NS);
  double waking = 100 * (empty.load - empty.truth);
  note("%-43s %6.2f  %6.2f  %+6.2f  %+6.2f  %6.2f  %6.2f  %6.2f", pattern->name,
       100 * window.truth, 100 * window.load,
       100 * (window.load - window.truth), waking, 100 * window.late,
       100 * window.busy_columns, 100 * (1 - window.idle_columns));
  judge_load(pattern, terms, &window, waking);
  if (pattern->each_tick)
    judge_tick(pattern, &window, terms->how);
}

void duty_cycles_measure(struct watch *watch, const struct duty_terms *terms) {
  note("%-43s %6s  %6s  %6s  %6s  %6s  %6s  %6s", terms->how, "truth", "load",
       "error", "empty", "late", "busy", "1-idle");
  struct window idle = watch_window(watch, terms->core, NULL, WINDOW_NS);
  note("%-43s %6.2f  %6.2f  %+6.2f", "no work", 0.0, 100 * idle.load,
       100 * idle.load);
  result(idle.load < POINTS_MAX / 100 + (terms->exact ? 0 : idle.late),
         "no work: the load is under %.1f points with %s", POINTS_MAX,
         terms->how);
  for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
    measure(watch, &patterns[i], terms);
}
