/* Makes the findings about the sources, the machine, and the rights of this
 * process. */
#include "doctor.h"

#include <stdarg.h>
#include <string.h>

/* Levels of kernel.perf_event_paranoid. Above level 0, counting the events of a
 * whole core requires CAP_PERFMON. Level 3, which Debian's kernels add,
 * restricts all events. */
#define PARANOID_CORES 0
#define PARANOID_ALL 3

void findings_add(struct findings *findings, const char *group,
                  const char *name, enum verdict verdict, const char *advice,
                  const char *format, ...) {
  if (findings->len >= FINDINGS_MAX)
    return;
  struct finding *finding = &findings->finding[findings->len++];
  *finding = (struct finding){.group = group, .name = name, .verdict = verdict};
  snprintf(finding->advice, sizeof(finding->advice), "%s",
           advice != NULL ? advice : "");
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(finding->value, sizeof(finding->value), format, arguments);
  va_end(arguments);
}

bool facts_may_count(const struct doctor_facts *facts,
                     unsigned long long capabilities) {
  return (capabilities & (CAPABILITY_PERFMON | CAPABILITY_SYS_ADMIN)) != 0 ||
         (facts->has_paranoid && facts->paranoid <= PARANOID_CORES);
}

static bool may_count(const struct doctor_facts *facts) {
  return facts_may_count(facts, facts->may_perf ? CAPABILITY_PERFMON : 0);
}

/* ---------------------------------------------------------------------------
 * Sources
 */

static const char clock_advice[] =
    "have root pin the idle clock (percore clock --pin), or give this process "
    "CAP_BPF and CAP_PERFMON: the clock sees softirqs that idle misses";

/* Returns advice on how to make a counter work. Advises more rights only if the
 * counter exists. */
static const char *counter_advice(const struct doctor_facts *facts,
                                  enum source source) {
  bool exists = source == SOURCE_MPERF        ? facts->has_mperf
                : source == SOURCE_REF_CYCLES ? facts->core_pmu
                                              : false;
  if (exists && !may_count(facts))
    return "give this process CAP_PERFMON (see rights below)";
  if (source == SOURCE_EVENT && facts->arm64)
    return "this processor has no cnt_cycles, which auto would use; to use "
           "another event: percore load --source event --event EVENT "
           "--base-frequency HZ";
  if (source == SOURCE_EVENT)
    return "only needed for a counter that auto does not know: percore load "
           "--source event --event EVENT --base-frequency HZ";
  if (facts->hypervisor && source == SOURCE_REF_CYCLES && !facts->core_pmu)
    return "let the hypervisor give this machine a PMU (QEMU: -cpu "
           "host,pmu=on; cloud: a metal or PMU-enabled size)";
  if (facts->hypervisor)
    return "nothing can be done inside this virtual machine";
  if (facts->arm64)
    return "arm64 has no such counter; event works if the processor has "
           "cnt_cycles (Neoverse V1 and later), otherwise idle";
  if (source == SOURCE_REF_CYCLES)
    return "this processor has no such counter (AMD before Zen 4); use mperf";
  return "this processor or kernel has no APERF/MPERF; use ref-cycles, event "
         "or idle";
}

static const char *proof_advice(enum source source, enum proof proof) {
  if (proof == PROOF_TICK_SAMPLED)
    return "boot a kernel with a dynamic tick (CONFIG_NO_HZ_IDLE) and without "
           "nohz=off, or use a hardware source: work between two ticks is not "
           "seen";
  if (proof == PROOF_UNPROVEN || proof == PROOF_PENDING)
    return source == SOURCE_IDLE
               ? "run percore doctor again when the machine is less busy"
               : "run percore doctor again when one core is neither busy nor "
                 "isolated";
  return NULL;
}

/* True if `auto` has chosen a source for every online core, but never this one.
 */
static bool is_spare(const struct doctor_facts *facts, enum source source) {
  int chosen = 0;
  for (int other = 0; other < SOURCES; other++)
    chosen += facts->source[other].chosen;
  return facts->source[source].chosen == 0 && chosen == facts->cores_online;
}

static void add_clock(struct findings *findings,
                      const struct doctor_facts *facts) {
  if (facts->clock_unseen[0] != '\0')
    findings_add(
        findings, "sources", "bpf misses", VERDICT_NOTE,
        "nothing to do: the time of such an interrupt counts as halted "
        "until its softirq begins",
        "interrupts without a tracepoint: %s", facts->clock_unseen);
}

static void add_softirq(struct findings *findings,
                        const struct doctor_facts *facts) {
  bool works = facts->softirq_trouble[0] == '\0';
  findings_add(
      findings, "machine", "ReportSoftirq", works ? VERDICT_OK : VERDICT_NOTE,
      works ? NULL : "nothing to do unless the plugin is to report it", "%s",
      works ? "time in softirqs can be measured" : facts->softirq_trouble);
}

