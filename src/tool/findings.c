/* From facts to findings, each with what to do about it. */
#include "percore_config.h"

#include "doctor.h"
#include "json.h"
#include "text.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

/* Levels of kernel.perf_event_paranoid: above 0 events of a whole core need
 * CAP_PERFMON; level 3 is a patch of Debian's, which asks for more. */
#define PARANOID_CORES 0
#define PARANOID_ALL 3

static const char *const verdict_names[] = {[VERDICT_OK] = "ok",
                                            [VERDICT_NOTE] = "note",
                                            [VERDICT_MISSING] = "missing"};

static void add(struct findings *findings, const char *group, const char *name,
                enum verdict verdict, const char *advice, const char *format,
                ...) __attribute__((format(printf, 6, 7)));

static void add(struct findings *findings, const char *group, const char *name,
                enum verdict verdict, const char *advice, const char *format,
                ...) {
  if (findings->len >= FINDINGS_MAX)
    return;
  struct finding *finding = &findings->finding[findings->len++];
  *finding = (struct finding){
      .group = group, .name = name, .verdict = verdict, .advice = advice};
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(finding->value, sizeof(finding->value), format, arguments);
  va_end(arguments);
}

static bool may_count(const struct doctor_facts *facts) {
  return facts->may_perf ||
         (facts->has_paranoid && facts->paranoid <= PARANOID_CORES);
}

/* ---------------------------------------------------------------------------
 * Sources
 */

static const char clock_advice[] =
    "let root pin the idle clock (percore clock --pin), or give this process "
    "CAP_BPF and CAP_PERFMON: it sees softirq that idle misses";

/* Why a counter cannot be had is mostly one of these, in this order. */
static const char *counter_advice(const struct doctor_facts *facts,
                                  enum source source) {
  if (!may_count(facts))
    return "give this process CAP_PERFMON (see perf_event_paranoid below)";
  if (source == SOURCE_EVENT && facts->arm64)
    return "this processor has no cnt_cycles, which would be used by itself; "
           "name another: percore load --source event --event EVENT "
           "--base-frequency HZ";
  if (source == SOURCE_EVENT)
    return "name one: percore load --source event --event EVENT "
           "--base-frequency HZ";
  if (facts->hypervisor && source == SOURCE_REF_CYCLES && !facts->core_pmu)
    return "let the hypervisor give this machine a PMU (QEMU: -cpu "
           "host,pmu=on; cloud: a metal or PMU-enabled size)";
  if (facts->hypervisor)
    return "nothing to be done from within this virtual machine";
  if (facts->arm64)
    return "arm64 has no such counter: event serves where the processor has "
           "cnt_cycles (Neoverse V1 and later), else idle";
  if (source == SOURCE_REF_CYCLES)
    return "this processor has no such counter (AMD before Zen 4): mperf "
           "serves there";
  return "this processor or kernel has no APERF/MPERF: ref-cycles, event or "
         "idle serve";
}

static const char *proof_advice(enum source source, enum proof proof) {
  if (proof == PROOF_TICK_SAMPLED)
    return "boot without nohz=off, on a kernel with a dynamic tick "
           "(CONFIG_NO_HZ_IDLE), or use a hardware source: as it is, work "
           "between two ticks is not seen";
  if (proof == PROOF_UNPROVEN || proof == PROOF_PENDING)
    return source == SOURCE_IDLE
               ? "run it again while the machine is less busy"
               : "run it again while one core is neither busy nor isolated";
  return NULL;
}

static void add_source(struct findings *findings,
                       const struct doctor_facts *facts, enum source source) {
  const struct source_facts *fact = &facts->source[source];
  if (fact->cores == 0) {
    add(findings, "sources", source_name(source), VERDICT_MISSING,
        source == SOURCE_IDLE  ? "make /proc/stat of this machine readable"
        : source == SOURCE_BPF ? clock_advice
                               : counter_advice(facts, source),
        "%s", fact->reason[0] != '\0' ? fact->reason : "serves no core");
    return;
  }
  add(findings, "sources", source_name(source),
      fact->proof == PROOF_PROVEN ? VERDICT_OK : VERDICT_NOTE,
      proof_advice(source, fact->proof), "%s, can serve %d of %d cores%s%s%s",
      proof_name(fact->proof), fact->cores, facts->cores_online,
      fact->chosen > 0 ? ", in use" : "", fact->reason[0] != '\0' ? ": " : "",
      fact->reason);
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
    add(findings, "machine", "tick", VERDICT_OK, NULL,
        "dynamic: idle time is measured, not sampled");
  else if (idle->cores > 0 && idle->proof == PROOF_TICK_SAMPLED)
    add(findings, "machine", "tick", VERDICT_NOTE,
        proof_advice(SOURCE_IDLE, PROOF_TICK_SAMPLED),
        "idle time is sampled at the tick");
  else
    add(findings, "machine", "tick", VERDICT_NOTE,
        proof_advice(SOURCE_IDLE, PROOF_UNPROVEN),
        "could not be tested: is idle time measured or sampled?");
}

