/* Tests cores that go offline and come back online while an engine samples. */
#include "burner.h"
#include "chapters.h"
#include "cores.h"
#include "pmu.h"
#include "report.h"
#include "watch.h"

#include "cycles/engine_private.h"

#include <math.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define CORE 1
#define TRIES 10

static const struct pattern patterns[] = {
    {"30 %", 6 * MS, 20 * MS, false, 0, false},
    {"70 %", 14 * MS, 20 * MS, false, 0, false},
};

/* How loads are measured: with an event if the guest has a PMU (the guest then
 * runs in virtual time), otherwise with any source. The source "idle" computes
 * loads from two columns that are truncated to 10 ms, so its tolerance is
 * larger. */
struct means {
  struct engine_options options;
  uint64_t window_ns;
  int cycles; /* fewer in real time, where each takes half a second */
  double tolerance;
  bool exact;
};

/* Returns the uncertainty of the true load. In virtual time, a guest is never
 * halted during a sample, so the lengths of the samples do not add to the
 * uncertainty. */
static double not_known(const struct means *means,
                        const struct window *window) {
  return window->late - (means->exact ? window->edges : 0);
}

/* Returns the part of the error that exceeds the uncertainty. */
static double error_of(const struct means *means, const struct window *window) {
  double error = fabs(window->load - window->truth);
  return fmax(error - not_known(means, window), 0);
}

static bool is_right(const struct means *means, const struct window *window) {
  return !isnan(window->load) && error_of(means, window) <= means->tolerance;
}

static struct means choose_means(void) {
  if (!core_pmu_present())
    return (struct means){
        {.hardware = true, .source = SOURCE_AUTO}, 240 * MS, 25, 0.15, false};
  return (struct means){
      {.machine = pmu_machine(125e6), .hardware = true, .source = SOURCE_EVENT},
      300 * MS,
      100,
      0.04,
      true};
}

static uint64_t errors_of(const struct watch *watch) {
  return watch->engine->counts.errors;
}

/* Returns how many errors halts of the guest have caused since the number of
 * errors was `before`. */
static uint64_t errors_of_halts(const struct watch *watch,
                                const struct means *means, uint64_t before) {
  return !means->exact && watch->slowest_ns > HALT_NS
             ? errors_of(watch) - before
             : 0;
}

/* Measures a window. While halts of the guest cause errors, adds their number
 * to *halted and measures again, up to TRIES times in all. Returns the last
 * window. */
static struct window take_window(struct watch *watch, const struct means *means,
                                 int core, struct burner *burner,
                                 uint64_t *halted) {
  struct window window;
  for (int tries = 0; tries < TRIES; tries++) {
    uint64_t before = errors_of(watch);
    watch->slowest_ns = 0;
    window = watch_window_at_rest(watch, core, burner, means->window_ns);
    uint64_t errors = errors_of_halts(watch, means, before);
    *halted += errors;
    if (errors == 0)
      break;
    note("a window is taken again: a sample took %.0f ms",
         1e-6 * (double)watch->slowest_ns);
  }
  return window;
}

struct cycles {
  int valueless; /* load still unknown two samples after the return */
  int wrong, spanning;
  uint64_t halted; /* errors caused by halts of the guest */
  double worst, latest, widest;
};

/* Takes the core offline and brings it back online, and then measures its load.
 * If `look` is true, also takes a sample while the core is offline. */
static void cycle(struct watch *watch, const struct means *means, bool look,
                  const struct pattern *pattern, struct cycles *cycles) {
  struct burner burner;
  uint64_t errors = errors_of(watch);
  watch->slowest_ns = 0;
  burner_start(&burner, CORE, pattern);
  struct core_totals before = watch_total(watch, CORE);
  core_set_online(CORE, false);
  if (look) {
    struct core_totals away = watch_total(watch, CORE);
    cycles->spanning += !isnan(engine_load(&before, &away));
  }
  core_set_online(CORE, true);
  sleep_ns(20 * MS); /* let the burner return to its core */
  cycles->halted += errors_of_halts(watch, means, errors);
  struct window window =
      take_window(watch, means, CORE, &burner, &cycles->halted);
  struct core_totals after = watch_core(watch, CORE)->total;
  cycles->spanning += !isnan(engine_load(&before, &after));
  burner_stop(&burner);
  cycles->valueless += isnan(window.load);
  cycles->wrong += !is_right(means, &window);
  cycles->worst = fmax(cycles->worst, error_of(means, &window));
  cycles->latest = fmax(cycles->latest, not_known(means, &window));
  cycles->widest = fmax(cycles->widest, window.edges);
}

