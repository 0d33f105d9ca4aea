/* percore doctor: what can be measured here, and what would help. */
#include "doctor.h"
#include "arguments.h"
#include "cycles/core.h"
#include "text.h"
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define COMMAND "doctor"

/* Numbers of linux/capability.h that older headers lack. */
#define CAP_SYS_ADMIN_BIT 21
#define CAP_PERFMON_BIT 38

static const char help[] =
    "Usage: percore doctor [OPTION]...\n"
    "Says what can be measured on this machine, which sources of loads are "
    "proven,\nand what would help where something is missing. Takes a few "
    "seconds. Exits 0 if\nat least one source works.\n\n"
    "  -j, --json     one JSON document\n"
    "  -h, --help     print this help\n"
    "  -V, --version  print the version\n";

/* ---------------------------------------------------------------------------
 * Files
 */

static bool read_line(const struct machine *machine, const char *path,
                      char text[FACT_SIZE]) {
  char raw[4096];
  ssize_t length = machine->read_file(machine->context, path, raw, sizeof(raw));
  text[0] = '\0';
  if (length < 0)
    return false;
  text_clean(text, FACT_SIZE, raw, strcspn(raw, "\n"));
  return true;
}

static void read_cores(const struct machine *machine, const char *path,
                       char text[FACT_SIZE]) {
  struct core_set set;
  text[0] = '\0';
  if (machine_read_core_set(machine, path, &set) == 0)
    core_set_format(&set, text, FACT_SIZE);
}

static bool is_core_pmu(const char *name) {
  return strcmp(name, "cpu") == 0 || strncmp(name, "cpu_", 4) == 0 ||
         strncmp(name, "armv", 4) == 0 || strncmp(name, "apple_", 6) == 0;
}

static void note_pmu(const char *name, void *argument) {
  struct doctor_facts *facts = argument;
  size_t length = strlen(facts->pmus);
  char clean[FACT_SIZE];
  text_clean_string(clean, sizeof(clean), name);
  snprintf(facts->pmus + length, FACT_SIZE - length, "%s%s",
           length > 0 ? " " : "", clean);
  facts->core_pmu |= is_core_pmu(name);
}

/* "CapEff:\t000001ffffffffff" */
static bool has_capability(const struct machine *machine) {
  char status[8192];
  if (machine->read_file(machine->context, "/proc/self/status", status,
                         sizeof(status)) < 0)
    return false;
  const char *line = strstr(status, "\nCapEff:");
  if (line == NULL)
    return false;
  unsigned long long effective = strtoull(line + strlen("\nCapEff:"), NULL, 16);
  return (effective >> CAP_PERFMON_BIT & 1) != 0 ||
         (effective >> CAP_SYS_ADMIN_BIT & 1) != 0;
}

/* ---------------------------------------------------------------------------
 * Facts
 */

static void find_collectd(struct doctor_facts *facts) {
  static const char *const paths[] = {"/usr/sbin/collectd",
                                      "/usr/local/sbin/collectd",
                                      "/opt/collectd/sbin/collectd"};
  for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
    if (facts->collectd[0] == '\0' && access(paths[i], X_OK) == 0)
      snprintf(facts->collectd, FACT_SIZE, "%s", paths[i]);
  char plugin[FACT_SIZE + 16];
  struct stat kind;
  snprintf(facts->plugindir, FACT_SIZE, "%s", PLUGINDIR);
  snprintf(plugin, sizeof(plugin), "%s/percore.so", facts->plugindir);
  /* collectd refuses a symbolic link. */
  facts->plugin_installed = facts->plugindir[0] != '\0' &&
                            lstat(plugin, &kind) == 0 && S_ISREG(kind.st_mode);
}

static void find_machine(struct doctor_facts *facts,
                         const struct machine *machine) {
  struct utsname name;
  if (uname(&name) == 0)
    snprintf(facts->kernel, FACT_SIZE, "%s %s %s", name.sysname, name.release,
             name.machine);
  facts->arm64 = machine->system_counter_hz > 0;
  facts->lxcfs =
      machine->is_fuse(machine->context, "/proc/stat") &&
      machine->is_fuse(machine->context, "/sys/devices/system/cpu/online");
  read_cores(machine, "/sys/devices/system/cpu/nohz_full", facts->nohz_full);
  read_line(machine,
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            facts->clocksource);
  machine->list_directory(machine->context, "/sys/bus/event_source/devices",
                          note_pmu, facts);
  char level[FACT_SIZE], *end;
  if (read_line(machine, "/proc/sys/kernel/perf_event_paranoid", level)) {
    facts->paranoid = strtol(level, &end, 10);
    facts->has_paranoid = end != level;
  }
  facts->may_perf = has_capability(machine);
}

