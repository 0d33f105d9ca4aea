/* percore doctor: reports what can be measured on this machine, and what to
 * improve. */
#include "doctor.h"
#include "cycles/core.h"
#include "cycles/engine.h"
#include "cycles/softirq_clock.h"
#include "listing.h"
#include "text.h"
#include "tool.h"
#include "wake/core.h"
#include "wake/programs.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define COMMAND "doctor"

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
  plugin_find(&facts->plugin, PLUGINDIR);
  facts->running_len =
      collectd_find(facts->running, "/proc", facts->regions.group);
}

static void find_machine(struct doctor_facts *facts,
                         const struct machine *machine) {
  struct utsname name;
  if (uname(&name) == 0)
    snprintf(facts->kernel, FACT_SIZE, "%s %s %s", name.sysname, name.release,
             name.machine);
  facts->arm64 = machine->system_counter_hz > 0;
  facts->lxcfs = machine_has_lxcfs(machine);
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
  char event[FACT_SIZE];
  facts->has_mperf = read_line(
      machine, "/sys/bus/event_source/devices/msr/events/mperf", event);
}

static void find_wake(struct doctor_facts *facts) {
  char why[WAKE_WHY_SIZE];
  struct wake_programs programs;
  if (wake_programs_load(&programs, why) != 0)
    text_clean_string(facts->wake_reason, FACT_SIZE, why);
  wake_programs_free(&programs);
  facts->has_cpuidle = wake_core_usage(0) >= 0;
}

/* ---------------------------------------------------------------------------
 * Regions
 */

static void describe_mode(char text[FACT_SIZE], const char *path) {
  struct stat status;
  if (stat(path, &status) != 0)
    return;
  const struct passwd *user = getpwuid(status.st_uid);
  const struct group *group = getgrgid(status.st_gid);
  snprintf(text, FACT_SIZE, "mode %o, owner %s, group %s",
           status.st_mode & 07777, user != NULL ? user->pw_name : "(unknown)",
           group != NULL ? group->gr_name : "(unknown)");
}

static void find_sockets(struct regions_facts *facts,
                         const struct listing *listing) {
  enum { MAX = sizeof(facts->unreadable) / sizeof(facts->unreadable[0]) };
  facts->sockets = (int)listing->names.len;
  for (size_t i = 0; i < listing->names.len; i++) {
    const struct listed *listed = &listing->listed[i];
    if (strcmp(listed_state(listed), "alive") == 0) {
      facts->alive++;
    } else if (facts->unreadable_len < MAX) {
      char why[LISTED_WHY_SIZE];
      int n = facts->unreadable_len++;
      facts->unreadable[n].error = listed_reason(why, listed);
      text_clean_string(facts->unreadable[n].name, FACT_SIZE, listed->name);
      text_clean_string(facts->unreadable[n].why, FACT_SIZE, why);
    }
  }
}

/* Records the user of this process, whether the process is in the group
 * percore, and whether it has CAP_PERFMON or CAP_SYS_ADMIN. */
static void find_rights(struct doctor_facts *facts) {
  struct regions_facts *regions = &facts->regions;
  struct collectd_facts self = {0};
  const struct group *group = getgrnam("percore");
  const struct passwd *user = getpwuid(geteuid());
  regions->group = group != NULL ? (long)group->gr_gid : -1;
  snprintf(regions->user, FACT_SIZE, "%s",
           user != NULL ? user->pw_name : "(unknown)");
  collectd_read_status(&self, "/proc", "self", regions->group);
  regions->root = geteuid() == 0;
  regions->member = self.in_group;
  facts->may_perf =
      (self.capabilities & (CAPABILITY_PERFMON | CAPABILITY_SYS_ADMIN)) != 0;
}

static void find_regions(struct regions_facts *facts) {
  struct listing listing;
  text_clean_string(facts->directory, FACT_SIZE, region_runtime_dir());
  describe_mode(facts->mode, region_runtime_dir());
  facts->error = -listing_read(&listing);
  if (facts->error == 0)
    find_sockets(facts, &listing);
  listing_free(&listing);
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
      /* SOURCE_EVENT is never tried separately, because that would require the
       * name of an event. So count the cores for which `auto` chose this
       * source. */
      fact->cores += cores[i].source == SOURCE_EVENT;
      facts->isolated_on_idle +=
          cores[i].isolated && cores[i].source == SOURCE_IDLE;
    } else if (cores[i].source == named) {
      fact->cores++;
    }
    fact->proof = cores[i].proof;
  }
}

static void find_softirq(struct doctor_facts *facts,
                         const struct engine *engine) {
  struct softirq_clock *clock = softirq_clock_open(engine);
  if (clock == NULL)
    return;
  softirq_clock_read(clock);
  snprintf(facts->softirq_trouble, FACT_SIZE, "%s",
           softirq_clock_trouble(clock));
  softirq_clock_close(clock);
}

/* Tries one source or, with SOURCE_AUTO, the sources that `auto` chooses, and
 * records the facts. Returns 0 or -errno. */
static int try_source(struct doctor_facts *facts, const struct machine *machine,
                      enum source source) {
  struct engine_options options = {
      .machine = machine,
      .hardware = true,
      .source = source,
      .raise_limit = true,
      /* A named source is also tried on isolated cores. */
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
    find_softirq(facts, engine);
    core_set_format(&topology->online, facts->online, FACT_SIZE);
    core_set_format(&topology->possible, facts->possible, FACT_SIZE);
    core_set_format(&topology->isolated, facts->isolated, FACT_SIZE);
  } else {
    const char *reason = engine_source_reason(engine, source);
    text_clean_string(facts->source[source].reason, FACT_SIZE, reason);
    if (source == SOURCE_BPF)
      snprintf(facts->clock_unseen, FACT_SIZE, "%s",
               engine_clock_unseen(engine));
  }
  engine_close(engine);
  return 0;
}

static int collect(struct doctor_facts *facts, const struct machine *machine) {
  static const enum source sources[] = {
      SOURCE_AUTO, SOURCE_MPERF, SOURCE_REF_CYCLES, SOURCE_BPF, SOURCE_IDLE};
  *facts = (struct doctor_facts){0};
  find_rights(facts);
  find_machine(facts, machine);
  find_wake(facts);
  find_regions(&facts->regions);
  find_collectd(facts);
  snprintf(facts->source[SOURCE_EVENT].reason, FACT_SIZE,
           "not tested: no event is named");
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
                : findings_text_write(stdout, &findings, &facts, line_width(),
                                      colour_wanted());
  if (status != 0)
    return say_failure(COMMAND, "%s", strerror(-status));
  if (flush_output(COMMAND) != 0 || !facts_have_source(&facts))
    return TOOL_FAILURE;
  return TOOL_OK;
}

static int doctor_main(int argc, char **argv) {
  bool json = false;
  int status = arguments_read(&doctor_command, argc, argv, &json);
  return status < 0 ? examine(json) : status;
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
