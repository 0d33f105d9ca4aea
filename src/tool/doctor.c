/* percore doctor: reports what can be measured on this machine, and what to
 * improve. */
#include "percore_config.h"

#include "base/clock.h"
#include "base/descriptors.h"
#include "cycles/core.h"
#include "cycles/cpuidle.h"
#include "doctor.h"
#include "poller/poller.h"
#include "target.h"
#include "text.h"
#include "tool.h"

#include <errno.h>
#include <grp.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
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
  char value[4 * FACT_SIZE];
  va_list arguments;
  doctor->missing += verdict == VERDICT_MISSING;
  if (doctor->first_only && (verdict != VERDICT_MISSING || doctor->missing > 1))
    return;
  va_start(arguments, format);
  vsnprintf(value, sizeof(value), format, arguments);
  va_end(arguments);
  if (doctor->one_line) {
    fprintf(doctor->out, "percore doctor: %s, %s: ", group, name);
    text_wrap(doctor->out, value, 0, 0);
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
  text_wrap(doctor->out, value, INDENT, doctor->width);
  if (advice == NULL)
    return;
  fprintf(doctor->out, "%*s", INDENT, "-> ");
  text_wrap(doctor->out, advice, INDENT, doctor->width);
}

bool doctor_has_source(const struct doctor *doctor) {
  for (int source = 0; source < SOURCES; source++)
    if (doctor->source[source].is_available)
      return true;
  return false;
}

/* ---------------------------------------------------------------------------
 * Sources
 */

static bool any_is_chosen(const struct doctor *doctor) {
  for (int source = 0; source < SOURCES; source++)
    if (doctor->source[source].chosen > 0)
      return true;
  return false;
}

/* A reason says what to do. */
static void check_source(struct doctor *doctor, enum source_kind source) {
  const struct source_facts *facts = &doctor->source[source];
  const char *reason = facts->reason[0] != '\0' ? facts->reason
                       : !facts->is_available   ? "it works on no core"
                       : facts->chosen > 0
                           ? "run percore doctor again when the machine is "
                             "less busy"
                           : "no source is used by default: choose one with "
                             "--source (plugin: Source)";
  bool is_fine =
      facts->is_available && (facts->chosen > 0 ? facts->proof == PROOF_PROVEN
                                                : any_is_chosen(doctor));
  char use[64] = "";
  if (facts->chosen > 0)
    snprintf(use, sizeof(use), ", in use on %d of %d cores", facts->chosen,
             doctor->cores_online);
  else if (facts->is_available)
    strcpy(use, ", not needed");
  doctor_say(doctor, "sources", source_name(source),
             doctor_has_source(doctor) ? VERDICT_NOTE : VERDICT_MISSING,
             is_fine ? NULL : reason, "%s%s",
             facts->is_available ? proof_name(facts->proof) : "unavailable",
             use);
}

void check_sources(struct doctor *doctor) {
  for (int source = 0; source < SOURCES; source++)
    if (source != SOURCE_EVENT || doctor->source[source].is_available)
      check_source(doctor, source);
}

/* Opens an engine, which tries all sources. Returns NULL after setting *status
 * to -errno. */
static struct engine *try_sources(struct doctor *doctor, int *status) {
  struct engine_options options = {.machine = doctor->machine,
                                   .hardware = true,
                                   .source = SOURCE_AUTO,
                                   .isolated_cores = ISOLATED_CORES_IDLE};
  struct engine *engine;
  size_t len;
  descriptors_raise_limit();
  *status = engine_open(&engine, &options);
  if (*status != 0)
    return NULL;
  engine_prove(engine);
  engine_sample(engine, false);
  const struct core *cores = engine_cores(engine, &len);
  for (size_t i = 0; i < len; i++)
    if (cores[i].online && cores[i].source >= 0)
      doctor->source[cores[i].source].chosen++;
  for (int kind = 0; kind < SOURCES; kind++) {
    struct source_facts *facts = &doctor->source[kind];
    facts->is_available = engine_source_proof(engine, kind, &facts->proof);
    snprintf(facts->reason, FACT_SIZE, "%s",
             engine_source_reason(engine, kind));
  }
  return engine;
}

/* ---------------------------------------------------------------------------
 * The machine
 */

