/* percore doctor: reports what can be measured on this machine, and what to
 * improve. */
#include "percore_config.h"

#include "base/clock.h"
#include "cycles/core.h"
#include "cycles/cpuidle.h"
#include "doctor.h"
#include "latency_limit.h"
#include "poller/poller.h"
#include "target.h"
#include "text.h"
#include "tool.h"

#include <errno.h>
#include <grp.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define COMMAND "doctor"
#define INDENT 31 /* column where values begin */

/* ---------------------------------------------------------------------------
 * Findings
 */

void doctor_say(struct doctor *doctor, const char *group, const char *name,
                enum verdict verdict, const char *advice, const char *format,
                ...) {
  verdict = advice != NULL ? verdict : VERDICT_OK;
  static const char *const names[] = {"ok", "note", "missing"};
  static const enum paint paints[] = {PAINT_GOOD, PAINT_WARN, PAINT_BAD};
  char value[4 * FACT_SIZE], clean[sizeof(value) * TEXT_GROWTH];
  va_list arguments;
  doctor->missing += verdict == VERDICT_MISSING;
  if (doctor->first_only && (verdict != VERDICT_MISSING || doctor->missing > 1))
    return;
  va_start(arguments, format);
  vsnprintf(value, sizeof(value), format, arguments);
  va_end(arguments);
  if (doctor->one_line) {
    fprintf(doctor->out, "percore doctor: %s, %s: %s\n", group, name,
            text_clean_string(clean, sizeof(clean), value));
    return;
  }
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
    fprintf(doctor->out, "%s%s\n", doctor->first_only ? "" : "\n", group);
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

/* Returns advice on how to make a source work. Advises more rights only if the
 * counter exists. */
static const char *source_advice(const struct doctor *doctor,
                                 enum source_kind source) {
  bool exists = source == SOURCE_MPERF ? doctor->has_mperf : doctor->core_pmu;
  if (source == SOURCE_IDLE)
    return "let percore read the /proc/stat of the kernel itself";
  if (source == SOURCE_BPF &&
      strstr(doctor->source[source].reason, "built without") != NULL)
    return "install a percore that was built with clang and bpftool";
  if (source == SOURCE_BPF && doctor->rights.uid != 0)
    return "have root pin the idle clock (percore clock --pin), or give this "
           "process CAP_BPF and CAP_PERFMON: the clock sees softirqs that idle "
           "misses";
  if (source == SOURCE_BPF)
    return "if this is a container, allow bpf and perf_event_open in its "
           "seccomp profile";
  if (exists && !doctor_may_count(doctor, doctor->rights.capabilities))
    return "run as root, or: setcap cap_perfmon+ep $(command -v percore)";
  if (exists && !doctor->arm64)
    return "if this is a container, allow perf_event_open in its seccomp "
           "profile";
  if (doctor->hypervisor && source == SOURCE_REF_CYCLES)
    return "let the hypervisor give this machine a PMU (QEMU: -cpu "
           "host,pmu=on; cloud: a metal or PMU-enabled size)";
  if (doctor->hypervisor)
    return "nothing can be done inside this virtual machine";
  if (doctor->arm64)
    return "arm64 has no such counter; event works if the processor has "
           "cnt_cycles (Neoverse V1 and later), otherwise idle";
  return "this processor or kernel has no such counter; use another source";
}

static const char *proof_advice(enum source_kind source, enum proof proof) {
  if (proof == PROOF_TICK_SAMPLED)
    return "boot a kernel with a dynamic tick (CONFIG_NO_HZ_IDLE) and without "
           "nohz=off, or use a hardware source: work between two ticks is not "
           "seen";
  return source == SOURCE_IDLE
             ? "run percore doctor again when the machine is less busy"
             : "run percore doctor again when one core is neither busy nor "
               "isolated";
}

static void check_source(struct doctor *doctor, enum source_kind source) {
  const struct source_facts *facts = &doctor->source[source];
  bool is_fine = facts->proof == PROOF_PROVEN ||
                 (facts->chosen == 0 && facts->proof != PROOF_TICK_SAMPLED);
  /* A reason may be that of an earlier proof, on another core. */
  bool shows_why =
      facts->reason[0] != '\0' &&
      (facts->proof != PROOF_PROVEN || facts->cores < doctor->cores_online);
  /* The kernel may report missing rights for a core PMU that does not exist. */
  if (facts->cores == 0)
    doctor_say(doctor, "sources", source_name(source),
               doctor_has_source(doctor) ? VERDICT_NOTE : VERDICT_MISSING,
               source_advice(doctor, source), "%s",
               source == SOURCE_REF_CYCLES && !doctor->core_pmu
                   ? "this machine has no core PMU"
               : facts->reason[0] != '\0' ? facts->reason
                                          : "works on no core");
  else
    doctor_say(doctor, "sources", source_name(source), VERDICT_NOTE,
               is_fine ? NULL : proof_advice(source, facts->proof),
               "%s, works on %d of %d cores%s%s%s", proof_name(facts->proof),
               facts->cores, doctor->cores_online,
               facts->chosen > 0 ? ", in use" : "", shows_why ? ": " : "",
               shows_why ? facts->reason : "");
}

void check_sources(struct doctor *doctor) {
  for (int source = 0; source < SOURCES; source++)
    if (source != SOURCE_EVENT || doctor->source[source].cores > 0)
      check_source(doctor, source);
}

/* Opens an engine with one source or, with SOURCE_AUTO, with the sources that
 * `auto` chooses, and counts the cores. A named source is also tried on
 * isolated cores. Returns NULL after setting *status to -errno. */
static struct engine *try_source(struct doctor *doctor, enum source_kind named,
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
    enum source_kind source = cores[i].source;
    if (!cores[i].online || source < 0 ||
        (named != SOURCE_AUTO && named != source))
      continue;
    struct source_facts *facts = &doctor->source[source];
    facts->chosen += named == SOURCE_AUTO;
    /* event is never tried by name, which would need the name of an event. */
    facts->cores += named != SOURCE_AUTO || source == SOURCE_EVENT;
    facts->proof = cores[i].proof;
  }
  if (named != SOURCE_AUTO)
    snprintf(doctor->source[named].reason, FACT_SIZE, "%s",
             engine_source_reason(engine, named));
  return engine;
}

