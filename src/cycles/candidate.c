#include "candidate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define PMU_FOLDER "/sys/bus/event_source/devices"

/* How long the TSC is watched to learn its rate. */
#define CALIBRATION_NS 20000000

/* ---------------------------------------------------------------------------
 * The base frequency
 */

/* The rate of msr/tsc against the kernel's own clock, 0 if it cannot be had. */
static double calibrate_tsc(const struct machine *machine, int core,
                            const struct perf_event *tsc) {
  struct perf_group group;
  struct perf_reading from, to;
  double frequency_hz = 0;
  if (perf_group_open(&group, machine, core, tsc, 1, false) != 0)
    return 0;
  if (perf_group_read(&group, machine, &from) == 0) {
    nanosleep(&(struct timespec){.tv_nsec = CALIBRATION_NS}, NULL);
    if (perf_group_read(&group, machine, &to) == 0 &&
        to.time_enabled_ns > from.time_enabled_ns)
      frequency_hz = (double)(to.value[0] - from.value[0]) * 1e9 /
                     (double)(to.time_enabled_ns - from.time_enabled_ns);
  }
  perf_group_close(&group, machine);
  return frequency_hz;
}

/* ---------------------------------------------------------------------------
 * Finding
 */

struct finder {
  const struct engine_options *options;
  const struct topology *topology;
  bool has_tsc; /* msr/tsc exists and is fit to be a denominator */
  struct perf_event tsc;
};

/* An online core that the candidate serves; an isolated core only if there is
 * no other. */
static int core_to_disturb(const struct finder *finder,
                           const struct candidate *candidate) {
  struct core_set cores = finder->topology->online;
  if (!candidate->any_core)
    core_set_intersect(&cores, &candidate->cores);
  struct core_set others = cores;
  core_set_subtract(&others, &finder->topology->isolated);
  int core = core_set_next(&others, -1);
  return core >= 0 ? core : core_set_next(&cores, -1);
}

static void unavailable(struct candidate *candidate, const char *reason) {
  candidate->available = false;
  snprintf(candidate->reason, sizeof(candidate->reason), "%s", reason);
}

static struct candidate start(enum source source) {
  return (struct candidate){.source = source,
                            .available = true,
                            .any_core = true,
                            .tsc = -1,
                            .aperf = -1,
                            .smi = -1};
}

/* Sources that may not be used are not looked for, either: that alone would
 * open counters. */
static bool ruled_out(struct candidate *candidate,
                      const struct engine_options *options) {
  if (options->source != SOURCE_AUTO && options->source != candidate->source &&
      candidate->source != SOURCE_IDLE)
    unavailable(candidate, "another source is configured");
  else if (candidate->source != SOURCE_IDLE && !options->hardware)
    unavailable(candidate, "counters of this kernel do not belong to this "
                           "SysRoot (set HostPerf true if they do)");
  return !candidate->available;
}

static int add_event(struct candidate *candidate,
                     const struct perf_event *event) {
  candidate->events[candidate->events_len] = *event;
  return candidate->events_len++;
}

/* Adds an event that is counted beside the load. Returns its place in the
 * group, or -1 if the event does not exist. */
static int add_extra(struct candidate *candidate, const struct finder *finder,
                     const char *text) {
  struct perf_event event;
  char why[CANDIDATE_REASON_MAX];
  if (perf_event_parse(&event, text, finder->options->machine, why,
                       sizeof(why)) != 0)
    return -1;
  return add_event(candidate, &event);
}

/* An event that does not exist needs no frequency. */
static void explain_no_frequency(struct candidate *candidate,
                                 const struct finder *finder) {
  const struct machine *machine = finder->options->machine;
  struct perf_group group;
  int status = candidate_open(candidate, &group, machine,
                              core_to_disturb(finder, candidate), false);
  candidate->available = false;
  if (status == -ENOENT || status == -EOPNOTSUPP)
    candidate_explain(candidate->reason, sizeof(candidate->reason), status);
  else
    unavailable(candidate, "the frequency at which the event counts is "
                           "unknown: set BaseFrequency (percore(1): "
                           "--base-frequency)");
  if (status == 0)
    perf_group_close(&group, machine);
}