/* XDP, DPDK and the like are pinned to isolated cores, and `idle` misses more
 * inline softirqs than other sources. */
static void add_isolated(struct findings *findings,
                         const struct doctor_facts *facts) {
  bool counter = false;
  for (int source = 0; source < SOURCES; source++)
    counter |= source_is_counter(source) && facts->source[source].cores > 0 &&
               facts->source[source].proof == PROOF_PROVEN;
  bool improvable = counter && facts->isolated_on_idle > 0;
  add(findings, "machine", "isolated", improvable ? VERDICT_NOTE : VERDICT_OK,
      improvable ? "they are measured by idle, which disturbs nobody but may "
                   "miss softirqs; IsolatedCores \"hardware\" of the plugin "
                   "uses a counter, at the cost of an interrupt per sample and "
                   "core (21 to 25 us if it is halted)"
                 : NULL,
      "%s", or_none(facts->isolated));
}

static void add_proc_stat(struct findings *findings,
                          const struct doctor_facts *facts) {
  add(findings, "machine", "/proc/stat",
      facts->lxcfs ? VERDICT_MISSING : VERDICT_OK,
      facts->lxcfs ? "keep LXCFS from mounting it, or let collectd see the "
                     "host's /proc and /sys and name them with SysRoot"
                   : NULL,
      "%s",
      facts->lxcfs ? "provided by LXCFS, like the list of cores: its rows may "
                     "belong to other cores"
                   : "of the kernel");
}

static void add_machine(struct findings *findings,
                        const struct doctor_facts *facts) {
  add(findings, "machine", "cores", VERDICT_OK, NULL,
      "%d online: %s (possible: %s)", facts->cores_online, facts->online,
      facts->possible);
  add_isolated(findings, facts);
  add(findings, "machine", "nohz_full", VERDICT_OK, NULL, "%s",
      or_none(facts->nohz_full));
  add(findings, "machine", "hypervisor",
      facts->steal_unknown ? VERDICT_NOTE : VERDICT_OK,
      facts->steal_unknown ? "nothing: a counter that disagrees with the "
                             "kernel's idle time is kept, with a warning"
                           : NULL,
      "%s%s", facts->hypervisor ? "yes" : "no",
      facts->steal_unknown ? ": it has reported no stolen time so far" : "");
  if (facts->softirq_is_idle)
    add(findings, "machine", "softirq", VERDICT_NOTE,
        "use a hardware source, or a kernel with CONFIG_IRQ_TIME_ACCOUNTING",
        "this kernel counts softirq on an idle core as idle: loads of idle "
        "lack it");
  add(findings, "machine", "TSC", facts->tsc_steady ? VERDICT_OK : VERDICT_NOTE,
      facts->tsc_steady ? NULL
                        : "nothing: counters are then divided by time-enabled",
      "%s, clocksource %s", facts->tsc_steady ? "steady" : "not steady",
      facts->clocksource[0] != '\0' ? facts->clocksource : "not known");
  add_proc_stat(findings, facts);
  add_tick(findings, facts);
  add(findings, "machine", "PMUs", facts->core_pmu ? VERDICT_OK : VERDICT_NOTE,
      facts->core_pmu     ? NULL
      : facts->hypervisor ? "let the hypervisor give this machine a PMU, if "
                            "cycles and IPC are wanted"
                          : "load the driver of this processor's PMU",
      "%s%s", or_none(facts->pmus),
      facts->core_pmu ? "" : " (none of the cores)");
}

/* ---------------------------------------------------------------------------
 * Rights and collectd
 */

static void add_rights(struct findings *findings,
                       const struct doctor_facts *facts) {
  char level[32] = "not there";
  if (facts->has_paranoid)
    snprintf(level, sizeof(level), "%ld", facts->paranoid);
  add(findings, "rights", "CAP_PERFMON",
      may_count(facts) ? VERDICT_OK : VERDICT_MISSING,
      may_count(facts) ? NULL
                       : "run as root, or: setcap cap_perfmon+ep percore; for "
                         "collectd use the systemd drop-in of percore",
      "%s", facts->may_perf ? "yes" : "no");
  bool all = facts->has_paranoid && facts->paranoid >= PARANOID_ALL;
  add(findings, "rights", "perf_event_paranoid",
      !facts->has_paranoid ? VERDICT_MISSING
      : all                ? VERDICT_NOTE
                           : VERDICT_OK,
      !facts->has_paranoid ? "use a kernel with CONFIG_PERF_EVENTS"
      : all                ? "if counters fail in spite of CAP_PERFMON: sysctl "
                             "kernel.perf_event_paranoid=2"
                           : NULL,
      "%s", level);
}

