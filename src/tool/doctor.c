/* percore doctor: reports what can be measured on this machine, and what to
 * improve. */
#include "percore_config.h"

#include "doctor.h"
#include "cycles/core.h"
#include "cycles/softirq_clock.h"
#include "text.h"
#include "tool.h"
#include "wake/core.h"
#include "wake/programs.h"
#include "window.h"

#include <errno.h>
#include <grp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>

#define COMMAND "doctor"
#define INDENT 31 /* column where values begin */

/* ---------------------------------------------------------------------------
 * Findings
 */

void doctor_say(struct doctor *doctor, const char *group, const char *name,
                enum verdict verdict, const char *advice, const char *format,
                ...) {
  static const char *const names[] = {"ok", "note", "missing"};
  static const enum paint paints[] = {PAINT_GOOD, PAINT_WARN, PAINT_BAD};
  char value[4 * FACT_SIZE], clean[sizeof(value) * TEXT_GROWTH];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(value, sizeof(value), format, arguments);
  va_end(arguments);
  if (doctor->json != NULL) {
    json_open_object(doctor->json, NULL);
    json_text(doctor->json, "group", group);
    json_text(doctor->json, "name", name);
    json_text(doctor->json, "verdict", names[verdict]);
    json_text(doctor->json, "value", value);
    if (advice != NULL)
      json_text(doctor->json, "advice", advice);
    json_close_object(doctor->json);
    return;
  }
  if (doctor->last_group == NULL || strcmp(doctor->last_group, group) != 0)
    fprintf(doctor->out, "\n%s\n", group);
  doctor->last_group = group;
  fputs("  ", doctor->out);
  paint_pad(doctor->out, doctor->colour, paints[verdict], names[verdict], -7);
  fprintf(doctor->out, "  %-19s  ", name);
  text_wrap(doctor->out, text_clean_string(clean, sizeof(clean), value), INDENT,
            doctor->width);
  if (advice == NULL)
    return;
  fprintf(doctor->out, "%*s", INDENT, "-> ");
  text_wrap(doctor->out, text_clean_string(clean, sizeof(clean), advice),
            INDENT, doctor->width);
}

bool doctor_has_source(const struct doctor *doctor) {
  for (int source = 0; source < SOURCES; source++)
    if (doctor->source[source].cores > 0)
      return true;
  return false;
}

/* Writes a sentence such as "Loads come from idle (proven) on 2 of 2 cores." */
void doctor_conclude(struct doctor *doctor) {
  static const char begin[] = "\nLoads come from ";
  const char *separator = begin;
  for (int source = 0; source < SOURCES; source++) {
    const struct source_facts *facts = &doctor->source[source];
    if (facts->chosen == 0)
      continue;
    fprintf(doctor->out, "%s%s (%s) on %d of %d cores", separator,
            source_name(source), proof_name(facts->proof), facts->chosen,
            doctor->cores_online);
    separator = ", ";
  }
  fputs(separator != begin ? ".\n"
        : doctor_has_source(doctor)
            ? "\nNo source is used by default: choose one with --source "
              "(plugin: Source).\n"
            : "\nNo source of loads works here; the advice above says what "
              "would help.\n",
        doctor->out);
}

/* ---------------------------------------------------------------------------
 * Sources
 */

bool doctor_may_count(const struct doctor *doctor,
                      unsigned long long capabilities) {
  /* Above level 0, counting the events of a whole core needs CAP_PERFMON. */
  return (capabilities & (CAPABILITY_PERFMON | CAPABILITY_SYS_ADMIN)) != 0 ||
         (doctor->has_paranoid && doctor->paranoid <= 0);
}

static bool may_count(const struct doctor *doctor) {
  return doctor_may_count(doctor, doctor->rights.capabilities);
}

/* Returns advice on how to make a counter work. Advises more rights only if the
 * counter exists. */
static const char *counter_advice(const struct doctor *doctor,
                                  enum source source) {
  bool exists = source == SOURCE_MPERF        ? doctor->has_mperf
                : source == SOURCE_REF_CYCLES ? doctor->core_pmu
                                              : false;
  if (source == SOURCE_IDLE)
    return "make /proc/stat readable";
  if (source == SOURCE_BPF)
    return "have root pin the idle clock (percore clock --pin), or give this "
           "process CAP_BPF and CAP_PERFMON: the clock sees softirqs that idle "
           "misses";
  if (exists && !may_count(doctor))
    return "give this process CAP_PERFMON (see rights below)";
  if (source == SOURCE_EVENT && doctor->arm64)
    return "this processor has no cnt_cycles, which auto would use; to use "
           "another event: percore load --source event --event EVENT "
           "--base-frequency HZ";
  if (source == SOURCE_EVENT)
    return "only needed for a counter that auto does not know: percore load "
           "--source event --event EVENT --base-frequency HZ";
  if (doctor->hypervisor && source == SOURCE_REF_CYCLES && !doctor->core_pmu)
    return "let the hypervisor give this machine a PMU (QEMU: -cpu "
           "host,pmu=on; cloud: a metal or PMU-enabled size)";
  if (doctor->hypervisor)
    return "nothing can be done inside this virtual machine";
  if (doctor->arm64)
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
  return source == SOURCE_IDLE
             ? "run percore doctor again when the machine is less busy"
             : "run percore doctor again when one core is neither busy nor "
               "isolated";
}