/* Returns why a source works on no core. For ref-cycles, checks first whether
 * there is a core PMU, because the kernel may report missing rights for a
 * counter that does not exist. */
static const char *reason_without_cores(const struct doctor_facts *facts,
                                        enum source source) {
  if (source == SOURCE_REF_CYCLES && !facts->core_pmu)
    return "this machine has no core PMU";
  const char *reason = facts->source[source].reason;
  return reason[0] != '\0' ? reason : "works on no core";
}

static void add_source(struct findings *findings,
                       const struct doctor_facts *facts, enum source source) {
  const struct source_facts *fact = &facts->source[source];
  if (fact->cores == 0) {
    findings_add(findings, "sources", source_name(source),
                 /* The source "event" is optional. */
                 source == SOURCE_EVENT ? VERDICT_NOTE : VERDICT_MISSING,
                 source == SOURCE_IDLE  ? "make /proc/stat readable"
                 : source == SOURCE_BPF ? clock_advice
                                        : counter_advice(facts, source),
                 "%s", reason_without_cores(facts, source));
    return;
  }
  bool is_fine = fact->proof == PROOF_PROVEN ||
                 (fact->proof != PROOF_TICK_SAMPLED && is_spare(facts, source));
  findings_add(findings, "sources", source_name(source),
               is_fine ? VERDICT_OK : VERDICT_NOTE,
               is_fine ? NULL : proof_advice(source, fact->proof),
               "%s, works on %d of %d cores%s%s%s", proof_name(fact->proof),
               fact->cores, facts->cores_online,
               fact->chosen > 0 ? ", in use" : "",
               fact->reason[0] != '\0' ? ": " : "", fact->reason);
}

/* ---------------------------------------------------------------------------
 * The machine
 */

static const char *or_none(const char *text) {
  return text[0] != '\0' ? text : "none";
}

static void add_tick(struct findings *findings,
                     const struct doctor_facts *facts) {
  const struct source_facts *idle = &facts->source[SOURCE_IDLE];
  if (idle->cores > 0 && idle->proof == PROOF_PROVEN)
    findings_add(findings, "machine", "tick", VERDICT_OK, NULL,
                 "dynamic: idle time is measured, not sampled");
  else if (idle->cores > 0 && idle->proof == PROOF_TICK_SAMPLED)
    findings_add(findings, "machine", "tick", VERDICT_NOTE,
                 proof_advice(SOURCE_IDLE, PROOF_TICK_SAMPLED),
                 "idle time is sampled at the tick");
  else if (is_spare(facts, SOURCE_IDLE))
    findings_add(findings, "machine", "tick", VERDICT_OK, NULL,
                 "not tested, because no load depends on it");
  else
    findings_add(findings, "machine", "tick", VERDICT_NOTE,
                 proof_advice(SOURCE_IDLE, PROOF_UNPROVEN),
                 "not tested: idle time may be measured or sampled");
}

/* Advises measuring isolated cores with a counter if a proven one exists.
 * Isolated cores run fast paths, and the source "idle" may miss softirqs on
 * them. */
static void add_isolated(struct findings *findings,
                         const struct doctor_facts *facts) {
  bool counter = false;
  for (int source = 0; source < SOURCES; source++)
    counter |= source_is_counter(source) && facts->source[source].cores > 0 &&
               facts->source[source].proof == PROOF_PROVEN;
  bool improvable = counter && facts->isolated_on_idle > 0;
  findings_add(
      findings, "machine", "isolated", improvable ? VERDICT_NOTE : VERDICT_OK,
      improvable
          ? "isolated cores are measured by idle, which does not disturb "
            "them but may miss softirqs; IsolatedCores \"hardware\" "
            "of the plugin uses a counter and costs an interrupt per "
            "sample and core (21 to 25 us if the core is halted)"
          : NULL,
      "%s", or_none(facts->isolated));
}

static void add_proc_stat(struct findings *findings,
                          const struct doctor_facts *facts) {
  if (facts->lxcfs)
    findings_add(findings, "machine", "/proc/stat", VERDICT_MISSING,
                 "run without LXCFS, or give collectd the host's /proc and "
                 "/sys and set SysRoot",
                 "provided by LXCFS, like the list of cores: its rows may "
                 "belong to other cores");
  else
    findings_add(findings, "machine", "/proc/stat", VERDICT_OK, NULL,
                 "provided by the kernel");
}

/* Adds a finding about wake latency. It is at most a note, because measuring
 * wake latency is off by default. facts->wake_reason has the form "what failed:
 * why; what to do". */