static void add_collectd(struct findings *findings,
                         const struct doctor_facts *facts) {
  bool found = facts->collectd[0] != '\0';
  add(findings, "collectd", "daemon", found ? VERDICT_OK : VERDICT_MISSING,
      found ? NULL : "apt-get install collectd-core", "%s",
      found ? facts->collectd : "not found");
  if (facts->plugindir[0] == '\0')
    add(findings, "collectd", "plugin", VERDICT_MISSING,
        "configure without --disable-plugin",
        "this percore was built without it");
  else
    add(findings, "collectd", "plugin",
        facts->plugin_installed ? VERDICT_OK : VERDICT_MISSING,
        facts->plugin_installed
            ? NULL
            : "make install, then LoadPlugin percore in collectd.conf",
        "%s/percore.so%s", facts->plugindir,
        facts->plugin_installed ? "" : " is not there");
}

void findings_make(struct findings *findings,
                   const struct doctor_facts *facts) {
  findings->len = 0;
  for (int source = 0; source < SOURCES; source++)
    add_source(findings, facts, source);
  add_machine(findings, facts);
  add_rights(findings, facts);
  add_collectd(findings, facts);
}

bool facts_have_source(const struct doctor_facts *facts) {
  for (int source = 0; source < SOURCES; source++)
    if (facts->source[source].cores > 0)
      return true;
  return false;
}

/* ---------------------------------------------------------------------------
 * Writing them
 */

#define INDENT 31 /* where values begin */

/* "Loads come from idle (proven) on 2 of 2 cores." */
static void write_conclusion(FILE *out, const struct doctor_facts *facts) {
  static const char begin[] = "Loads come from ";
  const char *separator = begin;
  for (int source = 0; source < SOURCES; source++) {
    const struct source_facts *fact = &facts->source[source];
    if (fact->chosen == 0)
      continue;
    fprintf(out, "%s%s (%s) on %d of %d cores", separator, source_name(source),
            proof_name(fact->proof), fact->chosen, facts->cores_online);
    separator = ", ";
  }
  if (separator != begin)
    fputs(".\n", out);
  else if (facts_have_source(facts))
    fputs("No source is chosen by itself: name one of the above (--source, or "
          "Source of the plugin).\n",
          out);
  else
    fputs("No source of loads works here: see above what would help.\n", out);
}

int findings_text_write(FILE *out, const struct findings *findings,
                        const struct doctor_facts *facts, int width) {
  const char *group = "";
  fprintf(out, "%s on %s\n", PACKAGE_STRING, facts->kernel);
  for (size_t i = 0; i < findings->len; i++) {
    const struct finding *finding = &findings->finding[i];
    if (strcmp(group, finding->group) != 0)
      fprintf(out, "\n%s\n", finding->group);
    group = finding->group;
    fprintf(out, "  %-7s  %-19s  ", verdict_names[finding->verdict],
            finding->name);
    text_wrap(out, finding->value, INDENT, width);
    if (finding->advice != NULL) {
      fprintf(out, "%*s", INDENT, "-> ");
      text_wrap(out, finding->advice, INDENT, width);
    }
  }
  fputc('\n', out);
  write_conclusion(out, facts);
  return 0;
}

int findings_json_write(FILE *out, const struct findings *findings,
                        const struct doctor_facts *facts) {
  struct json *json = json_begin(out);
  if (json == NULL)
    return -ENOMEM;
  json_text(json, "version", PACKAGE_VERSION);
  json_text(json, "kernel", facts->kernel);
  json_bool(json, "works", facts_have_source(facts));
  json_integer(json, "cores_online", facts->cores_online);
  json_open_array(json, "findings");
  for (size_t i = 0; i < findings->len; i++) {
    const struct finding *finding = &findings->finding[i];
    json_open_object(json, NULL);
    json_text(json, "group", finding->group);
    json_text(json, "name", finding->name);
    json_text(json, "verdict", verdict_names[finding->verdict]);
    json_text(json, "value", finding->value);
    if (finding->advice != NULL)
      json_text(json, "advice", finding->advice);
    json_close_object(json);
  }
  json_close_array(json);
  return json_end(json);
}