/* True if `auto` has chosen a source for every online core, but never this one.
 */
static bool is_spare(const struct doctor *doctor, enum source source) {
  int chosen = 0;
  for (int other = 0; other < SOURCES; other++)
    chosen += doctor->source[other].chosen;
  return doctor->source[source].chosen == 0 && chosen == doctor->cores_online;
}

static void check_source(struct doctor *doctor, enum source source) {
  const struct source_facts *facts = &doctor->source[source];
  bool is_fine = facts->proof == PROOF_PROVEN ||
                 (facts->proof != PROOF_TICK_SAMPLED &&
                  is_spare(doctor, source));
  if (facts->cores == 0)
    /* The source event is optional. The kernel may report missing rights for a
     * core PMU that does not exist. */
    doctor_say(doctor, "sources", source_name(source),
               source == SOURCE_EVENT ? VERDICT_NOTE : VERDICT_MISSING,
               counter_advice(doctor, source), "%s",
               source == SOURCE_REF_CYCLES && !doctor->core_pmu
                   ? "this machine has no core PMU"
               : facts->reason[0] != '\0' ? facts->reason
                                          : "works on no core");
  else
    doctor_say(doctor, "sources", source_name(source),
               is_fine ? VERDICT_OK : VERDICT_NOTE,
               is_fine ? NULL : proof_advice(source, facts->proof),
               "%s, works on %d of %d cores%s%s%s", proof_name(facts->proof),
               facts->cores, doctor->cores_online,
               facts->chosen > 0 ? ", in use" : "",
               facts->reason[0] != '\0' ? ": " : "", facts->reason);
}

void check_sources(struct doctor *doctor) {
  for (int source = 0; source < SOURCES; source++)
    check_source(doctor, source);
  if (doctor->clock_unseen[0] != '\0')
    doctor_say(doctor, "sources", "bpf misses", VERDICT_NOTE,
               "nothing to do: the time of such an interrupt counts as halted "
               "until its softirq begins",
               "interrupts without a tracepoint: %s", doctor->clock_unseen);
}

/* Opens an engine with one source or, with SOURCE_AUTO, with the sources that
 * `auto` chooses, and counts the cores. A named source is also tried on isolated
 * cores. Returns NULL after setting *status to -errno. */
static struct engine *try_source(struct doctor *doctor, enum source named,
                                 int *status) {
  struct engine_options options = {
      .machine = doctor->machine,
      .hardware = true,
      .source = named,
      .raise_limit = true,
      .isolated_cores =
          named == SOURCE_AUTO ? ISOLATED_CORES_IDLE : ISOLATED_CORES_HARDWARE,
  };
  struct engine *engine;
  size_t len;
  *status = engine_open(&engine, &options);
  if (*status != 0)
    return NULL;
  if (named == SOURCE_AUTO || engine_source_reason(engine, named)[0] == '\0')
    engine_prove(engine);
  engine_sample(engine, false);
  const struct core *cores = engine_cores(engine, &len);
  for (size_t i = 0; i < len; i++) {
    enum source source = cores[i].source;
    if (!cores[i].online || source < 0 ||
        (named != SOURCE_AUTO && named != source))
      continue;
    struct source_facts *facts = &doctor->source[source];
    facts->chosen += named == SOURCE_AUTO;
    /* event is never tried by name, which would need the name of an event. */
    facts->cores += named != SOURCE_AUTO || source == SOURCE_EVENT;
    facts->proof = cores[i].proof;
    doctor->isolated_on_idle +=
        named == SOURCE_AUTO && cores[i].isolated && source == SOURCE_IDLE;
  }
  if (named != SOURCE_AUTO)
    snprintf(doctor->source[named].reason, FACT_SIZE, "%s",
             engine_source_reason(engine, named));
  if (named == SOURCE_BPF)
    snprintf(doctor->clock_unseen, FACT_SIZE, "%s",
             engine_clock_unseen(engine));
  return engine;
}