static void come_and_go(const struct means *means) {
  struct watch watch;
  struct cycles cycles = {0};
  watch_open(&watch, means->options);
  watch_window(&watch, CORE, NULL, means->window_ns);
  int descriptors = descriptors_open();
  struct engine_counts before = watch.engine->counts;
  for (int i = 0; i < means->cycles; i++)
    cycle(&watch, means, i & 1, &patterns[i / 2 & 1], &cycles);
  struct engine_counts after = watch.engine->counts;
  note("%d cycles with %s: worst error %.2f points (and at most "
       "%.2f uncertain, edges of at most %.2f), windows discarded %d, "
       "reopens %d, errors %d (%d by halts)",
       means->cycles, source_name(watch_core(&watch, CORE)->source),
       100 * cycles.worst, 100 * cycles.latest, 100 * cycles.widest,
       (int)(after.windows_discarded - before.windows_discarded),
       (int)(after.reopens - before.reopens),
       (int)(after.errors - before.errors), (int)cycles.halted);
  note("without value %d, wrong %d, spanning %d, descriptors %d then %d",
       cycles.valueless, cycles.wrong, cycles.spanning, descriptors,
       descriptors_open());
  result(cycles.valueless == 0,
         "after each of %d hotplug cycles a core has a value within two "
         "samples",
         means->cycles);
  result(cycles.wrong == 0,
         "after each of %d hotplug cycles that value is right and not frozen",
         means->cycles);
  result(cycles.spanning == 0,
         "no window spans a time in which a core was offline");
  result(descriptors_open() == descriptors,
         "%d hotplug cycles leak no descriptor", means->cycles);
  result(after.errors - before.errors == cycles.halted,
         "%d hotplug cycles cause no errors", means->cycles);
  watch_close(&watch);
}

/* Tests a core that is offline when the engine starts, and a core that does not
 * exist. */
static void come_late(const struct means *means, int late) {
  struct watch watch;
  struct burner burner;
  struct engine_options options = means->options;
  struct core_set cores;
  uint64_t halted = 0;
  core_set_parse(&cores, "0-63");
  options.cores = &cores;
  core_set_online(late, false);
  watch_open(&watch, options);
  watch_window(&watch, CORE, NULL, means->window_ns);
  watch_window(&watch, CORE, NULL, means->window_ns);
  const struct core *core = watch_core(&watch, late);
  result(core == NULL || !core->online,
         "a core that is offline at the start has no value");
  const char *warning = watch.said != NULL ? strstr(watch.said, "63") : NULL;
  result(warning != NULL && strstr(warning + 1, "63") == NULL,
         "one warning names the missing cores");
  core_set_online(late, true);
  burner_start(&burner, late, &patterns[1]);
  sleep_ns(20 * MS);
  struct window window = take_window(&watch, means, late, &burner, &halted);
  burner_stop(&burner);
  note("late core: truth %.2f load %.2f", 100 * window.truth,
       100 * window.load);
  result(is_right(means, &window),
         "a core that comes after the start has a right value within two "
         "samples");
  watch_close(&watch);
}

static int count_values(struct watch *watch, const struct means *means) {
  size_t len;
  int values = 0;
  struct core_totals from[64], to;
  watch_total(watch, CORE);
  const struct core *cores = engine_cores(watch->engine, &len);
  for (size_t i = 0; i < len && i < 64; i++)
    from[i] = cores[i].total;
  sleep_ns(means->window_ns);
  watch_total(watch, CORE);
  cores = engine_cores(watch->engine, &len);
  for (size_t i = 0; i < len && i < 64; i++) {
    to = cores[i].total;
    values += cores[i].online && !isnan(engine_load(&from[i], &to));
  }
  return values;
}

static int with_value(struct watch *watch, const struct means *means) {
  int values = 0;
  for (int tries = 0; tries < TRIES; tries++) {
    uint64_t before = errors_of(watch);
    watch->slowest_ns = 0;
    values = count_values(watch, means);
    if (errors_of_halts(watch, means, before) == 0)
      break;
    note("values are counted again: a sample took %.0f ms",
         1e-6 * (double)watch->slowest_ns);
  }
  return values;
}

/* Takes all cores except `stays` offline, even the core on which this thread
 * runs, and tests the load of `stays`. */
static void leave_one(const struct means *means, int stays) {
  struct watch watch;
  struct burner burner;
  uint64_t halted = 0;
  watch_open(&watch, means->options);
  int present = cores_present(), gone = 0;
  burner_start(&burner, stays, &patterns[0]);
  for (int core = 0; core < present; core++)
    if (core != stays && core_can_leave(core)) {
      core_set_online(core, false);
      gone++;
    }
  sleep_ns(20 * MS);
  struct window window = take_window(&watch, means, stays, &burner, &halted);
  int left = with_value(&watch, means);
  note("%d of %d cores gone: truth %.2f load %.2f, %d with a value", gone,
       present, 100 * window.truth, 100 * window.load, left);
  result(is_right(means, &window),
         "with all other cores offline, core %d has a right value", stays);
  result(left == present - gone, "offline cores have no value (%d left)",
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

static void plug(const struct means *means) {
  run_on(0);
  come_late(means, 2);
  come_and_go(means);
  leave_one(means, 0);
  if (core_can_leave(0))
    leave_one(means, CORE);
}

void chapter_hotplug(void) {
  const struct means means = choose_means();
  plug(&means);
}

void chapter_hotplug_clock(void) {
  const struct means means = {
      {.hardware = true, .source = SOURCE_BPF}, 300 * MS, 100, 0.04, true};
  plug(&means);
}