/* Decides between the two denominators and finds what the chosen one needs.
 * Called when events[0] is known. */
static void choose_denominator(struct candidate *candidate,
                               const struct finder *finder) {
  if (finder->options->smi)
    candidate->smi = add_extra(candidate, finder, "msr/smi/");
  enum denominator wanted = finder->options->denominator;
  /* A configured event need not count at the rate of the TSC. */
  bool tsc_rate = candidate->source != SOURCE_EVENT;
  if (wanted == DENOMINATOR_TSC && !(finder->has_tsc && tsc_rate)) {
    unavailable(candidate,
                tsc_rate ? "Denominator \"tsc\": this machine has no steady "
                           "TSC in perf (msr/tsc)"
                         : "Denominator \"tsc\" needs a counter that runs at "
                           "the rate of the TSC; use \"time-enabled\"");
    return;
  }
  if (finder->has_tsc && tsc_rate)
    candidate->tsc = add_event(candidate, &finder->tsc);
  if (wanted != DENOMINATOR_TIME_ENABLED && candidate->tsc >= 0) {
    candidate->denominator = DENOMINATOR_TSC;
    return;
  }
  candidate->denominator = DENOMINATOR_TIME_ENABLED;
  if (finder->options->base_frequency_hz > 0)
    candidate->base_frequency_hz = finder->options->base_frequency_hz;
  if (candidate->base_frequency_hz == 0 && tsc_rate) {
    char why[64];
    struct perf_event tsc;
    if (perf_event_parse(&tsc, "msr/tsc/", finder->options->machine, why,
                         sizeof(why)) == 0)
      candidate->base_frequency_hz = calibrate_tsc(
          finder->options->machine, core_to_disturb(finder, candidate), &tsc);
  }
  if (candidate->base_frequency_hz == 0)
    explain_no_frequency(candidate, finder);
}

static struct candidate find_mperf(const struct finder *finder) {
  struct candidate candidate = start(SOURCE_MPERF);
  if (ruled_out(&candidate, finder->options))
    return candidate;
  const struct machine *machine = finder->options->machine;
  struct perf_event mperf;
  bool named = finder->options->source == SOURCE_MPERF;
  if (finder->topology->hypervisor && !named) {
    unavailable(&candidate, "under a hypervisor MPERF may be that of the "
                            "physical core: used only if named and proven");
    return candidate;
  }
  candidate.must_be_proven = finder->topology->hypervisor;
  if (perf_event_parse(&mperf, "msr/mperf/", machine, candidate.reason,
                       sizeof(candidate.reason)) != 0) {
    candidate.available = false;
    return candidate;
  }
  add_event(&candidate, &mperf);
  if (finder->options->frequency)
    candidate.aperf = add_extra(&candidate, finder, "msr/aperf/");
  choose_denominator(&candidate, finder);
  return candidate;
}

static void ignore_name(const char *name, void *argument) {
  (void)name;
  (void)argument;
}

/* Does this host run guests? A core PMU event that does not exclude them can
 * stop guests with a mediated PMU from starting. KVM as a module counts its
 * users; built in it has parameters but no count, and may have any number. */
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

/* pmu and its type on hybrid processors, else NULL and 0. */
static struct candidate find_ref_cycles(const struct finder *finder,
                                        const char *pmu, uint64_t type) {
  struct candidate candidate = start(SOURCE_REF_CYCLES);
  if (pmu != NULL) {
    /* Set for a source that is ruled out, too, because IPC uses it. */
    snprintf(candidate.pmu, sizeof(candidate.pmu), "%s", pmu);
    candidate.pmu_type = type;
  }
  if (ruled_out(&candidate, finder->options))
    return candidate;
  struct perf_event event = {.type = PERF_TYPE_HARDWARE,
                             .config = PERF_COUNT_HW_REF_CPU_CYCLES |
                                       type << PERF_PMU_TYPE_SHIFT};
  add_event(&candidate, &event);
  candidate.pinned = true;
  choose_denominator(&candidate, finder);
  candidate.yields_to_guests =
      candidate.available && finder->options->source == SOURCE_AUTO;
  return candidate;
}