/* Tries all sources. Returns an engine with those that `auto` chooses, or NULL
 * after setting *status to -errno. */
static struct engine *try_sources(struct doctor *doctor, int *status) {
  static const enum source named[] = {SOURCE_MPERF, SOURCE_REF_CYCLES,
                                      SOURCE_BPF, SOURCE_IDLE};
  snprintf(doctor->source[SOURCE_EVENT].reason, FACT_SIZE,
           "not tested: no event is named");
  for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
    struct engine *engine = try_source(doctor, named[i], status);
    if (engine == NULL)
      return NULL;
    engine_close(engine);
  }
  return try_source(doctor, SOURCE_AUTO, status);
}

/* ---------------------------------------------------------------------------
 * The machine
 */

#define MACHINE "machine"

static const char *or_none(const char *text) {
  return text[0] != '\0' ? text : "none";
}

/* Reads the first line of a file. Returns "" if it cannot be read. */
static char *read_line(const struct machine *machine, const char *path,
                       char text[FACT_SIZE]) {
  if (machine->read_file(machine->context, path, text, FACT_SIZE) < 0)
    text[0] = '\0';
  text[strcspn(text, "\n")] = '\0';
  return text;
}

void check_tick(struct doctor *doctor) {
  const struct source_facts *idle = &doctor->source[SOURCE_IDLE];
  bool known = idle->cores > 0, spare = is_spare(doctor, SOURCE_IDLE);
  if (known && idle->proof == PROOF_PROVEN)
    doctor_say(doctor, MACHINE, "tick", VERDICT_OK, NULL,
               "dynamic: idle time is measured, not sampled");
  else if (known && idle->proof == PROOF_TICK_SAMPLED)
    doctor_say(doctor, MACHINE, "tick", VERDICT_NOTE,
               proof_advice(SOURCE_IDLE, PROOF_TICK_SAMPLED),
               "idle time is sampled at the tick");
  else
    doctor_say(doctor, MACHINE, "tick", spare ? VERDICT_OK : VERDICT_NOTE,
               spare ? NULL : proof_advice(SOURCE_IDLE, PROOF_UNPROVEN),
               spare ? "not tested, because no load depends on it"
                     : "not tested: idle time may be measured or sampled");
}

/* Advises measuring isolated cores with a counter if a proven one exists.
 * Isolated cores run fast paths, and the source "idle" may miss softirqs on
 * them. */
void check_isolated(struct doctor *doctor, const struct core_set *isolated) {
  bool counter = false;
  char list[FACT_SIZE];
  for (int source = 0; source < SOURCES; source++)
    counter |= source_is_counter(source) && doctor->source[source].cores > 0 &&
               doctor->source[source].proof == PROOF_PROVEN;
  bool improvable = counter && doctor->isolated_on_idle > 0;
  core_set_format(isolated, list, sizeof(list));
  doctor_say(doctor, MACHINE, "isolated",
             improvable ? VERDICT_NOTE : VERDICT_OK,
             improvable
                 ? "isolated cores are measured by idle, which does not disturb "
                   "them but may miss softirqs; IsolatedCores \"hardware\" of "
                   "the plugin uses a counter and costs an interrupt per sample "
                   "and core (21 to 25 us if the core is halted)"
                 : NULL,
             "%s", or_none(list));
}

void check_proc_stat(struct doctor *doctor) {
  bool lxcfs = machine_has_lxcfs(doctor->machine);
  doctor_say(doctor, MACHINE, "/proc/stat", lxcfs ? VERDICT_MISSING : VERDICT_OK,
             lxcfs ? "run without LXCFS, or give collectd the host's /proc and "
                     "/sys and set SysRoot"
                   : NULL,
             lxcfs ? "provided by LXCFS, like the list of cores: its rows may "
                     "belong to other cores"
                   : "provided by the kernel");
}

/* At most a note, because measuring wake latency is off by default. */
static void check_wake(struct doctor *doctor) {
  char why[WAKE_WHY_SIZE] = "";
  struct wake_programs programs;
  bool works = wake_programs_load(&programs, true, why) == 0;
  wake_programs_free(&programs);
  const char *advice = strchr(why, ';'); /* "what failed: why; what to do" */
  if (!works)
    doctor_say(doctor, MACHINE, "wake latency", VERDICT_NOTE,
               advice != NULL ? advice + strspn(advice, "; ") : NULL, "%.*s",
               (int)strcspn(why, ";"), why);
  else if (wake_core_usage(0) < 0)
    doctor_say(doctor, MACHINE, "wake latency", VERDICT_NOTE,
               "load a cpuidle driver, or use percore wake alone, whose "
               "figures are then unchecked",
               "cpuidle has no driver: the plugin does not report it");
  else
    doctor_say(doctor, MACHINE, "wake latency", VERDICT_OK, NULL,
               "can be measured");
}

