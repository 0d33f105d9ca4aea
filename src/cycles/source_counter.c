/* The sources that count: which of them this machine has, and what a group of
 * counters says of a core. */
#include "engine_private.h"

#include "base/portable.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A counter that was enabled for less of its window by more than this was away
 * meanwhile, with its core or with the whole machine: CLOCK_MONOTONIC is read a
 * little later than the counter, and runs at a slightly different rate. */
#define COUNTER_LATE_NS 200e3
#define COUNTER_DRIFT 0.002

/* ---------------------------------------------------------------------------
 * Finding
 */

/* One kind of core of a hybrid processor. On other processors, pmu is "" and
 * pmu_type is 0. */
struct core_kind {
  char pmu[SOURCE_PMU_MAX];
  uint64_t pmu_type;
};

struct finder {
  const struct engine_options *options;
  const struct topology *topology;
  bool has_tsc; /* msr/tsc can be used as a divisor */
  struct perf_event tsc;
  struct source *sources;
  int len;
};

/* Makes a source unavailable if the options exclude its source. The caller
 * then does not look for the source's events, because that opens
 * counters. */
static void rule_out(struct source *source,
                     const struct engine_options *options) {
  if (options->source != SOURCE_AUTO && options->source != source->kind)
    source_set_unavailable(source, "another source is configured");
  else if (!options->hardware)
    source_set_unavailable(source, MACHINE_NOT_OURS);
}

/* Adds a source, which is available unless the options rule it out, for one
 * kind of core (NULL: for all cores). The caller ensures that sources[] is not
 * full. */
static struct source *add_source(struct finder *finder, enum source_kind kind,
                                 const struct core_kind *cores) {
  struct source *source = &finder->sources[finder->len++];
  *source = (struct source){.kind = kind,
                            .available = true,
                            .condemned_core = -1,
                            .tsc = -1,
                            .aperf = -1};
  core_set_fill(&source->cores);
  if (cores != NULL)
    memcpy(source->pmu, cores->pmu, sizeof(source->pmu));
  if (kind != SOURCE_IDLE)
    rule_out(source, finder->options);
  return source;
}

static int add_event(struct source *source, const struct perf_event *event) {
  source->events[source->events_len] = *event;
  return source->events_len++;
}

/* Adds an event of the PMU msr. Returns its index in the group, or -1 with the
 * reason in why[]. */
static int add_msr(struct source *source, const struct finder *finder,
                   const char *name, char why[WHY_SIZE]) {
  struct perf_event event;
  const struct machine *machine = finder->options->machine;
  int status = perf_event_find(&event, "msr", name, machine, why);
  return status == 0 ? add_event(source, &event) : -1;
}

/* Divides the count of events[0], which has been added, by that of the TSC. */
static void divide_by_tsc(struct source *source, const struct finder *finder) {
  if (finder->has_tsc)
    source->tsc = add_event(source, &finder->tsc);
  else
    source_set_unavailable(source, "this machine has no steady TSC to divide "
                                   "the count by");
}

/* Finds a TSC that counts at a steady rate, in halted cores, too. A virtual
 * core has one. Its rate may change if the machine is moved to another host,
 * but then the counters change with it, so a quotient within one group stays
 * correct. */
static void find_tsc(struct finder *finder) {
  const struct engine_options *options = finder->options;
  char why[WHY_SIZE];
  finder->has_tsc =
      options->hardware &&
      (finder->topology->tsc_steady || finder->topology->hypervisor) &&
      perf_event_find(&finder->tsc, "msr", "tsc", options->machine, why) == 0;
}

static void find_mperf(struct finder *finder, const struct core_kind *kind) {
  char ignored[WHY_SIZE];
  struct source *source = add_source(finder, SOURCE_MPERF, kind);
  if (!source->available)
    return;
  bool named = finder->options->source == SOURCE_MPERF;
  if (finder->topology->hypervisor && !named) {
    source_set_unavailable(source,
                           "under a hypervisor, MPERF may belong to the "
                           "physical core: used only if named and proven");
    return;
  }
  source->must_be_proven = finder->topology->hypervisor;
  source->available = add_msr(source, finder, "mperf", source->reason) >= 0;
  if (!source->available)
    return;
  if (finder->options->frequency)
    source->aperf = add_msr(source, finder, "aperf", ignored);
  divide_by_tsc(source, finder);
}

static void find_ref_cycles(struct finder *finder,
                            const struct core_kind *kind) {
  struct source *source = add_source(finder, SOURCE_REF_CYCLES, kind);
  if (!source->available)
    return;
  if (!finder->topology->hypervisor &&
      finder->options->source != SOURCE_REF_CYCLES) {
    source_set_unavailable(source,
                           "on bare metal, mperf measures the same, and a "
                           "counter of the core can keep guests from "
                           "starting: used only if named");
    return;
  }
  struct perf_event event = {.type = PERF_TYPE_HARDWARE,
                             .config = PERF_COUNT_HW_REF_CPU_CYCLES |
                                       kind->pmu_type << PERF_PMU_TYPE_SHIFT};
  add_event(source, &event);
  source->pinned = true;
  divide_by_tsc(source, finder);
}