#define CNT_CYCLES "cnt_cycles"

static struct candidate find_event(const struct finder *finder,
                                   const char *text) {
  struct candidate candidate = start(SOURCE_EVENT);
  if (ruled_out(&candidate, finder->options))
    return candidate;
  struct perf_event event;
  if (text == NULL) {
    unavailable(&candidate, "no event is configured");
    return candidate;
  }
  if (perf_event_parse(&event, text, finder->options->machine, candidate.reason,
                       sizeof(candidate.reason)) != 0) {
    candidate.available = false;
    return candidate;
  }
  const char *slash = strchr(text, '/');
  if (slash != NULL)
    snprintf(candidate.pmu, sizeof(candidate.pmu), "%.*s", (int)(slash - text),
             text);
  add_event(&candidate, &event);
  candidate.pinned = true;
  if (strstr(text, CNT_CYCLES) != NULL)
    candidate.base_frequency_hz = finder->options->machine->system_counter_hz;
  choose_denominator(&candidate, finder);
  return candidate;
}

struct pmu_scan {
  const struct finder *finder;
  struct candidate *candidates;
  int len;
};

/* arm64 has a PMU for each kind of core. PMUs that have this event count it at
 * the rate of the system counter, and only while the core is not halted; this
 * is proven before use. */
static void find_cnt_cycles(const char *pmu, void *argument) {
  struct pmu_scan *scan = argument;
  const struct machine *machine = scan->finder->options->machine;
  char path[320], event[320], text[64];
  snprintf(path, sizeof(path), PMU_FOLDER "/%s/events/" CNT_CYCLES, pmu);
  if (scan->len == CANDIDATES_MAX - 1 ||
      machine->read_file(machine->context, path, text, sizeof(text)) < 0)
    return;
  snprintf(event, sizeof(event), "%s/" CNT_CYCLES "/", pmu);
  struct candidate *candidate = &scan->candidates[scan->len++];
  *candidate = find_event(scan->finder, event);
  candidate->must_be_proven = true;
}

/* The configured event, or the events that this kind of machine is known to
 * have. */
static int find_events(const struct finder *finder,
                       struct candidate candidates[CANDIDATES_MAX], int len) {
  const struct engine_options *options = finder->options;
  const struct machine *machine = options->machine;
  struct pmu_scan scan = {finder, candidates, len};
  if (options->event == NULL && options->hardware &&
      options->source == SOURCE_AUTO && machine->system_counter_hz > 0)
    machine->list_directory(machine->context, PMU_FOLDER, find_cnt_cycles,
                            &scan);
  if (scan.len == len)
    candidates[scan.len++] = find_event(finder, options->event);
  return scan.len;
}

static void find_tsc(struct finder *finder) {
  const struct engine_options *options = finder->options;
  char why[CANDIDATE_REASON_MAX];
  if (!options->hardware)
    return;
  bool exists = perf_event_parse(&finder->tsc, "msr/tsc/", options->machine,
                                 why, sizeof(why)) == 0;
  finder->has_tsc = exists && finder->topology->tsc_steady;
  if (!finder->has_tsc && options->denominator == DENOMINATOR_TSC)
    journal_say(&options->journal, JOURNAL_WARNING,
                "Denominator \"tsc\" is configured, but this machine has no "
                "steady TSC in perf (msr/tsc): no counter is used");
  else if (exists && !finder->has_tsc &&
           options->denominator == DENOMINATOR_AUTO)
    journal_say(&options->journal, JOURNAL_INFO,
                "the TSC of this machine is not steady (clocksource is not "
                "tsc, or no constant_tsc or nonstop_tsc): counters are divided "
                "by time-enabled");
}

