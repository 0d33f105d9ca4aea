/* percore soak: a floor of a core's load that depends on no counter of the
 * kernel. A thread of the lowest class runs whenever no other task wants the
 * core, and adds up the time that it did not get. */
#include "base/affinity.h"
#include "cycles/topology.h"
#include "json.h"
#include "tool.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "soak"

#define SECONDS_DEFAULT 10.0
#define SECONDS_MOST 600.0

/* If two readings of the clock are further apart than the closest pair by this
 * much, something else ran in between. */
#define GAP_NS 150
#define CALIBRATION_NS UINT64_C(20000000)

struct soak_options {
  bool force;
  bool json;
};

static const struct argument arguments[] = {
    ARGUMENT(struct soak_options, force, 'f', "force", ARGUMENT_FLAG, NULL,
             "also run on an isolated core"),
    ARGUMENT_JSON(struct soak_options),
};

struct soak {
  int core;
  uint64_t total_ns;
  uint64_t lost_ns;
  uint64_t gaps;
};

/* SCHED_IDLE yields only to tasks in the same scheduling group. */
static void weaken_group(void) {
  FILE *file = fopen("/proc/self/autogroup", "we");
  if (file == NULL)
    return;
  fputs("19", file);
  fclose(file);
}

static int occupy(int core) {
  const struct sched_param none = {0};
  weaken_group();
  if (sched_setscheduler(0, SCHED_IDLE, &none) != 0)
    return -errno;
  return affinity_pin(core);
}

/* Returns the difference of the two closest readings of the clock. */
static uint64_t least_step_ns(void) {
  uint64_t least_ns = UINT64_MAX, last_ns = monotonic_ns(), now_ns;
  for (uint64_t end_ns = last_ns + CALIBRATION_NS; last_ns < end_ns;
       last_ns = now_ns) {
    now_ns = monotonic_ns();
    if (now_ns - last_ns < least_ns)
      least_ns = now_ns - last_ns;
  }
  return least_ns;
}

static struct soak soak_for(int core, uint64_t duration_ns) {
  struct soak soak = {.core = core};
  const uint64_t step_ns = least_step_ns();
  const uint64_t begin_ns = monotonic_ns();
  uint64_t last_ns = begin_ns;
  while (last_ns - begin_ns < duration_ns && !stop_requested()) {
    uint64_t now_ns = monotonic_ns();
    if (now_ns - last_ns > step_ns + GAP_NS) {
      soak.lost_ns += now_ns - last_ns - step_ns;
      soak.gaps++;
    }
    last_ns = now_ns;
  }
  soak.total_ns = last_ns - begin_ns;
  return soak;
}

/* Checks whether the core may be disturbed. */
static int check_core(int core, bool force) {
  struct machine *machine = machine_linux(NULL);
  struct topology topology;
  int status = machine == NULL ? -errno : topology_read(&topology, machine);
  machine_linux_close(machine);
  if (status != 0)
    return say_failure(COMMAND, "cannot find the cores of this machine: %s",
                       strerror(-status));
  bool online = core_set_has(&topology.online, core);
  bool isolated = core_set_has(&topology.isolated, core);
  topology_free(&topology);
  if (!online)
    return say_failure(COMMAND, "core %d is not online", core);
  if (isolated && !force)
    return say_failure(COMMAND,
                       "core %d is isolated: a thread there delays its fast "
                       "path; use --force to run one anyway",
                       core);
  return TOOL_OK;
}

/* The share of time that other work took. */
static double floor_of(const struct soak *soak) {
  return (double)soak->lost_ns / (double)soak->total_ns;
}

static int write_text(const struct soak *soak) {
  printf("core %d: others took %.2f %% of %.2f s, in %" PRIu64 " pieces\n",
         soak->core, 100.0 * floor_of(soak), (double)soak->total_ns / 1e9,
         soak->gaps);
  return 0;
}

static int write_json(const struct soak *soak) {
  struct json *json = json_begin(stdout, COMMAND);
  if (json == NULL)
    return -ENOMEM;
  json_integer(json, "core", soak->core);
  json_number(json, "interval_s", (double)soak->total_ns / 1e9);
  json_number(json, "load_floor", floor_of(soak));
  json_unsigned(json, "pieces", soak->gaps);
  return json_end(json);
}

static int run(int core, double seconds, bool json) {
  int status = occupy(core);
  if (status != 0)
    return say_failure(COMMAND, "cannot run on core %d: %s", core,
                       strerror(-status));
  stop_catch();
  struct soak soak = soak_for(core, (uint64_t)(seconds * 1e9));
  if (soak.total_ns == 0)
    return say_failure(COMMAND, "stopped before it began");
  status = json ? write_json(&soak) : write_text(&soak);
  if (status != 0)
    return say_failure(COMMAND, "%s", strerror(-status));
  return flush_output(COMMAND) == 0 ? TOOL_OK : TOOL_FAILURE;
}

static bool to_number(const char *text, double *number) {
  char *end;
  *number = strtod(text, &end);
  return end != text && *end == '\0';
}

static int soak_main(int argc, char **argv) {
  struct soak_options options = {.force = false};
  double core, seconds = SECONDS_DEFAULT;
  int status = arguments_read(&soak_command, argc, argv, &options);
  if (status >= 0)
    return status;
  char **words = argv + optind;
  if (!to_number(words[0], &core) || core < 0 || core >= CORES_MAX ||
      core != (double)(int)core)
    return say_usage(COMMAND, "'%s' is not the number of a core", words[0]);
  if (argc - optind == 2 && (!to_number(words[1], &seconds) ||
                             !(seconds >= 0.1 && seconds <= SECONDS_MOST)))
    return say_usage(COMMAND, "SECONDS: '%s' is not a number from 0.1 to %g",
                     words[1], SECONDS_MOST);
  status = check_core((int)core, options.force);
  return status == TOOL_OK ? run((int)core, seconds, options.json) : status;
}

const struct command soak_command = {
    .name = COMMAND,
    .summary = "measure a lower bound of a core's load without any counter",
    .usage = "CORE [SECONDS] [OPTION]...",
    .about =
        "Occupies a core with a SCHED_IDLE thread for SECONDS (default 10) and "
        "prints how much of the core other work took: a lower bound of its "
        "load that needs no counter. During this time the core does not halt, "
        "so every other figure shows it fully loaded, and other tasks may "
        "start on it some microseconds later.",
    .arguments = ARGUMENTS(arguments),
    .words_min = 1,
    .words_max = 2,
    .words_missing = "CORE is missing",
    .run = soak_main,
};
