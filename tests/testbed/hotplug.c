/* Cores that come and go under an engine that samples. */
#include "burner.h"
#include "chapters.h"
#include "cores.h"
#include "pmu.h"
#include "report.h"
#include "watch.h"

#include <math.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define CORE 1
#define CYCLES 100

static const struct pattern patterns[] = {
    {"30 %", 6 * MS, 20 * MS, false, 0, false},
    {"70 %", 14 * MS, 20 * MS, false, 0, false},
};

/* By the PMU's event where there is one (and time is virtual), else by what the
 * machine has. A load of the idle source resolves two truncated columns of 10
 * ms. */
struct means {
  struct engine_options options;
  uint64_t window_ns;
  double tolerance;
  bool exact;
};

/* Points beyond what no one can know. */
static double error_of(const struct window *window) {
  return fmax(fabs(window->load - window->truth) - window->late, 0);
}

static bool is_right(const struct means *means, const struct window *window) {
  return !isnan(window->load) && error_of(window) <= means->tolerance;
}

static struct means choose_means(void) {
  if (!core_pmu_present())
    return (struct means){
        {.hardware = true, .source = SOURCE_AUTO}, 240 * MS, 0.15, false};
  return (struct means){{.hardware = true,
                         .source = SOURCE_EVENT,
                         .event = core_pmu_event("inst_retired"),
                         .base_frequency_hz = 125e6,
                         .ipc = true},
                        300 * MS,
                        0.04,
                        true};
}

struct cycles {
  int valueless; /* no value two samples after the core came back */
  int wrong, spanning;
  double worst, latest;
};

/* The core goes and comes. Every other time nobody looks in between. */
static void cycle(struct watch *watch, const struct means *means, bool look,
                  const struct pattern *pattern, struct cycles *cycles) {
  struct burner burner;
  burner_start(&burner, CORE, pattern);
  struct core_total before = watch_total(watch, CORE);
  core_set_online(CORE, false);
  if (look) {
    struct core_total away = watch_total(watch, CORE);
    cycles->spanning += !isnan(engine_load(&before, &away));
  }
  core_set_online(CORE, true);
  sleep_ns(20 * MS); /* the burner moves back */
  struct window window =
      watch_window_at_rest(watch, CORE, &burner, means->window_ns);
  struct core_total after = watch_core(watch, CORE)->total;
  cycles->spanning += !isnan(engine_load(&before, &after));
  burner_stop(&burner);
  cycles->valueless += isnan(window.load);
  cycles->wrong += !is_right(means, &window);
  cycles->worst = fmax(cycles->worst, error_of(&window));
  cycles->latest = fmax(cycles->latest, window.late);
}

static void come_and_go(const struct means *means) {
  struct watch watch;
  struct cycles cycles = {0};
  watch_open(&watch, means->options);
  watch_window(&watch, CORE, NULL, means->window_ns);
  int descriptors = descriptors_open();
  struct engine_counts before = *engine_counts(watch.engine);
  for (int i = 0; i < CYCLES; i++)
    cycle(&watch, means, i & 1, &patterns[i / 2 & 1], &cycles);
  struct engine_counts after = *engine_counts(watch.engine);
  note("%d cycles with %s: worst error %.2f points (and at most "
       "%.2f not known), windows discarded %d, "
       "reopens %d, errors %d",
       CYCLES, source_name(watch_core(&watch, CORE)->source),
       100 * cycles.worst, 100 * cycles.latest,
       (int)(after.windows_discarded - before.windows_discarded),
       (int)(after.reopens - before.reopens),
       (int)(after.errors - before.errors));
  note("without value %d, wrong %d, spanning %d, descriptors %d then %d",
       cycles.valueless, cycles.wrong, cycles.spanning, descriptors,
       descriptors_open());
  result(cycles.valueless == 0,
         "after each of %d hotplug cycles a core has a value within two "
         "samples",
         CYCLES);
  result(cycles.wrong == 0,
         "after each of %d hotplug cycles that value is right and not frozen",
         CYCLES);
  result(cycles.spanning == 0,
         "no window spans the time that a core was away, looked at or not");
  result(descriptors_open() == descriptors,
         "%d hotplug cycles leak no descriptor", CYCLES);
  result(after.errors == before.errors, "%d hotplug cycles are no errors",
         CYCLES);
  watch_close(&watch);
}