int candidates_find(struct candidate candidates[CANDIDATES_MAX],
                    const struct engine_options *options,
                    const struct topology *topology) {
  static const char *const hybrid_pmus[] = {"cpu_core", "cpu_atom",
                                            "cpu_lowpower"};
  struct finder finder = {.options = options, .topology = topology};
  int len = 0;
  find_tsc(&finder);
  candidates[len++] = find_mperf(&finder);
  int hybrids = 0;
  for (size_t i = 0; i < sizeof(hybrid_pmus) / sizeof(hybrid_pmus[0]); i++) {
    char path[128];
    uint64_t type;
    snprintf(path, sizeof(path), PMU_FOLDER "/%s/type", hybrid_pmus[i]);
    if (machine_read_u64(options->machine, path, &type) != 0 ||
        type > UINT32_MAX)
      continue;
    candidates[len++] = find_ref_cycles(&finder, hybrid_pmus[i], type);
    hybrids++;
  }
  if (hybrids == 0)
    candidates[len++] = find_ref_cycles(&finder, NULL, 0);
  len = find_events(&finder, candidates, len);
  candidates[len++] = start(SOURCE_IDLE);
  candidates_mind_guests(candidates, len, options->machine);
  return len;
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
    candidate->any_core = status == -ENOENT;
    if (status != 0)
      core_set_clear(&candidate->cores);
  }
}

void candidates_mind_guests(struct candidate candidates[], int len,
                            const struct machine *machine) {
  bool guests = runs_guests(machine);
  for (int i = 0; i < len; i++) {
    struct candidate *candidate = &candidates[i];
    if (!candidate->yields_to_guests || candidate->yielded == guests)
      continue;
    candidate->yielded = guests;
    candidate->available = !guests;
    snprintf(candidate->reason, sizeof(candidate->reason), "%s",
             guests ? "this host runs guests, which a core counter can keep "
                      "from starting: used only if named"
                    : "");
  }
}

bool candidate_serves(const struct candidate *candidate, int core) {
  return candidate->any_core || core_set_has(&candidate->cores, core);
}

void candidate_explain(char *text, size_t size, int status) {
  const char *remedy = "";
  if (status == -EACCES || status == -EPERM)
    remedy = " (give CAP_PERFMON, or lower kernel.perf_event_paranoid)";
  else if (status == -ENOENT)
    remedy = " (this processor, or the hypervisor, does not offer it)";
  else if (status == -EOPNOTSUPP)
    remedy = " (not offered here, or not while a guest has a PMU)";
  else if (status == -ENODEV)
    remedy = " (the core is offline)";
  else if (status == -EMFILE)
    remedy = " (raise the limit of open files, LimitNOFILE= under systemd)";
  snprintf(text, size, "it cannot be opened: %s%s", strerror(-status), remedy);
}

int candidate_open(const struct candidate *candidate, struct perf_group *group,
                   const struct machine *machine, int core, bool pinned) {
  return perf_group_open(group, machine, core, candidate->events,
                         candidate->events_len, pinned);
}

/* ---------------------------------------------------------------------------
 * Windows
 */

int candidate_window(const struct candidate *candidate,
                     const struct perf_reading *from,
                     const struct perf_reading *to,
                     struct candidate_window *window) {
  /* Unsigned differences: right across a wrap of any counter. */
  double enabled = (double)(to->time_enabled_ns - from->time_enabled_ns);
  double running = (double)(to->time_running_ns - from->time_running_ns);
  double count = (double)(to->value[0] - from->value[0]);
  if (to->time_enabled_ns <= from->time_enabled_ns)
    return -ESTALE;
  if (to->time_running_ns <= from->time_running_ns)
    return -EAGAIN;
  *window = (struct candidate_window){.progress_ns = enabled,
                                      .running = running / enabled};
  double base = candidate->base_frequency_hz * running / 1e9;
  if (candidate->tsc >= 0) {
    double tsc =
        (double)(to->value[candidate->tsc] - from->value[candidate->tsc]);
    /* The TSC is a member of the group and stood still whenever the counter
     * did: nothing is to be scaled. */
    if (candidate->denominator == DENOMINATOR_TSC)
      base = tsc;
    window->base_cycles = tsc / window->running;
  } else {
    window->base_cycles = base / window->running;
  }
  if (!(base > 0))
    return -EAGAIN;
  window->load = count / base;
  if (candidate->smi >= 0)
    window->smi =
        (double)(to->value[candidate->smi] - from->value[candidate->smi]);
  if (candidate->aperf >= 0) {
    window->mperf = count;
    window->aperf =
        (double)(to->value[candidate->aperf] - from->value[candidate->aperf]);
  }
  return 0;
}