#define MACHINE "machine"
#define POLLED_MIN 0.05 /* share of idle time */

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
    doctor_say(doctor, REGIONS, "directory",
               error == EACCES ? VERDICT_NOTE : VERDICT_MISSING,
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

/* A file system of 0 blocks or files has no limit. */
static void check_space(struct doctor *doctor) {
  struct statfs space;
  if (statfs(region_runtime_dir(), &space) != 0)
    return;
  if (space.f_type != TMPFS_MAGIC)
    doctor_say(doctor, REGIONS, "file system", VERDICT_NOTE,
               "mount a tmpfs there, as run-percore.mount does: writing pages "
               "to a disk delays those who count",
               "no tmpfs");
  if (10 * space.f_bavail < space.f_blocks ||
      10 * space.f_ffree < space.f_files)
    doctor_say(
        doctor, REGIONS, "space", VERDICT_NOTE,
        "'percore regions --clean' removes the files of producers that "
        "are gone",
        "nearly full: %llu of %llu pages and %llu of %llu files are free",
        (unsigned long long)space.f_bavail, (unsigned long long)space.f_blocks,
        (unsigned long long)space.f_ffree, (unsigned long long)space.f_files);
}

/* A file of another user keeps nobody from reporting. */
static void check_unreadable(struct doctor *doctor,
                             const struct listed *listed) {
  char why[LISTED_WHY_SIZE];
  int error = listed_why(why, listed);
  bool is_harmless = error == EACCES || error == EPERM;
  doctor_say(doctor, REGIONS, "file",
             is_harmless ? VERDICT_NOTE : VERDICT_MISSING,
             "percore regions NAME says what is wrong with it", "%s: %s",
             listed->name, why[0] != '\0' ? why : "no answer");
}

void check_regions(struct doctor *doctor) {
  struct listing listing;
  int error = -listing_connect(&listing, NULL), alive = 0;
  check_directory(doctor, error);
  check_space(doctor);
  for (size_t i = 0; error == 0 && i < listing.len; i++)
    alive += strcmp(listed_state(&listing.listed[i]), "alive") == 0;
  if (error == 0)
    doctor_say(doctor, REGIONS, "files", VERDICT_OK, NULL,
               "%zu; %d can be read", listing.len, alive);
  for (size_t i = 0; error == 0 && i < listing.len; i++)
    if (strcmp(listed_state(&listing.listed[i]), "refused") == 0)
      check_unreadable(doctor, &listing.listed[i]);
  listing_free(&listing);
}

/* ---------------------------------------------------------------------------
 * Pollers
 */

/* The line is "poller KIND at PATH, pid N, user U: what is read", and then
 * perhaps "; advice". */
static void say_poller(void *context, enum journal_level level,
                       const char *line) {
  const char *advice = strstr(line, "; ");
  (void)level;
  doctor_say(context, "pollers", "socket", VERDICT_NOTE,
             advice != NULL ? advice + 2 : NULL, "%.*s",
             (int)strcspn(line, ";"), line);
}

/* Asks at the usual places, as collectd does with UsualPlaces. */
void check_pollers(struct doctor *doctor) {
  const struct pollers_options options = {
      .wanted = true,
      .usual = true,
      .journal = {.write = say_poller, .context = doctor}};
  struct pollers *pollers;
  if (pollers_start(&pollers, &options) == 0)
    pollers_close(pollers);
}

/* ---------------------------------------------------------------------------
 * The command
 */

/* Reads what several checks need. */
static void look(struct doctor *doctor) {
  const struct group *group = getgrnam("percore");
  char line[16];
  doctor->group = group != NULL ? (long)group->gr_gid : -1;
  doctor->paranoid = machine_read(doctor->machine, line, sizeof(line),
                                  "/proc/sys/kernel/perf_event_paranoid") > 0
                         ? strtol(line, NULL, 10)
                         : 1;
}

/* Runs all checks. Returns 0 or -errno. */
static int check_all(struct doctor *doctor) {
  int status;
  struct engine *engine = try_sources(doctor, &status);
  if (engine == NULL)
    return status;
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
  if (status == 0 && doctor->first_only && doctor->missing == 0)
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

static int doctor_main(void *given, const char *word, struct machine *machine) {
  const struct doctor_options *options = given;
  struct screen screen = terminal_screen();
  struct doctor doctor = {.machine = machine,
                          .proc = "/proc",
                          .out = stdout,
                          .width = screen.width >= 60 ? screen.width : 100,
                          .colour = screen.colour,
                          .first_only = options->check};
  struct utsname name = {0};
  char kernel[FACT_SIZE];
  (void)word;
  uname(&name);
  snprintf(kernel, sizeof(kernel), "%s %s %s", name.sysname, name.release,
           name.machine);
  int status = options->json ? examine_json(&doctor, kernel)
                             : examine_text(&doctor, kernel);
  if (status != 0)
    return say_failure(COMMAND, "cannot find the cores of this machine: %s",
                       strerror(-status));
  bool is_well =
      options->check ? doctor.missing == 0 : doctor_has_source(&doctor);
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
    DEFAULTS(doctor_options, .check = false),
    .run = doctor_main,
};
