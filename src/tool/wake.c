/* percore wake: measures how fast an idle core wakes. */
#include "wake.h"

#include "cycles/machine.h"
#include "cycles/topology.h"
#include "live.h"
#include "percore_config.h"
#include "tool.h"
#include "wake/result.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "wake"
#define POLL_NS UINT64_C(50000000)
#define SHOW_S 0.5
#define COUNT_DEFAULT 2000
/* The page shows no statistics of more datapoints, because sorting them would
 * take so long that events are lost. */
#define PAGE_MAX 100000

/* The options of percore wake. An option that was not given is NULL, 0 or NAN.
 */
struct wake_arguments {
  const char *method, *folder;
  uint64_t count;
  double seconds, distance_us, pause_ms;
  bool json;
};

static const char *method_choice(int i) {
  return i < WAKE_METHODS ? wake_method_name((enum wake_method)i) : NULL;
}

static const struct argument arguments[] = {
    ARGUMENT(struct wake_arguments, method, 'm', "method", ARGUMENT_TEXT,
             "METHOD",
             "what wakes the core (default: bpf-timer, else thread); passive: "
             "timers of other programs",
             .choice = method_choice),
    ARGUMENT(struct wake_arguments, count, 'n', "count", ARGUMENT_WHOLE, "N",
             "end after N datapoints (default 2000)", .min = 1, .max = 1e8),
    ARGUMENT(struct wake_arguments, seconds, 't', "time", ARGUMENT_NUMBER,
             "SECONDS", "end after this time, 0.1 to 86400 (default 60)",
             .min = 0.1, .max = 86400),
    ARGUMENT(struct wake_arguments, distance_us, 'd', "distance",
             ARGUMENT_NUMBER, "US",
             "arm events up to US microseconds ahead, 1 to 1000000 (default "
             "4000)",
             .min = 1, .max = 1e6),
    ARGUMENT(struct wake_arguments, pause_ms, 'p', "pause", ARGUMENT_NUMBER,
             "MS", "pause between two events, 0 to 60000 (default 0)", .min = 0,
             .max = 60000),
    ARGUMENT(struct wake_arguments, folder, 'o', "outdir", ARGUMENT_TEXT, "DIR",
             "write the datapoints to a new directory, for wult report"),
    ARGUMENT_JSON(struct wake_arguments),
};

/* ---------------------------------------------------------------------------
 * Measuring
 */

struct measurement {
  struct wake_collect *collect;
  const struct wake_arguments *options;
  struct wake_run run;
  uint64_t begin_ns;
  bool ended;
};

static void note_status(struct measurement *measurement) {
  wake_collect_status(measurement->collect, &measurement->run.status);
  measurement->run.seconds =
      (double)(monotonic_ns() - measurement->begin_ns) / 1e9;
}

static bool is_complete(const struct measurement *measurement) {
  return wake_points_counted(measurement->run.points) >=
             measurement->options->count ||
         (double)(monotonic_ns() - measurement->begin_ns) / 1e9 >=
             measurement->options->seconds;
}

/* Measures for `seconds` seconds. Returns false if the measurement has ended.
 * If it has ended because of an error, `why` contains the reason, otherwise "".
 */
static bool measure(struct measurement *measurement, double seconds,
                    char why[WAKE_WHY_SIZE]) {
  uint64_t until = monotonic_ns() + (uint64_t)(seconds * 1e9);
  bool going = true;
  why[0] = '\0';
  while (going && monotonic_ns() < until && !is_complete(measurement))
    going = sleep_until_ns(monotonic_ns() + POLL_NS) &&
            wake_collect_poll(measurement->collect, why) == 0;
  note_status(measurement);
  measurement->ended = !going || is_complete(measurement);
  return !measurement->ended;
}

static int next(struct live *live, void *context, const void **figures) {
  char why[WAKE_WHY_SIZE];
  struct measurement *measurement = context;
  if (measurement->ended)
    return TOOL_OK;
  measure(measurement, SHOW_S, why);
  if (why[0] != '\0')
    return live_fail(live, "%s", why);
  live_follow(live);
  *figures = measurement;
  return TOOL_OK;
}

static int table(FILE *out, const void *figures, struct screen screen) {
  const struct wake_run *run = &((const struct measurement *)figures)->run;
  if (run->points->len <= PAGE_MAX)
    return wake_write_text(out, run, screen.width);
  fprintf(out, "core %d, method %s: %zu datapoints in %.0f s\n", run->core,
          run->method, wake_points_counted(run->points), run->seconds);
  return 0;
}

static const struct live_face face = {
    .command = COMMAND,
    .waiting = "The first datapoints take a second.",
    .next = next,
    .table = table,
};

/* Measures until the measurement has ended, and shows a live histogram
 * meanwhile if is_live is true. Returns the exit status. */
static int run_measurement(struct measurement *measurement, bool is_live) {
  char why[WAKE_WHY_SIZE];
  if (is_live) {
    struct live *live = live_open(&face, false);
    if (live == NULL)
      return say_failure(COMMAND, "%s", strerror(ENOMEM));
    int status = live_run(live, 0, measurement);
    live_close(live);
    return status;
  }
  while (measure(measurement, SHOW_S, why))
    ;
  return why[0] == '\0' ? TOOL_OK : say_failure(COMMAND, "%s", why);
}

/* Opens the method that is wanted, or else the BPF timer or, if that fails, the
 * thread. Returns 0, or TOOL_FAILURE after an error message. */
