/* percore wake: measures how fast an idle core wakes. */
#include "wake.h"

#include "cycles/machine.h"
#include "cycles/perf_event.h"
#include "cycles/topology.h"
#include "percore_config.h"
#include "text.h"
#include "tool.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "wake"
#define POLL_NS UINT64_C(50000000)

struct wake_arguments {
  const char *method, *csv;
  uint64_t count;
  double seconds, distance_us, pause_ms, threshold_us;
  bool json;
};

static const char *method_choice(int i) {
  return i < WAKE_METHODS ? wake_method_names[i] : NULL;
}

static const struct argument arguments[] = {
    ARGUMENT(struct wake_arguments, method, 'm', "method", ARGUMENT_TEXT,
             "METHOD", "what wakes the core (default: bpf-timer, else thread)",
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
             "MS", "leave the core alone before, 0 to 60000 (default 0)",
             .min = 0, .max = 60000),
    ARGUMENT(struct wake_arguments, threshold_us, 'T', "threshold",
             ARGUMENT_NUMBER, "US",
             "end at the first wake that takes more than US microseconds",
             .min = 0.1, .max = 1e6),
    ARGUMENT(struct wake_arguments, csv, 'C', "csv", ARGUMENT_TEXT, "FILE",
             "write the datapoints, as they come, to a new file"),
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
  FILE *csv;                /* NULL: not wanted */
  bool has_failed;
  char why[WHY_SIZE]; /* why it failed; or empty */
};

/* Fails with -ENOSPC, or what else kept the file from being written. */
static int csv_fails(const struct measurement *measurement, char *why) {
  return why_fails(why, -errno, "cannot write %.200s: %s",
                   measurement->options->csv, strerror(errno));
}

static int csv_open(struct measurement *measurement) {
  enum { BUFFER = 1 << 20 }; /* lines are written whole, batch by batch */
  measurement->csv = fopen(measurement->options->csv, "wxe");
  if (measurement->csv == NULL)
    return csv_fails(measurement, measurement->why);
  setvbuf(measurement->csv, NULL, _IOFBF, BUFFER);
  return 0;
}

/* Appends datapoints, without columns that are empty. The first line has the
 * names of the columns. */
static int csv_write(struct measurement *measurement) {
  const struct wake_points *points = &measurement->batch;
  const struct wake_collect_status *status = &measurement->run.status;
  FILE *file = measurement->csv;
  if (points->len == 0)
    return 0;
  bool has_user = !isnan(points->list[0].us[WAKE_USER_LATENCY]);
  if (status->datapoints == points->len)
    fprintf(file,
            "WakeLatency,IntrLatency,SilentTime,LDist,IntrOff,ReqCState%s\n",
            has_user ? ",UserLatency" : "");
  for (size_t i = 0; i < points->len; i++) {
    const struct wake_point *point = &points->list[i];
    fprintf(file, "%.3f,%.3f,%.3f,%.3f,%s,%s", (double)point->us[WAKE_LATENCY],
            (double)point->us[WAKE_INTR_LATENCY],
            (double)point->us[WAKE_SILENT_TIME], (double)point->distance_us,
            point->interrupts_off ? "True" : "False",
            status->states.list[point->state].name);
    if (has_user)
      fprintf(file, ",%.3f", (double)point->us[WAKE_USER_LATENCY]);
    fputc('\n', file);
  }
  return fflush(file) == 0 ? 0 : csv_fails(measurement, measurement->why);
}

/* Reads the datapoints that have come since the last call, and writes them. */
static void take(struct measurement *measurement) {
  const struct wake_arguments *options = measurement->options;
  struct wake_run *run = &measurement->run;
  struct wake_points *batch = &measurement->batch;
  char *why = measurement->why;
  int status = wake_collect_poll(measurement->collect, batch);
  run->status = *wake_collect_status(measurement->collect);
  for (size_t i = 0; i < batch->len && status == 0; i++) {
    status = wake_stats_add(&run->stats, &batch->list[i]);
    if (run->above.ltime_ns == 0 &&
        wake_latency_us(&batch->list[i]) > options->threshold_us)
      run->above = batch->list[i];
  }
  if (status != 0)
    why_fails(why, status, "%s", strerror(ENOMEM));
  else if (measurement->csv != NULL)
    status = csv_write(measurement);
  measurement->has_failed |= status != 0;
  batch->len = 0;
}

static bool must_end(const struct measurement *measurement) {
  const struct wake_collect_status *status = &measurement->run.status;
  return measurement->has_failed || measurement->run.above.ltime_ns > 0 ||
         status->is_gone || status->datapoints >= measurement->options->count ||
         status->seconds >= measurement->options->seconds || stop_requested();
}

/* Measures, and shows the result; on a terminal, also how far the measurement
 * is. Returns the exit status. */
