/* Finds the candidates of this machine, and checks whether they are
 * available. */
#include "candidate.h"

#include "engine.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* How long the rate of the TSC is measured, in nanoseconds. */
#define MEASUREMENT_NS 20000000

#define CNT_CYCLES "cnt_cycles"

/* One kind of core of a hybrid processor. On other processors, pmu is "" and
 * pmu_type is 0. */
struct core_kind {
  char pmu[CANDIDATE_PMU_MAX];
  uint64_t pmu_type;
};

struct finder {
  const struct engine_options *options;
  const struct topology *topology;
  bool has_tsc;    /* msr/tsc exists */
  bool tsc_steady; /* msr/tsc can be used as a denominator */
  struct perf_event tsc;
  struct candidate *candidates;
  int len;
};

/* ---------------------------------------------------------------------------
 * One candidate
 */

static void set_unavailable(struct candidate *candidate, const char *reason) {
  candidate->available = false;
  snprintf(candidate->reason, sizeof(candidate->reason), "%s", reason);
}

/* Makes a candidate unavailable if the options exclude its source. The caller
 * then does not look for the candidate's events, because that opens
 * counters. */
static void rule_out(struct candidate *candidate,
                     const struct engine_options *options) {
  if (options->source != SOURCE_AUTO && options->source != candidate->source)
    set_unavailable(candidate, "another source is configured");
  else if (!options->hardware)
    set_unavailable(candidate, "SysRoot may belong to another kernel; set "
                               "HostPerf true if it belongs to this one");
}

/* Adds a candidate, which is available unless the options rule it out. The
 * caller ensures that candidates[] is not full. */
static struct candidate *add_candidate(struct finder *finder,
                                       enum source source) {
  struct candidate *candidate = &finder->candidates[finder->len++];
  *candidate = (struct candidate){
      .source = source, .available = true, .tsc = -1, .aperf = -1, .smi = -1};
  core_set_fill(&candidate->cores);
  if (source != SOURCE_IDLE)
    rule_out(candidate, finder->options);
  return candidate;
}

/* Adds a candidate for one kind of core. Sets pmu_type even if the options rule
 * the source out, because the IPC counters need it. */
static struct candidate *add_candidate_of_kind(struct finder *finder,
                                               enum source source,
                                               const struct core_kind *kind) {
  struct candidate *candidate = add_candidate(finder, source);
  memcpy(candidate->pmu, kind->pmu, sizeof(candidate->pmu));
  candidate->pmu_type = kind->pmu_type;
  return candidate;
}

static int add_event(struct candidate *candidate,
                     const struct perf_event *event) {
  candidate->events[candidate->events_len] = *event;
  return candidate->events_len++;
}

/* Adds an event by its name. Returns its index in the group, or -1 with the
 * reason in why[]. */
static int add_named_event(struct candidate *candidate,
                           const struct finder *finder, const char *text,
                           char why[CANDIDATE_REASON_MAX]) {
  struct perf_event event;
  int status = perf_event_parse(&event, text, finder->options->machine, why,
                                CANDIDATE_REASON_MAX);
  return status == 0 ? add_event(candidate, &event) : -1;
}

/* ---------------------------------------------------------------------------
 * Denominators
 */

/* Returns the online cores in `cores` on which a counter may be opened briefly.
 * Includes isolated cores only if there are no others. */
static struct core_set cores_to_disturb(struct core_set cores,
                                        const struct topology *topology) {
  core_set_intersect(&cores, &topology->online);
  struct core_set housekeeping = cores;
  core_set_subtract(&housekeeping, &topology->isolated);
  return core_set_next(&housekeeping, -1) >= 0 ? housekeeping : cores;
}

/* Makes the candidate unavailable, and says why: its event does not exist, or
 * the frequency at which the event counts is unknown. */
static void explain_no_frequency(struct candidate *candidate,
                                 const struct finder *finder) {
  const struct machine *machine = finder->options->machine;
  struct core_set cores = cores_to_disturb(candidate->cores, finder->topology);
  struct perf_group group;
  int status = candidate_open(candidate, &group, machine,
                              core_set_next(&cores, -1), false);
  candidate->available = false;
  if (status == -ENOENT || status == -EOPNOTSUPP)
    perf_explain(candidate->reason, sizeof(candidate->reason), status);
  else
    set_unavailable(candidate, "the frequency at which the event counts is "
                               "unknown: set BaseFrequency (percore(1): "
                               "--base-frequency)");
  if (status == 0)
    perf_group_close(&group);
}