static void check_softirq(struct doctor *doctor, const struct engine *engine) {
  struct softirq_clock *clock = softirq_clock_open(engine);
  const char *trouble = "out of memory";
  if (clock != NULL) {
    softirq_clock_read(clock);
    trouble = softirq_clock_trouble(clock);
  }
  bool works = trouble[0] == '\0';
  if (engine_softirq_is_idle(engine))
    doctor_say(
        doctor, MACHINE, "softirq", VERDICT_NOTE,
        "use a hardware source, or a kernel with CONFIG_IRQ_TIME_ACCOUNTING",
        "this kernel counts softirq on an idle core as idle: the source idle "
        "misses it");
  doctor_say(doctor, MACHINE, "ReportSoftirq",
             works ? VERDICT_OK : VERDICT_NOTE,
             works ? NULL : "nothing to do unless the plugin is to report it",
             "%s", works ? "time in softirqs can be measured" : trouble);
  softirq_clock_close(clock);
}

static void note_pmu(const char *name, void *argument) {
  struct doctor *doctor = argument;
  text_append(doctor->pmus, FACT_SIZE, " ", name);
  doctor->core_pmu |= strcmp(name, "cpu") == 0 ||
                      strncmp(name, "cpu_", 4) == 0 ||
                      strncmp(name, "armv", 4) == 0 ||
                      strncmp(name, "apple_", 6) == 0;
}

static void check_machine(struct doctor *doctor, const struct engine *engine) {
  const struct topology *topology = engine_topology(engine);
  const struct machine *machine = doctor->machine;
  bool unknown = engine_steal_is_unknown(engine), steady = topology->tsc_steady;
  char online[FACT_SIZE], possible[FACT_SIZE], line[FACT_SIZE];
  core_set_format(&topology->online, online, sizeof(online));
  core_set_format(&topology->possible, possible, sizeof(possible));
  doctor_say(doctor, MACHINE, "cores", VERDICT_OK, NULL,
             "%d online: %s (possible: %s)", doctor->cores_online, online,
             possible);
  check_isolated(doctor, &topology->isolated);
  doctor_say(doctor, MACHINE, "nohz_full", VERDICT_OK, NULL, "%s",
             or_none(read_line(machine, "/sys/devices/system/cpu/nohz_full",
                               line)));
  doctor_say(doctor, MACHINE, "hypervisor", unknown ? VERDICT_NOTE : VERDICT_OK,
             unknown ? "nothing to do: a counter that disagrees with the "
                       "kernel's idle time is kept, with a warning"
                     : NULL,
             "%s%s", doctor->hypervisor ? "yes" : "no",
             unknown ? ": it has reported no stolen time so far" : "");
  check_softirq(doctor, engine);
  read_line(machine,
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            line);
  doctor_say(doctor, MACHINE, "TSC", steady ? VERDICT_OK : VERDICT_NOTE,
             steady ? NULL
                    : "nothing to do: counters are divided by time-enabled",
             "%s, clocksource %s", steady ? "steady" : "not steady",
             line[0] != '\0' ? line : "unknown");
  check_proc_stat(doctor);
  check_tick(doctor);
  doctor_say(doctor, MACHINE, "PMUs",
             doctor->core_pmu ? VERDICT_OK : VERDICT_NOTE,
             doctor->core_pmu     ? NULL
             : doctor->hypervisor ? "let the hypervisor give this machine a "
                                    "PMU, if cycles and IPC are wanted"
                                  : "load the driver of this processor's PMU",
             "%s%s", or_none(doctor->pmus),
             doctor->core_pmu ? "" : " (no core PMU)");
  check_wake(doctor);
}

void check_rights(struct doctor *doctor) {
  char level[32] = "absent";
  bool counts = may_count(doctor);
  bool useful = doctor->has_mperf || doctor->core_pmu;
  /* Level 3, which Debian's kernels add, restricts all events. */
  bool all = doctor->has_paranoid && doctor->paranoid >= 3;
  if (doctor->has_paranoid)
    snprintf(level, sizeof(level), "%ld", doctor->paranoid);
  doctor_say(doctor, "rights", "CAP_PERFMON",
             counts   ? VERDICT_OK
             : useful ? VERDICT_MISSING
                      : VERDICT_NOTE,
             counts   ? NULL
             : useful ? "run as root, or: setcap cap_perfmon+ep "
                        "$(command -v percore)"
                      : "nothing to do: this machine offers no counter that "
                        "would need it",
             "%s",
             doctor->rights.capabilities &
                     (CAPABILITY_PERFMON | CAPABILITY_SYS_ADMIN)
                 ? "yes"
                 : "no");
  doctor_say(doctor, "rights", "perf_event_paranoid",
             !doctor->has_paranoid ? VERDICT_MISSING
             : all                 ? VERDICT_NOTE
                                   : VERDICT_OK,
             !doctor->has_paranoid ? "use a kernel with CONFIG_PERF_EVENTS"
             : all ? "if counters fail in spite of CAP_PERFMON: sysctl -w "
                     "kernel.perf_event_paranoid=2"
                   : NULL,
             "%s", level);
}