static int run_measurement(struct measurement *measurement) {
  const struct wake_collect_status *status = &measurement->run.status;
  bool tells = !measurement->options->json && terminal_screen().width > 0;
  do {
    sleep_until_ns(monotonic_ns() + POLL_NS);
    take(measurement);
    if (tells)
      printf("\r%llu datapoints in %.1f s",
             (unsigned long long)status->datapoints, status->seconds);
    fflush(stdout);
  } while (!must_end(measurement));
  if (tells)
    fputs("\r\033[K", stdout);
  wake_collect_end(measurement->collect);
  take(measurement);
  if (measurement->options->json)
    wake_write_json(stdout, &measurement->run);
  else
    wake_write_text(stdout, &measurement->run);
  return end_output(COMMAND);
}

/* Says why a measurement is not what was wanted. Returns the exit status. */
static int judge(const struct measurement *measurement) {
  const struct wake_run *run = &measurement->run;
  const struct wake_collect_status *status = &run->status;
  const struct wake_point *above = &run->above;
  char why[WHY_SIZE];
  if (measurement->why[0] != '\0')
    return say_failure(COMMAND, "%s", measurement->why);
  if (above->ltime_ns > 0)
    return say_failure(
        COMMAND,
        "core %d woke after %.2f us at %.6f s of CLOCK_MONOTONIC; it had been "
        "in %s for %.2f us, and interrupt %u woke it",
        status->core, wake_latency_us(above), (double)above->ltime_ns / 1e9,
        status->states.list[above->state].name,
        (double)above->us[WAKE_SILENT_TIME], above->interrupt);
  if (status->is_gone) {
    wake_collect_check(status, why);
    return say_failure(COMMAND, "%s; measure it again", why);
  }
  if (!wake_collect_has_result(status))
    return say_failure(
        COMMAND,
        "core %d gave %llu datapoints of %llu events, too few for a result; "
        "measure longer (--time), or a quieter core",
        status->core, (unsigned long long)status->datapoints,
        (unsigned long long)status->armed);
  return TOOL_OK;
}

/* Opens the core's counter of system management interrupts. Returns a
 * descriptor, or a negative number if this machine has no such counter. */
static int open_smis(const struct machine *machine, int core) {
  struct perf_event event;
  char why[WHY_SIZE];
  if (perf_event_find(&event, "msr", "smi", machine, why) != 0)
    return -1;
  struct perf_event_attr attr = {
      .size = sizeof(attr), .type = event.type, .config = event.config};
  return machine->perf_open(machine->context, &attr, core, -1);
}

static int measure_core(const struct machine *machine, int core,
                        const struct wake_arguments *options) {
  struct measurement measurement = {.options = options};
  struct wake_collect **collect = &measurement.collect;
  char *why = measurement.why;
  if (options->csv != NULL && csv_open(&measurement) != 0)
    return say_failure(COMMAND, "%s", why);
  const struct wake_collect_options collect_options = {
      .method = wake_method_of(options->method),
      .pause_ns = (uint64_t)(options->pause_ms * 1e6),
      .distance_ns = (uint64_t)(options->distance_us * 1e3),
      .smis = open_smis(machine, core)};
  latency_limit_read(&measurement.run.limit, "", core);
  bool works = wake_collect_open(collect, &collect_options, why) == 0;
  if (works && why[0] != '\0')
    say_failure(COMMAND, "%s", why);
  works = works && wake_collect_attach(*collect, why) == 0 &&
          wake_collect_begin(*collect, core, why) == 0;
  int status =
      works ? run_measurement(&measurement) : say_failure(COMMAND, "%s", why);
  if (status == TOOL_OK)
    status = judge(&measurement);
  if (measurement.csv != NULL)
    fclose(measurement.csv);
  wake_collect_close(*collect);
  close(collect_options.smis);
  wake_points_free(&measurement.batch);
  wake_stats_free(&measurement.run.stats);
  return status;
}

/* Returns the number of the last online core that is not isolated, or -1.
 * Avoids the first cores, because they are the busiest on most machines. */
static int find_core(const struct machine *machine) {
  struct topology topology;
  int core = -1;
  if (topology_read(&topology, machine) == 0) {
    core_set_subtract(&topology.online, &topology.isolated);
    core_set_for_each(each, &topology.online) core = each;
    topology_free(&topology);
  }
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

static int wake_main(void *options, const char *word, struct machine *machine) {
  if (word != NULL && !is_core(word))
    return say_usage(COMMAND, "'%s' is not a core: give its number, such as 3",
                     word);
  int core = word != NULL ? atoi(word) : find_core(machine);
  stop_catch();
  return core >= 0 ? measure_core(machine, core, options)
                   : say_failure(COMMAND, "no core is known that is not "
                                          "isolated; name the core to "
                                          "measure");
}

const struct command wake_command = {
    .name = COMMAND,
    .summary = "measure how fast an idle core wakes",
    .usage = "[CORE] [OPTION]...",
    .about =
        "Arms timers on a core and measures how long after the programmed time "
        "the core runs again, for each idle state that it was in. Without "
        "CORE, takes the last core that is not isolated. Interrupts "
        "the core some 500 times a second. Ctrl-C ends a measurement and shows "
        "the result.",
    .arguments = ARGUMENTS(arguments),
    DEFAULTS(wake_arguments, .count = 2000, .seconds = 60, .distance_us = 4000,
             .threshold_us = INFINITY),
    .words_max = 1,
    .run = wake_main,
};