/* Chooses one of the two denominators, and adds the event or finds the
 * frequency that the denominator needs. Call this after events[0] has been
 * added. */
static void choose_denominator(struct candidate *candidate,
                               const struct finder *finder) {
  const struct engine_options *options = finder->options;
  char ignored[CANDIDATE_REASON_MAX];
  if (options->smi)
    candidate->smi = add_named_event(candidate, finder, "msr/smi/", ignored);
  /* A configured event may count at another rate than the TSC, so its count
   * cannot be divided by that of the TSC. */
  bool has_tsc_rate = candidate->source != SOURCE_EVENT;
  bool may_use_tsc = finder->tsc_steady && has_tsc_rate;
  if (options->denominator == DENOMINATOR_TSC && !may_use_tsc) {
    set_unavailable(candidate,
                    has_tsc_rate
                        ? "Denominator \"tsc\": this machine has no steady "
                          "TSC in perf (msr/tsc)"
                        : "Denominator \"tsc\" needs a counter that runs at "
                          "the rate of the TSC; use \"time-enabled\"");
    return;
  }
  if (may_use_tsc)
    candidate->tsc = add_event(candidate, &finder->tsc);
  if (may_use_tsc && options->denominator != DENOMINATOR_TIME_ENABLED) {
    candidate->denominator = DENOMINATOR_TSC;
    return;
  }
  candidate->denominator = DENOMINATOR_TIME_ENABLED;
  if (options->base_frequency_hz > 0)
    candidate->base_frequency_hz = options->base_frequency_hz;
  if (candidate->base_frequency_hz > 0)
    return;
  candidate->needs_tsc_rate = has_tsc_rate && finder->has_tsc;
  if (!candidate->needs_tsc_rate)
    explain_no_frequency(candidate, finder);
}

static void find_tsc(struct finder *finder) {
  const struct engine_options *options = finder->options;
  char why[CANDIDATE_REASON_MAX];
  if (!options->hardware)
    return;
  finder->has_tsc = perf_event_parse(&finder->tsc, "msr/tsc/", options->machine,
                                     why, sizeof(why)) == 0;
  finder->tsc_steady = finder->has_tsc && finder->topology->tsc_steady;
  if (!finder->tsc_steady && options->denominator == DENOMINATOR_TSC)
    journal_say(&options->journal, JOURNAL_WARNING,
                "Denominator \"tsc\" is configured, but this machine has no "
                "steady TSC in perf (msr/tsc): no counter is used");
  else if (finder->has_tsc && !finder->tsc_steady &&
           options->denominator == DENOMINATOR_AUTO)
    journal_say(&options->journal, JOURNAL_INFO,
                "the TSC of this machine is not steady (clocksource is not "
                "tsc, or no constant_tsc or nonstop_tsc): counters are divided "
                "by time-enabled");
}

/* Measures the rate of msr/tsc on one core for MEASUREMENT_NS. Returns 0 or
 * -errno. */
static int measure_tsc(const struct machine *machine, int core,
                       const struct perf_event *tsc, double *rate_hz) {
  struct perf_group group;
  struct perf_reading from, to;
  int status = perf_group_open(&group, machine, core, tsc, 1, false);
  if (status != 0)
    return status;
  status = perf_group_read(&group, &from);
  if (status == 0) {
    nanosleep(&(struct timespec){.tv_nsec = MEASUREMENT_NS}, NULL);
    status = perf_group_read(&group, &to);
  }
  perf_group_close(&group);
  if (status != 0)
    return status;
  double rate = perf_rate(&from, &to);
  if (isnan(rate))
    return -ESTALE;
  *rate_hz = 1e9 * rate;
  return 0;
}

static int measure_tsc_somewhere(const struct machine *machine,
                                 const struct topology *topology,
                                 double *rate_hz, char *why, size_t why_size) {
  struct perf_event tsc;
  int status = perf_event_parse(&tsc, "msr/tsc/", machine, why, why_size);
  if (status != 0)
    return status;
  struct core_set cores = cores_to_disturb(topology->online, topology);
  core_set_for_each(core, &cores) {
    status = measure_tsc(machine, core, &tsc, rate_hz);
    if (status == 0)
      return 0;
  }
  perf_explain(why, why_size, status);
  return status;
}

/* ---------------------------------------------------------------------------
 * Availability
 */

static void ignore_name(const char *name, void *argument) {
  (void)name;
  (void)argument;
}

/* Returns true if this host runs guests. A core PMU event that does not exclude
 * guests can keep guests with a mediated PMU from starting. If KVM is a module,
 * its use count shows whether guests run. If KVM is built in, it provides no
 * use count, and guests are assumed to run. */