/* A core that is away when the engine starts, and one that never comes. */
static void come_late(const struct means *means, int late) {
  struct watch watch;
  struct burner burner;
  struct engine_options options = means->options;
  struct core_set cores;
  core_set_parse(&cores, "0-63");
  options.cores = &cores;
  core_set_online(late, false);
  watch_open(&watch, options);
  watch_window(&watch, CORE, NULL, means->window_ns);
  watch_window(&watch, CORE, NULL, means->window_ns);
  const struct engine_core *core = watch_core(&watch, late);
  result(core == NULL || !core->online,
         "a core that is away at the start has no value");
  const char *warning = watch.said != NULL ? strstr(watch.said, "63") : NULL;
  result(warning != NULL && strstr(warning + 1, "63") == NULL,
         "cores that are waited for get one warning");
  core_set_online(late, true);
  burner_start(&burner, late, &patterns[1]);
  sleep_ns(20 * MS);
  struct window window =
      watch_window_at_rest(&watch, late, &burner, means->window_ns);
  burner_stop(&burner);
  note("late core: truth %.2f load %.2f", 100 * window.truth,
       100 * window.load);
  result(is_right(means, &window),
         "a core that comes after the start has a right value within two "
         "samples");
  watch_close(&watch);
}

static int with_value(struct watch *watch, const struct means *means) {
  size_t len;
  int values = 0;
  struct core_total from[64], to;
  engine_sample(watch->engine, false);
  const struct engine_core *cores = engine_cores(watch->engine, &len);
  for (size_t i = 0; i < len && i < 64; i++)
    from[i] = cores[i].total;
  sleep_ns(means->window_ns);
  engine_sample(watch->engine, false);
  cores = engine_cores(watch->engine, &len);
  for (size_t i = 0; i < len && i < 64; i++) {
    to = cores[i].total;
    values += cores[i].online && !isnan(engine_load(&from[i], &to));
  }
  return values;
}

/* All but `stays` go, the one we run on among them. */
static void leave_one(const struct means *means, int stays) {
  struct watch watch;
  struct burner burner;
  watch_open(&watch, means->options);
  int present = cores_present(), gone = 0;
  burner_start(&burner, stays, &patterns[0]);
  for (int core = 0; core < present; core++)
    if (core != stays && core_can_leave(core)) {
      core_set_online(core, false);
      gone++;
    }
  sleep_ns(20 * MS);
  struct window window =
      watch_window_at_rest(&watch, stays, &burner, means->window_ns);
  int left = with_value(&watch, means);
  note("%d of %d cores gone: truth %.2f load %.2f, %d with a value", gone,
       present, 100 * window.truth, 100 * window.load, left);
  result(is_right(means, &window),
         "with all other cores gone, core %d has a right value", stays);
  result(left == present - gone, "cores that are gone have no value (%d left)",
         stays);
  for (int core = 0; core < present; core++)
    if (core != stays && core_can_leave(core))
      core_set_online(core, true);
  burner_stop(&burner);
  result(with_value(&watch, means) == present,
         "all cores have values within two samples when they are back "
         "(%d had stayed)",
         stays);
  watch_close(&watch);
}

void chapter_hotplug(void) {
  struct means means = choose_means();
  run_on(0);
  come_late(&means, 2);
  come_and_go(&means);
  leave_one(&means, 0);
  if (core_can_leave(0))
    leave_one(&means, CORE);
}