/* Adds a source for the event cnt_cycles of one PMU if the PMU provides this
 * event. arm64 machines have one PMU for each kind of core. The event counts at
 * the rate of the system counter, and only while the core is not halted. Both
 * properties are proven before the event is used. */
static void find_cnt_cycles(const char *pmu, void *argument) {
  struct finder *finder = argument;
  const struct machine *machine = finder->options->machine;
  struct perf_event event;
  char ignored[WHY_SIZE];
  /* The last two places in sources[] are reserved for the sources bpf and
   * idle. */
  if (finder->len == SOURCES_MAX - 2 ||
      perf_event_find(&event, pmu, "cnt_cycles", machine, ignored) != 0)
    return;
  struct source *source = add_source(finder, SOURCE_EVENT, NULL);
  add_event(source, &event);
  snprintf(source->pmu, sizeof(source->pmu), "%s", pmu);
  source->pinned = source->must_be_proven = true;
  source->base_frequency_hz = machine->system_counter_hz;
}

static void find_events(struct finder *finder) {
  const struct engine_options *options = finder->options;
  const struct machine *machine = options->machine;
  int len = finder->len;
  if (options->hardware && machine->system_counter_hz > 0)
    machine->list_directory(machine->context, PMU_FOLDER, find_cnt_cycles,
                            finder);
  if (finder->len > len)
    return;
  struct source *source = add_source(finder, SOURCE_EVENT, NULL);
  if (source->available)
    source_set_unavailable(source, "no PMU of this machine has cnt_cycles");
}

/* Adds the source for the bpf source. It is unavailable until the engine has
 * opened the idle clock. */
static void find_clock(struct finder *finder) {
  struct source *source = add_source(finder, SOURCE_BPF, NULL);
  if (source->available)
    source_set_unavailable(source, "the idle clock is not open yet");
}

#define KINDS_MAX 3

static int find_kinds(struct core_kind kinds[KINDS_MAX],
                      const struct machine *machine) {
  static const char *const pmus[KINDS_MAX] = {"cpu_core", "cpu_atom",
                                              "cpu_lowpower"};
  int len = 0;
  for (size_t i = 0; i < KINDS_MAX; i++) {
    uint64_t type;
    if (machine_read_u64(machine, &type, PMU_FOLDER "/%s/type", pmus[i]) != 0 ||
        type > UINT32_MAX)
      continue;
    kinds[len] = (struct core_kind){.pmu_type = type};
    snprintf(kinds[len++].pmu, sizeof(kinds->pmu), "%s", pmus[i]);
  }
  if (len == 0)
    kinds[len++] = (struct core_kind){0};
  return len;
}

int sources_find(struct source sources[SOURCES_MAX],
                 const struct engine_options *options,
                 const struct topology *topology) {
  struct finder finder = {
      .options = options, .topology = topology, .sources = sources};
  struct core_kind kinds[KINDS_MAX];
  int kinds_len = find_kinds(kinds, options->machine);
  find_tsc(&finder);
  for (int i = 0; i < kinds_len; i++)
    find_mperf(&finder, &kinds[i]);
  for (int i = 0; i < kinds_len; i++)
    find_ref_cycles(&finder, &kinds[i]);
  find_events(&finder);
  find_clock(&finder);
  add_source(&finder, SOURCE_IDLE, NULL);
  return finder.len;
}

void sources_find_cores(struct source sources[], int len,
                        const struct machine *machine) {
  for (int i = 0; i < len; i++) {
    struct source *source = &sources[i];
    if (source->pmu[0] == '\0')
      continue;
    int status = machine_read_core_set(machine, &source->cores,
                                       PMU_FOLDER "/%s/cpus", source->pmu);
    if (status == -ENOENT)
      core_set_fill(&source->cores);
    else if (status != 0)
      core_set_clear(&source->cores);
  }
}

/* ---------------------------------------------------------------------------
 * Opening and computing
 */

/* A group that had its counters for less of its window than this shared them.
 */
#define OWN_SHARE 0.99

int source_open(const struct source *source, struct perf_group *group,
                const struct machine *machine, int core, bool pinned) {
  return perf_group_open(group, machine, core, source->events,
                         source->events_len, pinned);
}

/* Opens the counter group and reads it once. Some groups can be opened but not
 * read: the engine would choose, announce and give up such a group again and
 * again. */