static bool runs_guests(const struct machine *machine) {
  static const char *const modules[] = {"kvm_intel", "kvm_amd"};
  for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
    char path[64];
    uint64_t users;
    snprintf(path, sizeof(path), "/sys/module/%s/refcnt", modules[i]);
    int status = machine_read_u64(machine, path, &users);
    if (status == 0 && users > 0)
      return true;
    snprintf(path, sizeof(path), "/sys/module/%s/parameters", modules[i]);
    if (status != 0 &&
        machine->list_directory(machine->context, path, ignore_name, NULL) == 0)
      return true;
  }
  return false;
}

static void update_availability(struct candidate *candidate, const char *why) {
  candidate->available = !candidate->yielded && !candidate->needs_tsc_rate;
  if (candidate->yielded)
    snprintf(candidate->reason, sizeof(candidate->reason),
             "this host runs guests, and a core counter can prevent "
             "guests from starting: used only if named");
  else if (candidate->needs_tsc_rate)
    snprintf(candidate->reason, sizeof(candidate->reason),
             "the rate of msr/tsc is not known: %s", why);
  else
    candidate->reason[0] = '\0';
}

void candidates_yield_to_guests(struct candidate candidates[], int len,
                                const struct machine *machine) {
  bool guests = runs_guests(machine);
  for (int i = 0; i < len; i++) {
    struct candidate *candidate = &candidates[i];
    if (!candidate->yields_to_guests || candidate->yielded == guests)
      continue;
    candidate->yielded = guests;
    update_availability(candidate, "it has not been measured yet");
  }
}

int candidates_measure_tsc(struct candidate candidates[], int len,
                           const struct machine *machine,
                           const struct topology *topology) {
  char why[CANDIDATE_REASON_MAX] = "";
  double rate_hz = 0;
  int needed = 0;
  for (int i = 0; i < len; i++)
    needed += candidates[i].needs_tsc_rate;
  if (needed == 0)
    return 0;
  int status =
      measure_tsc_somewhere(machine, topology, &rate_hz, why, sizeof(why));
  for (int i = 0; i < len; i++) {
    struct candidate *candidate = &candidates[i];
    if (!candidate->needs_tsc_rate)
      continue;
    candidate->needs_tsc_rate = status != 0;
    candidate->base_frequency_hz = rate_hz;
    update_availability(candidate, why);
  }
  return status;
}

/* ---------------------------------------------------------------------------
 * Finding
 */

static void find_mperf(struct finder *finder, const struct core_kind *kind) {
  char ignored[CANDIDATE_REASON_MAX];
  struct candidate *candidate =
      add_candidate_of_kind(finder, SOURCE_MPERF, kind);
  if (!candidate->available)
    return;
  bool named = finder->options->source == SOURCE_MPERF;
  if (finder->topology->hypervisor && !named) {
    set_unavailable(candidate, "under a hypervisor, MPERF may belong to the "
                               "physical core: used only if named and proven");
    return;
  }
  candidate->must_be_proven = finder->topology->hypervisor;
  candidate->available =
      add_named_event(candidate, finder, "msr/mperf/", candidate->reason) >= 0;
  if (!candidate->available)
    return;
  if (finder->options->frequency)
    candidate->aperf =
        add_named_event(candidate, finder, "msr/aperf/", ignored);
  choose_denominator(candidate, finder);
}

static void find_ref_cycles(struct finder *finder,
                            const struct core_kind *kind) {
  struct candidate *candidate =
      add_candidate_of_kind(finder, SOURCE_REF_CYCLES, kind);
  if (!candidate->available)
    return;
  struct perf_event event = {.type = PERF_TYPE_HARDWARE,
                             .config = PERF_COUNT_HW_REF_CPU_CYCLES |
                                       kind->pmu_type << PERF_PMU_TYPE_SHIFT};
  add_event(candidate, &event);
  candidate->pinned = true;
  choose_denominator(candidate, finder);
  candidate->yields_to_guests =
      candidate->available && finder->options->source == SOURCE_AUTO;
}