static int open_collector(struct wake_collect **collect,
                          struct wake_collect_options *options,
                          const char *wanted) {
  char why[WAKE_WHY_SIZE], thread[WAKE_WHY_SIZE];
  options->method = WAKE_BPF_TIMER;
  for (int i = 0; wanted != NULL && method_choice(i) != NULL; i++)
    if (strcmp(wanted, method_choice(i)) == 0)
      options->method = (enum wake_method)i;
  int status = wake_collect_open(collect, options, why);
  if (status == 0)
    return 0;
  options->method = WAKE_THREAD;
  if (wanted != NULL || wake_collect_open(collect, options, thread) != 0)
    return say_failure(COMMAND, "%s", why);
  say_failure(COMMAND, "method thread is used: %s", why);
  return 0;
}

/* Writes the results. Returns the exit status. */
static int write_run(const struct wake_run *run,
                     const struct wake_arguments *options) {
  char why[WAKE_WHY_SIZE];
  const struct wake_result_info info = {.version = PACKAGE_VERSION,
                                        .method = run->method,
                                        .core = run->core,
                                        .seconds = run->seconds};
  int status = options->json ? wake_write_json(stdout, run)
                             : wake_write_text(stdout, run, 0);
  if (status != 0)
    return say_failure(COMMAND, "%s", strerror(-status));
  if (flush_output(COMMAND) != 0)
    return TOOL_FAILURE;
  if (wake_points_counted(run->points) == 0)
    return say_failure(COMMAND,
                       "core %d gave no datapoints; measure longer (--time), "
                       "or another core",
                       run->core);
  if (options->folder != NULL &&
      wake_result_write(run->points, options->folder, &info, why) != 0)
    return say_failure(COMMAND, "--outdir: %s", why);
  return TOOL_OK;
}

static int measure_core(int core, const struct wake_arguments *options) {
  char why[WAKE_WHY_SIZE];
  struct measurement measurement = {.options = options};
  struct wake_collect_options collect = {
      .core = core,
      .distance_min_ns = 1000,
      .distance_max_ns = (uint64_t)(options->distance_us * 1e3),
      .pause_ns = (uint64_t)(options->pause_ms * 1e6)};
  if (options->folder != NULL && wake_result_prepare(options->folder, why) != 0)
    return say_failure(COMMAND, "--outdir: %s", why);
  if (open_collector(&measurement.collect, &collect, options->method) != 0)
    return TOOL_FAILURE;
  measurement.begin_ns = monotonic_ns();
  measurement.run =
      (struct wake_run){.points = wake_collect_points(measurement.collect),
                        .core = core,
                        .method = wake_method_name(collect.method)};
  bool is_live = terminal_screen().width > 0 && !options->json;
  int status = run_measurement(&measurement, is_live);
  if (is_live) /* the page is replaced by the whole result */
    fputs("\033[H\033[J", stdout);
  if (status == TOOL_OK)
    status = write_run(&measurement.run, options);
  wake_collect_close(measurement.collect);
  return status;
}

/* Returns the number of the last online core that is not isolated, or -1 after
 * an error message. Avoids the first cores, because they are the busiest on
 * most machines. */
static int find_core(void) {
  struct machine *machine = machine_linux(NULL);
  struct topology topology;
  int core = -1;
  int status = machine == NULL ? -errno : topology_read(&topology, machine);
  machine_linux_close(machine);
  if (status != 0) {
    say_failure(COMMAND, "cannot find the cores of this machine: %s",
                strerror(-status));
    return -1;
  }
  core_set_subtract(&topology.online, &topology.isolated);
  core_set_for_each(each, &topology.online) core = each;
  topology_free(&topology);
  if (core < 0)
    say_failure(COMMAND, "all cores are isolated; name the core to measure");
  return core;
}

static bool is_core(const char *word) {
  char *end;
  long core = strtol(word, &end, 10);
  return end != word && *end == '\0' && core >= 0 && core < CORES_MAX;
}

static int measure_word(int words, char **word,
                        const struct wake_arguments *options) {
  if (words > 1)
    return say_usage(COMMAND, "only one core can be measured at a time");
  if (words == 1 && !is_core(*word))
    return say_usage(COMMAND, "'%s' is not a core", *word);
  int core = words == 1 ? atoi(*word) : find_core();
  return core < 0 ? TOOL_FAILURE : measure_core(core, options);
}

/* ---------------------------------------------------------------------------
 * The command
 */

static double or_default(double value, double otherwise) {
  return isnan(value) ? otherwise : value;
}

static int wake_main(int argc, char **argv) {
  struct wake_arguments options = {
      .seconds = NAN, .distance_us = NAN, .pause_ms = NAN};
  int status = arguments_read(&wake_command, argc, argv, &options);
  if (status >= 0)
    return status;
  int words = argc - optind;
  stop_catch();
  options.count = options.count > 0 ? options.count : COUNT_DEFAULT;
  options.seconds = or_default(options.seconds, 60);
  options.distance_us = or_default(options.distance_us, 4000);
  options.pause_ms = or_default(options.pause_ms, 0);
  return measure_word(words, argv + optind, &options);
}

const struct command wake_command = {
    .name = COMMAND,
    .summary = "measure how fast an idle core wakes",
    .usage = "[CORE] [OPTION]...",
    .about =
        "Arms timers on a core and measures how long after the programmed time "
        "the core runs again, for each idle state that it was in. Without "
        "CORE, takes the last core that is not isolated. Interrupts "
        "the core some 500 times a second. --outdir writes a result for "
        "wult report. Ctrl-C ends a measurement and shows the result.",
    .arguments = ARGUMENTS(arguments),
    .words_min = 0,
    .words_max = 1,
    .run = wake_main,
};