static void add_wake(struct findings *findings,
                     const struct doctor_facts *facts) {
  const char *advice = strchr(facts->wake_reason, ';');
  if (facts->wake_reason[0] != '\0')
    findings_add(findings, "machine", "wake latency", VERDICT_NOTE,
                 advice != NULL ? advice + strspn(advice, "; ") : NULL, "%.*s",
                 (int)strcspn(facts->wake_reason, ";"), facts->wake_reason);
  else if (!facts->has_cpuidle)
    findings_add(findings, "machine", "wake latency", VERDICT_NOTE,
                 "load a cpuidle driver, or use percore wake alone, whose "
                 "figures are then unchecked",
                 "cpuidle has no driver: the plugin does not report it");
  else
    findings_add(findings, "machine", "wake latency", VERDICT_OK, NULL,
                 "can be measured");
}

static void add_machine(struct findings *findings,
                        const struct doctor_facts *facts) {
  findings_add(findings, "machine", "cores", VERDICT_OK, NULL,
               "%d online: %s (possible: %s)", facts->cores_online,
               facts->online, facts->possible);
  add_isolated(findings, facts);
  findings_add(findings, "machine", "nohz_full", VERDICT_OK, NULL, "%s",
               or_none(facts->nohz_full));
  findings_add(
      findings, "machine", "hypervisor",
      facts->steal_unknown ? VERDICT_NOTE : VERDICT_OK,
      facts->steal_unknown ? "nothing to do: a counter that disagrees with the "
                             "kernel's idle time is kept, with a warning"
                           : NULL,
      "%s%s", facts->hypervisor ? "yes" : "no",
      facts->steal_unknown ? ": it has reported no stolen time so far" : "");
  if (facts->softirq_is_idle)
    findings_add(
        findings, "machine", "softirq", VERDICT_NOTE,
        "use a hardware source, or a kernel with CONFIG_IRQ_TIME_ACCOUNTING",
        "this kernel counts softirq on an idle core as idle: the source idle "
        "misses it");
  add_softirq(findings, facts);
  findings_add(
      findings, "machine", "TSC", facts->tsc_steady ? VERDICT_OK : VERDICT_NOTE,
      facts->tsc_steady ? NULL
                        : "nothing to do: counters are divided by time-enabled",
      "%s, clocksource %s", facts->tsc_steady ? "steady" : "not steady",
      facts->clocksource[0] != '\0' ? facts->clocksource : "unknown");
  add_proc_stat(findings, facts);
  add_tick(findings, facts);
  findings_add(
      findings, "machine", "PMUs", facts->core_pmu ? VERDICT_OK : VERDICT_NOTE,
      facts->core_pmu     ? NULL
      : facts->hypervisor ? "let the hypervisor give this machine a PMU, if "
                            "cycles and IPC are wanted"
                          : "load the driver of this processor's PMU",
      "%s%s", or_none(facts->pmus), facts->core_pmu ? "" : " (no core PMU)");
  add_wake(findings, facts);
}

/* ---------------------------------------------------------------------------
 * Rights
 */

static void add_rights(struct findings *findings,
                       const struct doctor_facts *facts) {
  char level[32] = "absent";
  if (facts->has_paranoid)
    snprintf(level, sizeof(level), "%ld", facts->paranoid);
  bool counts = may_count(facts), useful = facts->has_mperf || facts->core_pmu;
  findings_add(findings, "rights", "CAP_PERFMON",
               counts   ? VERDICT_OK
               : useful ? VERDICT_MISSING
                        : VERDICT_NOTE,
               counts   ? NULL
               : useful ? "run as root, or: setcap cap_perfmon+ep "
                          "$(command -v percore)"
                        : "nothing to do: this machine offers no counter that "
                          "would need it",
               "%s", facts->may_perf ? "yes" : "no");
  bool all = facts->has_paranoid && facts->paranoid >= PARANOID_ALL;
  findings_add(findings, "rights", "perf_event_paranoid",
               !facts->has_paranoid ? VERDICT_MISSING
               : all                ? VERDICT_NOTE
                                    : VERDICT_OK,
               !facts->has_paranoid ? "use a kernel with CONFIG_PERF_EVENTS"
               : all ? "if counters fail in spite of CAP_PERFMON: sysctl -w "
                       "kernel.perf_event_paranoid=2"
                     : NULL,
               "%s", level);
}

void findings_add_machine(struct findings *findings,
                          const struct doctor_facts *facts) {
  for (int source = 0; source < SOURCES; source++)
    add_source(findings, facts, source);
  add_clock(findings, facts);
  add_machine(findings, facts);
  add_rights(findings, facts);
}

bool facts_have_source(const struct doctor_facts *facts) {
  for (int source = 0; source < SOURCES; source++)
    if (facts->source[source].cores > 0)
      return true;
  return false;
}