static void count_cores(struct doctor_facts *facts, const struct engine *engine,
                        enum source named) {
  size_t len;
  const struct core *cores = engine_cores(engine, &len);
  for (size_t i = 0; i < len; i++) {
    if (!cores[i].online || cores[i].source < 0)
      continue;
    struct source_facts *fact = &facts->source[cores[i].source];
    if (named == SOURCE_AUTO) {
      fact->chosen++;
      /* Without a name it cannot be tried by itself. */
      fact->cores += cores[i].source == SOURCE_EVENT;
      facts->isolated_on_idle +=
          cores[i].isolated && cores[i].source == SOURCE_IDLE;
    } else if (cores[i].source == named) {
      fact->cores++;
    }
    fact->proof = cores[i].proof;
  }
}

/* What `auto` chooses, or whether a source works if it is named. */
static int try_source(struct doctor_facts *facts, const struct machine *machine,
                      enum source source) {
  struct engine_options options = {
      .machine = machine,
      .hardware = true,
      .source = source,
      .raise_limit = true,
      /* As an answer to "could it?": one reading of each core. */
      .isolated_cores =
          source == SOURCE_AUTO ? ISOLATED_CORES_IDLE : ISOLATED_CORES_HARDWARE,
  };
  struct engine *engine;
  int status = engine_open(&engine, &options);
  if (status != 0)
    return status;
  if (source == SOURCE_AUTO || engine_source_reason(engine, source)[0] == '\0')
    engine_prove(engine);
  engine_sample(engine, false);
  count_cores(facts, engine, source);
  if (source == SOURCE_AUTO) {
    const struct topology *topology = engine_topology(engine);
    facts->hypervisor = topology->hypervisor;
    facts->tsc_steady = topology->tsc_steady;
    facts->steal_unknown = engine_steal_is_unknown(engine);
    facts->softirq_is_idle = engine_softirq_is_idle(engine);
    facts->cores_online = core_set_count(&topology->online);
    core_set_format(&topology->online, facts->online, FACT_SIZE);
    core_set_format(&topology->possible, facts->possible, FACT_SIZE);
    core_set_format(&topology->isolated, facts->isolated, FACT_SIZE);
  } else {
    const char *reason = engine_source_reason(engine, source);
    text_clean_string(facts->source[source].reason, FACT_SIZE, reason);
  }
  engine_close(engine);
  return 0;
}

static int collect(struct doctor_facts *facts, const struct machine *machine) {
  static const enum source sources[] = {SOURCE_AUTO, SOURCE_MPERF,
                                        SOURCE_REF_CYCLES, SOURCE_IDLE};
  *facts = (struct doctor_facts){0};
  find_machine(facts, machine);
  find_collectd(facts);
  snprintf(facts->source[SOURCE_EVENT].reason, FACT_SIZE,
           "no event is named, so none was tested");
  for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
    int status = try_source(facts, machine, sources[i]);
    if (status != 0)
      return status;
  }
  return 0;
}

/* ---------------------------------------------------------------------------
 * The command
 */

static int line_width(void) {
  struct winsize size;
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 60
             ? size.ws_col - 1
             : 100;
}

static int examine(bool json) {
  struct machine *machine = machine_linux(NULL);
  if (machine == NULL)
    return say_failure(COMMAND, "%s", strerror(errno));
  struct doctor_facts facts;
  int status = collect(&facts, machine);
  machine_linux_close(machine);
  if (status != 0)
    return say_failure(COMMAND, "cannot find the cores of this machine: %s",
                       strerror(-status));
  struct findings findings;
  findings_make(&findings, &facts);
  status = json ? findings_json_write(stdout, &findings, &facts)
                : findings_text_write(stdout, &findings, &facts, line_width());
  if (status != 0)
    return say_failure(COMMAND, "%s", strerror(-status));
  if (flush_output(COMMAND) != 0 || !facts_have_source(&facts))
    return TOOL_FAILURE;
  return TOOL_OK;
}

int doctor_main(int argc, char **argv) {
  bool json;
  int status = arguments_json(COMMAND, help, argc, argv, &json);
  return status < 0 ? examine(json) : status;
}
