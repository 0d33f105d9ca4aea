/* percore wake: measures how fast an idle core wakes. */
#include "wake.h"

#include "cycles/machine.h"
#include "cycles/topology.h"
#include "live.h"
#include "percore_config.h"
#include "tool.h"
#include "wake/core.h"
#include "wake/result.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "wake"
#define POLL_NS UINT64_C(50000000)
/* Pages become rarer as datapoints become more, because events are lost while
 * they are sorted, which takes about 1 us for each. */
#define SHOW_NS UINT64_C(500000000)
#define SHOW_POINT_NS 10000

struct wake_arguments {
  const char *method, *folder;
  uint64_t count;
  double seconds, distance_us, pause_ms;
  bool json;
};

static const char *method_choice(int i) {
  return i < WAKE_METHODS ? wake_method_names[i] : NULL;
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
  uint64_t begin_ns, show_ns;
  bool has_page; /* the figures are also shown during the measurement */
};

static bool is_complete(const struct measurement *measurement) {
  return wake_points_counted(&measurement->run.points) >=
             measurement->options->count ||
         measurement->run.seconds >= measurement->options->seconds;
}

/* Gives figures at the end and, if there is a page, when it is to be shown. */
static int next(struct live *live, void *context, const void **figures) {
  struct measurement *measurement = context;
  struct wake_run *run = &measurement->run;
  bool ends = !sleep_until_ns(monotonic_ns() + POLL_NS);
  if (wake_collect_poll(measurement->collect, &run->points) != 0)
    return live_fail(live, "%s", strerror(ENOMEM));
  uint64_t now_ns = monotonic_ns();
  run->seconds = (double)(now_ns - measurement->begin_ns) / 1e9;
  ends |= is_complete(measurement);
  if (!ends && (!measurement->has_page || now_ns < measurement->show_ns))
    return TOOL_OK;
  if (ends)
    stop_request();
  measurement->show_ns = now_ns + SHOW_NS + run->points.len * SHOW_POINT_NS;
  wake_collect_status(measurement->collect, &run->status);
  *figures = measurement;
  return TOOL_OK;
}

static int table(FILE *out, const void *figures, struct screen screen) {
  return wake_write_text(out, &((const struct measurement *)figures)->run,
                         screen.width);
}

static int json(FILE *out, const void *figures) {
  return wake_write_json(out, &((const struct measurement *)figures)->run);
}

static const struct live_face face = {
    .command = COMMAND,
    .waiting = "The first datapoints take a second.",
    .next = next,
    .table = table,
    .json = json,
};

/* Measures, and shows the result. Returns the exit status. */
static int run_measurement(struct measurement *measurement) {
  struct live *live = live_open(&face, measurement->options->json);
  if (live == NULL)
    return say_failure(COMMAND, "%s", strerror(ENOMEM));
  measurement->has_page = live_view(live)->width > 0;
  measurement->begin_ns = monotonic_ns();
  int status = live_run(live, 0, measurement);
  live_close(live);
  if (status != TOOL_OK || !measurement->has_page)
    return status;
  fputs("\033[H\033[J", stdout); /* the page is replaced by the whole result */
  status = wake_write_text(stdout, &measurement->run, 0);
  if (status != 0)
    return say_failure(COMMAND, "%s", strerror(-status));
  return end_output(COMMAND);
}

static int open_method(struct measurement *measurement,
                       const struct wake_collect_options *options,
                       char why[WHY_SIZE]) {
  struct wake_collect **collect = &measurement->collect;
  int status = wake_collect_open(collect, options, why);
  if (status == 0)
    status = wake_collect_attach(*collect, why);
  if (status == 0)
    status = wake_collect_begin(*collect, measurement->run.core, why);
  if (status != 0) {
    wake_collect_close(*collect);
    *collect = NULL;
  }
  measurement->run.method = wake_method_names[options->method];
  return status;
}

/* Opens the method that is wanted, or else the BPF timer or, if that fails, the
 * thread. Returns 0, or TOOL_FAILURE after an error message. */