/* Tries all sources. Returns an engine with those that `auto` chooses, or NULL
 * after setting *status to -errno. */
static struct engine *try_sources(struct doctor *doctor, int *status) {
  static const enum source_kind named[] = {SOURCE_MPERF, SOURCE_REF_CYCLES,
                                           SOURCE_BPF, SOURCE_IDLE};
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
#define POLLED_MIN 0.05 /* share of idle time */

/* Reads the first line of a file. Returns "" if it cannot be read. */
static char *read_line(const struct machine *machine, const char *path,
                       char text[FACT_SIZE]) {
  if (machine->read_file(machine->context, path, text, FACT_SIZE) < 0)
    text[0] = '\0';
  text[strcspn(text, "\n")] = '\0';
  return text;
}

void check_proc_stat(struct doctor *doctor) {
  if (doctor->machine->is_fuse(doctor->machine->context, "/proc/stat"))
    doctor_say(doctor, MACHINE, "/proc/stat", VERDICT_MISSING,
               "run without LXCFS, or give collectd the host's /proc and /sys "
               "and set SysRoot",
               "provided by LXCFS, like the list of cores: its rows may belong "
               "to other cores");
}

/* Reports a core whose idle loop has polled for a part of its idle time that
 * shows in its load. */
void check_polling(struct doctor *doctor, int core) {
  struct cpuidle cpuidle;
  bool never_halts = cpuidle_never_halts(doctor->machine);
  uint64_t polled_ns = 0;
  if (cpuidle_read(&cpuidle, doctor->machine, core) > 0 &&
      cpuidle.state[0].poll)
    polled_ns = cpuidle.state[0].time_ns;
  double whole_ns = (double)(polled_ns + cpuidle_halted_ns(&cpuidle));
  if (never_halts || (double)polled_ns > POLLED_MIN * whole_ns)
    doctor_say(doctor, MACHINE, "idle loop", VERDICT_NOTE,
               never_halts ? "boot without idle=poll (nohlt) to measure loads"
                           : "see who holds /dev/cpu_dma_latency open, and the "
                             "options of cpuidle_haltpoll",
               "core %d polled for %.0f %% of its idle time since boot: it was "
               "not halted, so this time is load",
               core, never_halts ? 100 : 100 * (double)polled_ns / whole_ns);
}

static void check_latency_limit(struct doctor *doctor, int core) {
  struct latency_limit limit;
  latency_limit_read(&limit, "", core);
  if (limit.us < INFINITY)
    doctor_say(
        doctor, MACHINE, "idle states", VERDICT_NOTE,
        "percore wake says what each idle state costs",
        "core %d does not use those with an exit latency above %g us: %s", core,
        limit.us, limit.text);
}

static void note_pmu(const char *name, void *argument) {
  struct doctor *doctor = argument;
  doctor->core_pmu |=
      strcmp(name, "cpu") == 0 || strncmp(name, "cpu_", 4) == 0 ||
      strncmp(name, "armv", 4) == 0 || strncmp(name, "apple_", 6) == 0;
}

static void check_machine(struct doctor *doctor, const struct engine *engine) {
  const struct topology *topology = engine_topology(engine);
  if (engine_softirq_is_idle(engine))
    doctor_say(doctor, MACHINE, "softirq", VERDICT_NOTE,
               "use a hardware source, or a kernel with "
               "CONFIG_IRQ_TIME_ACCOUNTING",
               "this kernel counts softirq on an idle core as idle: the source "
               "idle misses it");
  check_proc_stat(doctor);
  check_polling(doctor, core_set_next(&topology->online, -1));
  check_latency_limit(doctor, core_set_next(&topology->online, -1));
}

/* ---------------------------------------------------------------------------
 * Regions
 */

#define REGIONS "regions"

static void check_directory(struct doctor *doctor, int error) {
  const char *path = region_runtime_dir();
  char advice[2 * FACT_SIZE];
  struct stat status;
  if (error == 0)
    error = stat(path, &status) == 0 ? 0 : errno;
  if (error != 0) {
    doctor_say(doctor, REGIONS, "directory", VERDICT_MISSING,
               listing_advice(error), "%s: %s", path, strerror(error));
    return;
  }
  const struct group *group = getgrgid(status.st_gid);
  bool is_shared =
      doctor->group == (long)status.st_gid &&
      (status.st_mode & (S_ISGID | S_IRWXG)) == (S_ISGID | S_IRWXG);
  bool is_private = (status.st_mode & S_IROTH) == 0;
  snprintf(advice, sizeof(advice),
           is_shared ? "chmod 3770 '%s': a user outside the group who lists it "
                       "can block every producer and collectd"
                     : "groupadd -f percore && chgrp percore '%s' && chmod "
                       "3770 '%s', then start the producers again",
           path, path);
  doctor_say(
      doctor, REGIONS, "directory", is_shared ? VERDICT_NOTE : VERDICT_MISSING,
      is_shared && is_private ? NULL : advice, "%s, mode %o, group %s", path,
      status.st_mode & 07777, group != NULL ? group->gr_name : "(unknown)");
}

/* A file of another user keeps nobody from reporting. */
static void check_unreadable(struct doctor *doctor,
                             const struct listed *listed) {
  char why[LISTED_WHY_SIZE];
  int error = listed_reason(why, listed);
  bool is_harmless = error == EACCES || error == EPERM;
  const char *advice = target_advice(error);
  if (advice[0] == '\0')
    advice = "percore regions NAME says what is wrong with it";
  doctor_say(doctor, REGIONS, "socket",
             is_harmless ? VERDICT_NOTE : VERDICT_MISSING, advice, "%s: %s",
             listed->name, why[0] != '\0' ? why : "no answer");
}

void check_regions(struct doctor *doctor) {
  struct listing listing;
  int error = -listing_connect(&listing, NULL), alive = 0;
  check_directory(doctor, error);
  for (size_t i = 0; error == 0 && i < listing.len; i++)
    alive += strcmp(listed_state(&listing.listed[i]), "alive") == 0;
  if (error == 0)
    doctor_say(doctor, REGIONS, "sockets", VERDICT_OK, NULL,
               "%zu; %d can be read", listing.len, alive);
  for (size_t i = 0; error == 0 && i < listing.len; i++)
    if (strcmp(listed_state(&listing.listed[i]), "refused") == 0)
      check_unreadable(doctor, &listing.listed[i]);
  listing_free(&listing);
}

/* ---------------------------------------------------------------------------
 * Pollers
 */

/* The line is "NAME, pid N: what is read", and then perhaps "; advice". */
static void say_poller(void *context, enum journal_level level,
                       const char *line) {
  (void)level;
  const char *end = strstr(line, ", pid "), *advice = strstr(line, "; ");
  char name[FACT_SIZE];
  if (end == NULL)
    return; /* it is not about a program */
  snprintf(name, sizeof(name), "%.*s", (int)(end - line), line);
  doctor_say(context, "pollers", name, VERDICT_NOTE,
             advice != NULL ? advice + 2 : NULL, "%.*s",
             (int)strcspn(end, ";") - 2, end + 2);
}

void check_pollers(struct doctor *doctor) {
  const struct pollers_options options = {
      .wanted = {[POLLER_DPDK] = true, [POLLER_OVS] = true},
      .interval_ns = NS_PER_S,
      .journal = {.write = say_poller, .context = doctor}};
  struct pollers *pollers;
  if (pollers_start(&pollers, &options) == 0)
    pollers_close(pollers); /* after a round */
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
  check_collectd(doctor);
  check_regions(doctor);
  check_pollers(doctor);
  return 0;
}

struct doctor_options {
  bool check, json;
};

static const struct argument arguments[] = {
    ARGUMENT(struct doctor_options, check, 'c', "check", ARGUMENT_FLAG, NULL,
             "print only the first thing to do; exit 1 if there is one"),
    ARGUMENT_JSON(struct doctor_options),
};

static int examine_text(struct doctor *doctor, const char *kernel) {
  if (!doctor->first_only)
    printf("%s on %s\n", PACKAGE_STRING, kernel);
  int status = check_all(doctor);
  if (status == 0 && !doctor->first_only)
    doctor_conclude(doctor);
  else if (status == 0 && doctor->missing == 0)
    puts("Nothing is missing: this host reports.");
  return status;
}

static int examine_json(struct doctor *doctor, const char *kernel) {
  doctor->first_only = false;
  doctor->json = json_begin(stdout, COMMAND);
  json_text(doctor->json, "kernel", kernel);
  json_open_array(doctor->json, "findings");
  int status = check_all(doctor);
  json_close_array(doctor->json);
  json_bool(doctor->json, "works", doctor_has_source(doctor));
  json_bool(doctor->json, "reports", doctor->missing == 0);
  json_integer(doctor->json, "cores_online", doctor->cores_online);
  json_end(doctor->json);
  return status;
}

char *doctor_line(const struct machine *machine) {
  char *line = NULL;
  size_t size;
  struct doctor doctor = {.proc = "/proc",
                          .machine = machine,
                          .out = open_memstream(&line, &size),
                          .first_only = true,
                          .one_line = true};
  if (doctor.out == NULL)
    return NULL;
  look(&doctor);
  check_proc_stat(&doctor);
  check_collectd(&doctor);
  check_regions(&doctor);
  fclose(doctor.out);
  return line;
}

static int doctor_main(int argc, char **argv) {
  struct screen screen = terminal_screen();
  struct doctor doctor = {.proc = "/proc",
                          .out = stdout,
                          .width = screen.width >= 60 ? screen.width : 100,
                          .colour = screen.colour};
  struct doctor_options options = {.check = false};
  struct utsname name = {0};
  char kernel[FACT_SIZE];
  int status = arguments_read(&doctor_command, argc, argv, &options);
  if (status >= 0)
    return status;
  struct machine *machine = machine_linux(NULL);
  if (machine == NULL)
    return say_failure(COMMAND, "%s", strerror(errno));
  uname(&name);
  snprintf(kernel, sizeof(kernel), "%s %s %s", name.sysname, name.release,
           name.machine);
  doctor.machine = machine;
  doctor.first_only = options.check;
  status = options.json ? examine_json(&doctor, kernel)
                        : examine_text(&doctor, kernel);
  machine_linux_close(machine);
  if (status != 0)
    return say_failure(COMMAND, "cannot find the cores of this machine: %s",
                       strerror(-status));
  bool is_well =
      options.check ? doctor.missing == 0 : doctor_has_source(&doctor);
  return end_output(COMMAND) == TOOL_OK && is_well ? TOOL_OK : TOOL_FAILURE;
}

const struct command doctor_command = {
    .name = COMMAND,
    .summary = "find out what can be measured here, and what to improve",
    .usage = "[OPTION]...",
    .about = "Reports what can be measured on this machine, which sources of "
             "loads are proven, whether regions can be read, and how collectd "
             "runs, with advice for everything that is missing. Takes a "
             "few seconds. Exits 0 if at least one source works; with --check, "
             "only if nothing is missing, so that collectd reports.",
    .arguments = ARGUMENTS(arguments),
    .run = doctor_main,
};
