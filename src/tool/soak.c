/* percore soak: measures a lower bound of a core's load without a counter. */
#include "cycles/soaker.h"
#include "cycles/topology.h"
#include "json.h"
#include "tool.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "soak"

#define SECONDS_DEFAULT 10.0
#define SECONDS_MOST 600.0

struct soak_options {
  bool force;
  bool json;
};

static const struct argument arguments[] = {
    ARGUMENT(struct soak_options, force, 'f', "force", ARGUMENT_FLAG, NULL,
             "also run on an isolated core"),
    ARGUMENT_JSON(struct soak_options),
};

/* Checks that a core is online and, without --force, not isolated. Returns
 * TOOL_OK, or TOOL_FAILURE after an error message. */
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

/* Returns the share of the core's time that other work took, from 0 to 1. */
static double floor_of(const struct soak *soak) {
  return (double)soak->lost_ns / (double)soak->total_ns;
}

static int write_text(int core, const struct soak *soak) {
  printf("core %d: others took %.2f %% of %.2f s, in %" PRIu64
         " interruptions\n",
         core, 100.0 * floor_of(soak), (double)soak->total_ns / 1e9,
         soak->interruptions);
  return 0;
}

static int write_json(int core, const struct soak *soak) {
  struct json *json = json_begin(stdout, COMMAND);
  if (json == NULL)
    return -ENOMEM;
  json_integer(json, "core", core);
  json_number(json, "interval_s", (double)soak->total_ns / 1e9);
  json_number(json, "load_floor", floor_of(soak));
  json_unsigned(json, "interruptions", soak->interruptions);
  return json_end(json);
}

static int run(int core, double seconds, bool json) {
  struct soak soak;
  stop_catch();
  int status =
      soak_core(&soak, core, (uint64_t)(seconds * 1e9), stop_requested);
  if (status == -ENODEV)
    return say_failure(COMMAND, "core %d went offline", core);
  if (status != 0)
    return say_failure(COMMAND, "cannot run on core %d: %s", core,
                       strerror(-status));
  if (soak.total_ns == 0)
    return say_failure(COMMAND, "stopped before it began");
  status = json ? write_json(core, &soak) : write_text(core, &soak);
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