static int open_collector(struct measurement *measurement) {
  const struct wake_arguments *arguments = measurement->options;
  char why[WHY_SIZE], thread[WHY_SIZE];
  struct wake_collect_options options = {
      .distance_max_ns = (uint64_t)(arguments->distance_us * 1e3),
      .pause_ns = (uint64_t)(arguments->pause_ms * 1e6)};
  for (int i = 0; arguments->method != NULL && method_choice(i) != NULL; i++)
    if (strcmp(arguments->method, method_choice(i)) == 0)
      options.method = (enum wake_method)i;
  if (open_method(measurement, &options, why) == 0)
    return 0;
  options.method = WAKE_THREAD;
  if (arguments->method != NULL ||
      open_method(measurement, &options, thread) != 0)
    return say_failure(COMMAND, "%s", why);
  say_failure(COMMAND, "method thread is used: %s", why);
  return 0;
}

/* Writes the result of wult. Returns the exit status. */
static int write_result(const struct wake_run *run, const char *folder) {
  char why[WHY_SIZE];
  const struct wake_result_info info = {.version = PACKAGE_VERSION,
                                        .method = run->method,
                                        .core = run->core,
                                        .seconds = run->seconds};
  if (wake_points_counted(&run->points) == 0)
    return say_failure(COMMAND,
                       "core %d gave no datapoints; measure longer (--time), "
                       "or another core",
                       run->core);
  if (folder != NULL &&
      wake_result_write(&run->points, folder, &info, why) != 0)
    return say_failure(COMMAND, "--outdir: %s", why);
  return TOOL_OK;
}

static int measure_core(int core, const struct wake_arguments *options) {
  char why[WHY_SIZE];
  struct measurement measurement = {.options = options, .run.core = core};
  if (options->folder != NULL && wake_result_prepare(options->folder, why) != 0)
    return say_failure(COMMAND, "--outdir: %s", why);
  wake_core_states(core, &measurement.run.points);
  int status = open_collector(&measurement);
  if (status == TOOL_OK)
    status = run_measurement(&measurement);
  if (status == TOOL_OK)
    status = write_result(&measurement.run, options->folder);
  if (status != TOOL_OK && options->folder != NULL)
    rmdir(options->folder);
  wake_collect_close(measurement.collect);
  wake_points_free(&measurement.run.points);
  return status;
}

/* Returns the number of the last online core that is not isolated, or -1 after
 * an error message. Avoids the first cores, because they are the busiest on
 * most machines. */
static int find_core(void) {
  struct machine *machine = machine_linux(NULL);
  struct topology topology;
  int core = -1;
  if (machine != NULL && topology_read(&topology, machine) == 0) {
    core_set_subtract(&topology.online, &topology.isolated);
    core_set_for_each(each, &topology.online) core = each;
    topology_free(&topology);
  }
  machine_linux_close(machine);
  if (core < 0)
    say_failure(COMMAND, "no core is known that is not isolated; name the core "
                         "to measure");
  return core;
}

static bool is_core(const char *word) {
  char *end;
  long core = strtol(word, &end, 10);
  return end != word && *end == '\0' && core >= 0 && core < CORES_MAX;
}

/* ---------------------------------------------------------------------------
 * The command
 */

static int wake_main(int argc, char **argv) {
  struct wake_arguments options = {
      .count = 2000, .seconds = 60, .distance_us = 4000};
  int status = arguments_read(&wake_command, argc, argv, &options);
  if (status >= 0)
    return status;
  const char *word = optind < argc ? argv[optind] : NULL;
  if (word != NULL && !is_core(word))
    return say_usage(COMMAND, "'%s' is not a core: give its number, such as 3",
                     word);
  if (options.folder != NULL && options.method != NULL &&
      strcmp(options.method, wake_method_names[WAKE_PASSIVE]) == 0)
    return say_usage(COMMAND, "--outdir: wult wants to know how far ahead each "
                              "timer was armed, but passive arms none; use "
                              "another --method");
  stop_catch();
  int core = word != NULL ? atoi(word) : find_core();
  return core < 0 ? TOOL_FAILURE : measure_core(core, &options);
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
