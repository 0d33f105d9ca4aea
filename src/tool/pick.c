/* percore pick: prints the cores that have room. */
#include "arguments.h"
#include "load.h"
#include "percore_load.h"
#include "tool.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "pick"
/* How long own counters may take until the first loads are known, and how often
 * they are asked. */
#define PATIENCE_NS UINT64_C(2000000000)
#define STEP_NS UINT64_C(20000000)

struct pick_options {
  uint64_t count;
  struct core_set cores; /* empty: all that are not isolated */
  const char *by;
};

static const struct {
  const char *name;
  enum percore_load_by by;
  double period_s;
} ways[] = {{"load", PERCORE_BY_LOAD, 0},
            {"load_1m", PERCORE_BY_AVERAGE, 60},
            {"load_5m", PERCORE_BY_AVERAGE, 300},
            {"load_15m", PERCORE_BY_AVERAGE, 900},
            {"room", PERCORE_BY_ROOM, 0}};
#define WAYS (int)(sizeof(ways) / sizeof(ways[0]))

static const char *way_choice(int i) { return i < WAYS ? ways[i].name : NULL; }

static const struct argument arguments[] = {
    ARGUMENT(struct pick_options, count, 'n', "count", ARGUMENT_WHOLE, "N",
             "how many cores (default 1)", .min = 1, .max = CORES_MAX),
    ARGUMENT(
        struct pick_options, cores, 'c', "cores", ARGUMENT_CORES, "LIST",
        "choose from these cores, such as 0-3,8 (default: all that are not "
        "isolated)"),
    ARGUMENT(struct pick_options, by, 'b', "by", ARGUMENT_TEXT, "FIGURE",
             "what counts (default load); averages need the board",
             .choice = way_choice),
};

/* Chooses cores as soon as a load is known. Returns what percore_load_best
 * returns. */
static int pick(struct percore_load *load,
                const struct percore_load_choice *choice, int *cores, int n) {
  uint64_t end_ns = monotonic_ns() + PATIENCE_NS;
  struct percore_load_details details = {.size = sizeof(details)};
  int found = percore_load_best(load, choice, cores, n);
  (void)percore_load_get(load, 0, &details);
  while (found == 0 && !details.from_board && monotonic_ns() < end_ns &&
         sleep_until_ns(monotonic_ns() + STEP_NS)) {
    percore_load_update(load);
    found = percore_load_best(load, choice, cores, n);
  }
  return found;
}

static int print(const int *cores, int found) {
  for (int i = 0; i < found; i++)
    printf("%s%d", i > 0 ? "," : "", cores[i]);
  putchar('\n');
  return end_output(COMMAND);
}

/* A script that pins four threads must not find out by itself. */
static void say_if_fewer(int found, const struct pick_options *options) {
  if (found < (int)options->count)
    say_failure(COMMAND,
                "found only %d of %d cores: the others are excluded or have "
                "no known load; %ld are online",
                found, (int)options->count, sysconf(_SC_NPROCESSORS_ONLN));
}

static int choose(struct percore_load *load,
                  const struct pick_options *options) {
  static int candidates[CORES_MAX], chosen[CORES_MAX];
  int len = 0, way = 0;
  core_set_for_each(core, &options->cores) candidates[len++] = core;
  while (options->by != NULL && strcmp(options->by, ways[way].name) != 0)
    way++;
  struct percore_load_choice choice = {.size = sizeof(choice),
                                       .by = ways[way].by,
                                       .period = ways[way].period_s,
                                       .candidates =
                                           len > 0 ? candidates : NULL,
                                       .candidate_count = len,
                                       .avoid_isolated = len == 0};
  int found = pick(load, &choice, chosen, (int)options->count);
  if (found > 0) {
    say_if_fewer(found, options);
    return print(chosen, found);
  }
  return say_failure(
      COMMAND, "%s",
      found < 0 && errno == ENOTSUP
          ? "load averages come from the board, and no fresh board can be "
            "read: start collectd with percore, or percore load --publish; "
            "its readers are root and the group percore"
      : found < 0 ? strerror(errno)
                  : "no core that may be chosen has a known load: 'percore "
                    "load' shows the loads");
}

static int pick_main(void *given, const char *word, struct machine *machine) {
  const struct pick_options *options = given;
  struct percore_load *load;
  (void)word;
  if (load_check_cores(COMMAND, options->cores, machine) != TOOL_OK)
    return TOOL_USAGE;
  stop_catch();
  const struct percore_load_options board = {.size = sizeof(board),
                                             .from_board = 1};
  if (percore_load_open(&load, &board) != 0 &&
      percore_load_open(&load, NULL) != 0)
    return say_failure(COMMAND, "no fresh board can be read, and %s",
                       errno == ENOTSUP ? "no source of loads works here: see "
                                          "'percore doctor'"
                                        : strerror(errno));
  int status = choose(load, options);
  percore_load_close(load);
  return status;
}

const struct command pick_command = {
    .name = COMMAND,
    .summary = "print the cores that have room",
    .usage = "[OPTION]...",
    .about =
        "Prints the cores with the most room as a list for taskset -c. Two "
        "calls at the same time choose different cores. Takes the loads "
        "that collectd or percore load --publish measures, else measures "
        "for a moment.",
    .arguments = ARGUMENTS(arguments),
    DEFAULTS(pick_options, .count = 1),
    .run = pick_main,
};