static struct candidate *find_event(struct finder *finder, const char *text) {
  struct candidate *candidate = add_candidate(finder, SOURCE_EVENT);
  if (!candidate->available)
    return candidate;
  if (text == NULL) {
    set_unavailable(candidate, "no event is configured");
    return candidate;
  }
  candidate->available =
      add_named_event(candidate, finder, text, candidate->reason) >= 0;
  if (!candidate->available)
    return candidate;
  const char *slash = strchr(text, '/');
  if (slash != NULL)
    snprintf(candidate->pmu, sizeof(candidate->pmu), "%.*s",
             (int)(slash - text), text);
  candidate->pinned = true;
  if (strstr(text, CNT_CYCLES) != NULL)
    candidate->base_frequency_hz = finder->options->machine->system_counter_hz;
  choose_denominator(candidate, finder);
  return candidate;
}

/* Adds a candidate for the event cnt_cycles of one PMU if the PMU provides this
 * event. arm64 machines have one PMU for each kind of core. The event counts at
 * the rate of the system counter, and only while the core is not halted. Both
 * properties are proven before the event is used. */
static void find_cnt_cycles(const char *pmu, void *argument) {
  struct finder *finder = argument;
  const struct machine *machine = finder->options->machine;
  char path[320], event[320], text[64];
  snprintf(path, sizeof(path), PMU_FOLDER "/%s/events/" CNT_CYCLES, pmu);
  /* The last two places in candidates[] are reserved for the sources bpf and
   * idle. */
  if (finder->len == CANDIDATES_MAX - 2 ||
      machine->read_file(machine->context, path, text, sizeof(text)) < 0)
    return;
  snprintf(event, sizeof(event), "%s/" CNT_CYCLES "/", pmu);
  find_event(finder, event)->must_be_proven = true;
}

/* Adds a candidate for the configured event or, if no event is configured, for
 * the event cnt_cycles of each PMU that provides it. */
static void find_events(struct finder *finder) {
  const struct engine_options *options = finder->options;
  const struct machine *machine = options->machine;
  int len = finder->len;
  if (options->event == NULL && options->hardware &&
      options->source == SOURCE_AUTO && machine->system_counter_hz > 0)
    machine->list_directory(machine->context, PMU_FOLDER, find_cnt_cycles,
                            finder);
  if (finder->len == len)
    find_event(finder, options->event);
}

/* Adds the candidate for the bpf source. It is unavailable until the engine has
 * opened the idle clock. */
static void find_clock(struct finder *finder) {
  struct candidate *candidate = add_candidate(finder, SOURCE_BPF);
  if (candidate->available)
    set_unavailable(candidate, "the idle clock is not open yet");
}

#define KINDS_MAX 3

static int find_kinds(struct core_kind kinds[KINDS_MAX],
                      const struct machine *machine) {
  static const char *const pmus[KINDS_MAX] = {"cpu_core", "cpu_atom",
                                              "cpu_lowpower"};
  int len = 0;
  for (size_t i = 0; i < KINDS_MAX; i++) {
    char path[128];
    uint64_t type;
    snprintf(path, sizeof(path), PMU_FOLDER "/%s/type", pmus[i]);
    if (machine_read_u64(machine, path, &type) != 0 || type > UINT32_MAX)
      continue;
    kinds[len] = (struct core_kind){.pmu_type = type};
    snprintf(kinds[len++].pmu, sizeof(kinds->pmu), "%s", pmus[i]);
  }
  if (len == 0)
    kinds[len++] = (struct core_kind){0};
  return len;
}

int candidates_find(struct candidate candidates[CANDIDATES_MAX],
                    const struct engine_options *options,
                    const struct topology *topology) {
  struct finder finder = {
      .options = options, .topology = topology, .candidates = candidates};
  struct core_kind kinds[KINDS_MAX];
  int kinds_len = find_kinds(kinds, options->machine);
  find_tsc(&finder);
  for (int i = 0; i < kinds_len; i++)
    find_mperf(&finder, &kinds[i]);
  for (int i = 0; i < kinds_len; i++)
    find_ref_cycles(&finder, &kinds[i]);
  find_events(&finder);
  find_clock(&finder);
  add_candidate(&finder, SOURCE_IDLE);
  candidates_yield_to_guests(candidates, finder.len, options->machine);
  return finder.len;
}

void candidates_find_cores(struct candidate candidates[], int len,
                           const struct machine *machine) {
  for (int i = 0; i < len; i++) {
    struct candidate *candidate = &candidates[i];
    char path[128];
    if (candidate->pmu[0] == '\0')
      continue;
    snprintf(path, sizeof(path), PMU_FOLDER "/%s/cpus", candidate->pmu);
    int status = machine_read_core_set(machine, path, &candidate->cores);
    if (status == -ENOENT)
      core_set_fill(&candidate->cores);
    else if (status != 0)
      core_set_clear(&candidate->cores);
  }
}