int counter_open(struct engine *engine, const struct core *core,
                 struct source *source, struct perf_group *group) {
  struct perf_reading reading;
  int status = source_open(source, group, engine->options.machine, core->number,
                           source->pinned);
  if (status == 0) {
    status = perf_group_read(group, &reading);
    if (status == 0)
      return 0;
    perf_group_close(group);
  }
  perf_explain(source->reason, sizeof(source->reason), status);
  if (status == -EMFILE &&
      condition_begins(engine, CONDITION_SHORT_OF_DESCRIPTORS, true))
    engine_say(engine, JOURNAL_WARNING,
               "some cores have no hardware counter, because too few "
               "descriptors would be left for the rest of this process; raise "
               "its limit on open files (LimitNOFILE= under systemd)");
  return status;
}

/* Returns how much an event counted between two readings. `event` is its index
 * in the group; if it is -1, returns 0. The unsigned subtraction is correct
 * even if the counter wrapped. */
static double counted(const struct perf_reading *from,
                      const struct perf_reading *to, int event) {
  return event < 0 ? 0 : (double)(to->value[event] - from->value[event]);
}

int source_window(const struct source *source, const struct perf_reading *from,
                  const struct perf_reading *to, struct core_totals *growth) {
  if (to->time_enabled_ns <= from->time_enabled_ns)
    return -ESTALE;
  double wall_ns = (double)(to->time_enabled_ns - from->time_enabled_ns);
  double running_ns = (double)(to->time_running_ns - from->time_running_ns);
  double unhalted = counted(from, to, 0);
  double tsc = counted(from, to, source->tsc);
  double base =
      source->tsc >= 0 ? tsc : source->base_frequency_hz * wall_ns / 1e9;
  if (running_ns < OWN_SHARE * wall_ns || !(base > 0))
    return -EBUSY;
  growth->wall = wall_ns;
  growth->unhalted = unhalted / base * wall_ns;
  growth->base_cycles = base;
  growth->base_wall = wall_ns;
  growth->mperf = source->aperf >= 0 ? unhalted : 0;
  growth->aperf = counted(from, to, source->aperf);
  return 0;
}

static void bounds_counter(struct core_totals *growth,
                           const struct source *source, double tsc_change) {
  double wall = growth->wall, unhalted = growth->unhalted;
  double low = source->rate_low > 0 ? source->rate_low : SOURCE_RATE_MIN;
  double high = source->rate_high > 0 ? source->rate_high : SOURCE_RATE_MAX;
  growth->over = fmax(unhalted - unhalted / high, 0) + tsc_change * wall;
  growth->under =
      fmax(fmin(unhalted / low, wall) - unhalted, 0) + tsc_change * wall;
  growth->end_over = growth->end_under = COUNTER_SKEW_NS;
}

/* Returns by which share of it the rate of the TSC has changed since the last
 * window; 0 if the source does not use the TSC. */
static double tsc_change(struct core *core, const struct source *source) {
  const struct core_totals *growth = &core->sample.growth;
  double before = core->window_tsc_per_ns;
  if (source->tsc < 0)
    return 0;
  core->window_tsc_per_ns = growth->base_cycles / growth->base_wall;
  return before > 0 ? fmin(fabs(1 - before / core->window_tsc_per_ns), 1) : 0;
}

/* ---------------------------------------------------------------------------
 * Reading
 */

int counter_read(struct engine *engine, struct core *core,
                 struct source_reading *reading) {
  struct source *source = &engine->sources[core->source_index];
  int status = perf_group_read(&core->group, &reading->counter);
  reading->time_ns = machine_now_ns(engine->options.machine, CLOCK_MONOTONIC);
  reading->off_ns = COUNTER_SKEW_NS;
  if (status == 0 && core->reading_time_ns > 0)
    status = source_window(source, &core->reading, &reading->counter,
                           &core->sample.growth);
  if (status != 0)
    snprintf(source->reason, sizeof(source->reason),
             "it could not be read on core %d: %s", core->number,
             status == -EBUSY ? "other users of the PMU hold its counters"
                              : strerror(-status));
  return status;
}

void counter_keep(struct engine *engine, struct core *core,
                  const struct source_reading *reading) {
  const struct source *source = &engine->sources[core->source_index];
  struct core_sample *sample = &core->sample;
  struct core_totals *growth = &sample->growth;
  if (sample->end_ns > 0) {
    bounds_counter(growth, source, tsc_change(core, source));
    sample->progress_ns = growth->wall;
    sample->monotonic_ns = (double)(reading->time_ns - sample->begin_ns);
    double missing_ns = sample->monotonic_ns - growth->wall;
    if (missing_ns > COUNTER_LATE_NS + COUNTER_DRIFT * growth->wall)
      growth->unknown = missing_ns;
  }
  core->reading = reading->counter;
}
