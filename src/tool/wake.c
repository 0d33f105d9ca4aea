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
#define SHOW_NS UINT64_C(500000000)

struct wake_arguments {
  const char *method, *folder;
  uint64_t count;
  double seconds, distance_us, pause_ms, budget_us, threshold_us;
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
    ARGUMENT(struct wake_arguments, budget_us, 'b', "budget", ARGUMENT_NUMBER,
             "US", "say which idle states wake within US microseconds",
             .min = 0.1, .max = 1e6),
    ARGUMENT(struct wake_arguments, threshold_us, 'T', "threshold",
             ARGUMENT_NUMBER, "US",
             "end at the first wake that takes more than US microseconds",
             .min = 0.1, .max = 1e6),
    ARGUMENT(struct wake_arguments, folder, 'o', "outdir", ARGUMENT_TEXT, "DIR",
             "write the datapoints, as they come, to a new directory, for wult "
             "report"),
    ARGUMENT_JSON(struct wake_arguments),
};

/* ---------------------------------------------------------------------------
 * Measuring
 */

struct measurement {
  struct wake_collect *collect;
  const struct wake_arguments *options;
  struct wake_run run;
  struct wake_points batch; /* datapoints since the last poll */
  struct wake_result result;
  uint64_t begin_ns, show_ns;
  bool has_page;      /* the figures are also shown during the measurement */
  const char *ended;  /* why it ended; NULL while it goes on */
  char why[WHY_SIZE]; /* why it failed; or empty */
};

/* Takes the datapoints since the last call, and appends them to the result. */
static void take(struct measurement *measurement) {
  struct wake_run *run = &measurement->run;
  struct wake_points *batch = &measurement->batch;
  double threshold_us = measurement->options->threshold_us;
  int status = wake_collect_poll(measurement->collect, batch);
  wake_collect_status(measurement->collect, &run->status);
  for (int i = 0; i < run->status.counts.len && i < run->states.len; i++) {
    run->states.list[i].entries = run->status.counts.list[i].entries;
    run->states.list[i].time_us = run->status.counts.list[i].time_us;
  }
  run->seconds = (double)(monotonic_ns() - measurement->begin_ns) / 1e9;
  for (size_t i = 0; i < batch->len && status == 0; i++) {
    status = wake_stats_add(&run->stats, &batch->list[i]);
    if (threshold_us > 0 && run->above.ltime_ns == 0 &&
        wake_latency_us(&batch->list[i]) > threshold_us)
      run->above = batch->list[i];
  }
  if (status != 0)
    why_fails(measurement->why, status, "%s", strerror(ENOMEM));
  const struct wake_result_info info = {PACKAGE_VERSION,    run->method,
                                        measurement->ended, run->core,
                                        run->seconds,       &run->status};
  if (measurement->options->folder != NULL)
    wake_result_write(&measurement->result, batch, &info, measurement->why);
  batch->len = 0;
}

/* Sets why the measurement ends and whether it failed, unless it goes on. */
static void find_end(struct measurement *measurement, bool is_interrupted) {
  const struct wake_run *run = &measurement->run;
  const struct wake_point *above = &run->above;
  char *why = measurement->why;
  if (above->ltime_ns > 0)
    why_fails(why, 0,
              "core %d woke after %.2f us at %.6f s of CLOCK_MONOTONIC; it had "
              "been in %s for %.2f us, and interrupt %u woke it",
              run->core, wake_latency_us(above), (double)above->ltime_ns / 1e9,
              run->states.list[above->state].name,
              (double)above->us[WAKE_SILENT_TIME], above->interrupt);
  else if (run->status.is_gone)
    why_fails(why, 0,
              "core %d went offline, or its timer was moved to another core; "
              "measure it again",
              run->core);
  measurement->ended = why[0] != '\0' ? why
                       : run->status.datapoints >= measurement->options->count
                           ? "count"
                       : run->seconds >= measurement->options->seconds ? "time"
                       : is_interrupted ? "interrupted"
                                        : NULL;
}

/* Gives figures at the end and, if there is a page, when it is to be shown. */
static int next(struct live *live, void *context, const void **figures) {
  struct measurement *measurement = context;
  (void)live;
  bool is_interrupted = !sleep_until_ns(monotonic_ns() + POLL_NS);
  take(measurement);
  find_end(measurement, is_interrupted);
  if (measurement->ended != NULL) {
    wake_collect_end(measurement->collect);
    take(measurement);
    stop_request();
  } else if (!measurement->has_page || monotonic_ns() < measurement->show_ns) {
    return TOOL_OK;
  }
  measurement->show_ns = monotonic_ns() + SHOW_NS;
  *figures = measurement;
  return TOOL_OK;
}

static int table(FILE *out, const void *figures, struct screen screen) {
  wake_write_text(out, &((const struct measurement *)figures)->run,
                  screen.width);
  return 0;
}

static int json(FILE *out, const void *figures) {
  wake_write_json(out, &((const struct measurement *)figures)->run);
  return 0;
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
  wake_write_text(stdout, &measurement->run, 0);
  return flush_output(COMMAND) == 0 ? TOOL_OK : TOOL_FAILURE;
}

/* Begins to measure. Returns 0 or a negative errno. */
static int begin(struct measurement *measurement) {
  const struct wake_arguments *arguments = measurement->options;
  struct wake_collect **collect = &measurement->collect;
  char *why = measurement->why;
  const struct wake_collect_options options = {
      .method = wake_method_of(arguments->method),
      .distance_max_ns = (uint64_t)(arguments->distance_us * 1e3),
      .pause_ns = (uint64_t)(arguments->pause_ms * 1e6),
      .counts_smis = true};
  int status = wake_collect_open(collect, &options, why);
  if (status != 0)
    return status;
  if (why[0] != '\0')
    say_failure(COMMAND, "method thread is used: %s", why);
  measurement->run.method = wake_method_names[wake_collect_method(*collect)];
  status = wake_collect_attach(*collect, why);
  return status == 0 ? wake_collect_begin(*collect, measurement->run.core, why)
                     : status;
}

/* Says why a measurement failed, if it did. Returns the exit status. */
static int judge(const struct measurement *measurement) {
  const struct wake_collect_status *status = &measurement->run.status;
  if (measurement->why[0] != '\0')
    return say_failure(COMMAND, "%s", measurement->why);
  if (!wake_collect_has_result(status))
    return say_failure(
        COMMAND,
        "core %d gave %llu datapoints of %llu events, too few for a result; "
        "measure longer (--time), or a quieter core",
        measurement->run.core, (unsigned long long)status->datapoints,
        (unsigned long long)status->armed);
  return TOOL_OK;
}

static int measure_core(int core, const struct wake_arguments *options) {
  struct measurement measurement = {
      .options = options,
      .run = {.core = core, .budget_us = options->budget_us}};
  bool has_result = options->folder != NULL;
  if (has_result && wake_result_open(&measurement.result, options->folder,
                                     measurement.why) != 0)
    return say_failure(COMMAND, "%s", measurement.why);
  wake_core_states("", core, &measurement.batch.states);
  measurement.run.states = measurement.batch.states;
  latency_limit_read(&measurement.run.limit, "", core);
  int status = begin(&measurement);
  if (status == 0) {
    measurement.why[0] = '\0';
    status = run_measurement(&measurement);
  }
  if (status == 0 || measurement.why[0] != '\0')
    status = judge(&measurement);
  if (has_result)
    wake_result_close(&measurement.result);
  wake_collect_close(measurement.collect);
  wake_points_free(&measurement.batch);
  wake_stats_free(&measurement.run.stats);
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