/* ---------------------------------------------------------------------------
 * The command
 */

/* Reads what several checks need. */
static void look(struct doctor *doctor) {
  const struct machine *machine = doctor->machine;
  const struct group *group = getgrnam("percore");
  char line[FACT_SIZE], *end;
  doctor->group = group != NULL ? (long)group->gr_gid : -1;
  rights_read(&doctor->rights, doctor->proc, "self", doctor->group);
  doctor->arm64 = machine->system_counter_hz > 0;
  machine->list_directory(machine->context, "/sys/bus/event_source/devices",
                          note_pmu, doctor);
  doctor->has_mperf =
      read_line(machine, "/sys/bus/event_source/devices/msr/events/mperf",
                line)[0] != '\0';
  read_line(machine, "/proc/sys/kernel/perf_event_paranoid", line);
  doctor->paranoid = strtol(line, &end, 10);
  doctor->has_paranoid = end != line;
}

/* Runs all checks. Returns 0 or -errno. */
static int check_all(struct doctor *doctor) {
  int status;
  struct engine *engine = try_sources(doctor, &status);
  if (engine == NULL)
    return status;
  doctor->hypervisor = engine_topology(engine)->hypervisor;
  doctor->cores_online = core_set_count(&engine_topology(engine)->online);
  look(doctor);
  check_sources(doctor);
  check_machine(doctor, engine);
  engine_close(engine);
  check_rights(doctor);
  check_regions(doctor);
  check_collectd(doctor);
  return 0;
}

static int examine(struct doctor *doctor, bool as_json) {
  struct utsname name = {0};
  struct winsize size;
  char kernel[FACT_SIZE];
  bool wide = ioctl(1, TIOCGWINSZ, &size) == 0 && size.ws_col >= 60;
  uname(&name);
  snprintf(kernel, sizeof(kernel), "%s %s %s", name.sysname, name.release,
           name.machine);
  doctor->width = wide ? size.ws_col - 1 : 100;
  if (!as_json) {
    printf("%s on %s\n", PACKAGE_STRING, kernel);
    int status = check_all(doctor);
    if (status == 0)
      doctor_conclude(doctor);
    return status;
  }
  if ((doctor->json = json_begin(stdout, COMMAND)) == NULL)
    return -ENOMEM;
  json_text(doctor->json, "kernel", kernel);
  json_open_array(doctor->json, "findings");
  int status = check_all(doctor);
  json_close_array(doctor->json);
  json_bool(doctor->json, "works", doctor_has_source(doctor));
  json_integer(doctor->json, "cores_online", doctor->cores_online);
  int ended = json_end(doctor->json);
  return status != 0 ? status : ended;
}

static int doctor_main(int argc, char **argv) {
  struct doctor doctor = {
      .proc = "/proc", .out = stdout, .colour = colour_wanted()};
  bool json = false;
  int status = arguments_read(&doctor_command, argc, argv, &json);
  if (status >= 0)
    return status;
  struct machine *machine = machine_linux(NULL);
  if (machine == NULL)
    return say_failure(COMMAND, "%s", strerror(errno));
  doctor.machine = machine;
  status = examine(&doctor, json);
  machine_linux_close(machine);
  if (status != 0)
    return say_failure(COMMAND, "cannot find the cores of this machine: %s",
                       strerror(-status));
  return flush_output(COMMAND) == 0 && doctor_has_source(&doctor)
             ? TOOL_OK
             : TOOL_FAILURE;
}

const struct command doctor_command = {
    .name = COMMAND,
    .summary = "find out what can be measured here, and what to improve",
    .usage = "[OPTION]...",
    .about = "Reports what can be measured on this machine, which sources of "
             "loads are proven, whether regions can be read, and how collectd "
             "runs, with advice for everything that is missing. Takes a "
             "few seconds. Exits 0 if at least one source works.",
    .arguments = ARGUMENTS(argument_json),
    .run = doctor_main,
};
