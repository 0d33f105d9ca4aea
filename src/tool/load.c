/* percore load: how busy each core is, live. */
#include "arguments.h"
#include "cycles/sampler.h"
#include "live.h"
#include "load_print.h"
#include "tool.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "load"
/* Up to this one may wait for a whole interval before the first table. */
#define INTERVAL_WHOLE_S 5.0

static const char help[] =
    "Usage: percore load [OPTION]...\n"
    "Shows how busy each core is, anew every few seconds: on a terminal in "
    "place,\notherwise one table after the other. Ends at Ctrl-C.\n\n"
    "  -i, --interval S          seconds between two tables, 0.1 to 3600 "
    "(default 2)\n"
    "  -n, --count N             end after N tables\n"
    "  -c, --cores LIST          only these cores, such as 0-3,8\n"
    "  -s, --source NAME         auto (default), mperf, ref-cycles, event,\n"
    "                            bpf or idle\n"
    "  -e, --event EVENT         the perf event of source event: pmu/name/ or "
    "r1a8\n"
    "  -f, --base-frequency HZ   how fast the event counts on a core not "
    "halted\n"
    "  -d, --denominator NAME    auto, tsc or time-enabled (default auto)\n"
    "  -j, --json                one JSON document per line instead of tables\n"
    "  -m, --compare             every method of measuring a load side by "
    "side\n"
    "  -h, --help                print this help\n"
    "  -V, --version             print the version\n\n"
    "The columns are explained in percore(1).\n";

/* ---------------------------------------------------------------------------
 * The command line
 */

struct command_line {
  struct load_options options;
  struct core_set cores;
  bool compare;
};

static int parse_cores(const char *text, struct command_line *line) {
  int status = core_set_parse(&line->cores, text);
  if (status == 0 && core_set_count(&line->cores) > 0) {
    line->options.cores = &line->cores;
    return TOOL_OK;
  }
  if (status == -ERANGE)
    return say_usage(COMMAND, "--cores '%s': cores are numbered 0 to %d", text,
                     CORES_MAX - 1);
  return say_usage(
      COMMAND, "--cores wants a list such as 0-3,8 in rising order, not '%s'",
      text);
}

static int take_option(int option, const char *text, void *into) {
  struct command_line *line = into;
  struct load_options *options = &line->options;
  switch (option) {
  case 'i':
    return arguments_interval(COMMAND, text, &options->interval_s);
  case 'n':
    return arguments_count(COMMAND, text, &options->count);
  case 'c':
    return parse_cores(text, line);
  case 's':
    if (source_parse(&options->source, text) == 0)
      return TOOL_OK;
    return say_usage(COMMAND,
                     "--source is one of auto, mperf, ref-cycles, event, bpf, "
                     "idle; not '%s'",
                     text);
  case 'e':
    options->event = text;
    return TOOL_OK;
  case 'f':
    if (arguments_number(text, 1, 1e12, &options->base_frequency_hz))
      return TOOL_OK;
    return say_usage(
        COMMAND, "--base-frequency wants Hz, such as 2.4e9, not '%s'", text);
  case 'd':
    if (denominator_parse(&options->denominator, text) == 0)
      return TOOL_OK;
    return say_usage(
        COMMAND, "--denominator is one of auto, tsc, time-enabled; not '%s'",
        text);
  case 'j':
    options->json = true;
    return TOOL_OK;
  default:
    line->compare = true;
    return TOOL_OK;
  }
}

static int check(const struct command_line *line) {
  const struct load_options *options = &line->options;
  if (options->source == SOURCE_EVENT && options->event == NULL)
    return say_usage(COMMAND, "--source event needs --event EVENT");
  if (options->event != NULL && options->source != SOURCE_EVENT &&
      options->source != SOURCE_AUTO && !line->compare)
    return say_usage(COMMAND, "--event is for --source event, not for %s",
                     source_name(options->source));
  return TOOL_OK;
}

/* As arguments_read. */
static int read_command_line(int argc, char **argv, struct command_line *line) {
  static const struct option options[] = {
      {"interval", required_argument, NULL, 'i'},
      {"count", required_argument, NULL, 'n'},
      {"cores", required_argument, NULL, 'c'},
      {"source", required_argument, NULL, 's'},
      {"event", required_argument, NULL, 'e'},
      {"base-frequency", required_argument, NULL, 'f'},
      {"denominator", required_argument, NULL, 'd'},
      {"json", no_argument, NULL, 'j'},
      {"compare", no_argument, NULL, 'm'},
      ARGUMENTS_END,
  };
  static const struct arguments arguments = {.command = COMMAND,
                                             .help = help,
                                             .options = options,
                                             .take = take_option};
  int status = arguments_read(&arguments, argc, argv, line);
  if (status < 0 && check(line) != TOOL_OK)
    return TOOL_USAGE;
  return status;
}

/* ---------------------------------------------------------------------------
 * Sampling and showing
 */

static int table(FILE *out, const void *figures, struct window window) {
  return load_table_write(out, figures, window);
}

static int json(FILE *out, const void *figures) {
  return load_json_write(out, figures);
}

struct sampling {
  struct sampler *sampler;
  struct snapshot *shown;
};

/* The next snapshot, or NULL if told to stop. */
static struct snapshot *wait_for(struct live *live, struct sampler *sampler) {
  while (!stop_requested()) {
    struct snapshot *snapshot = sampler_wait(sampler, UINT64_C(100000000));
    if (snapshot != NULL)
      return snapshot;
    live_follow(live);
  }
  return NULL;
}

static int next(struct live *live, void *context, const void **figures) {
  struct sampling *sampling = context;
  struct snapshot *snapshot = wait_for(live, sampling->sampler);
  if (snapshot == NULL)
    return TOOL_OK;
  snapshot_free(sampling->shown);
  *figures = sampling->shown = snapshot;
  return sampler_has_source(sampling->sampler)
             ? TOOL_OK
             : live_fail(live, LOAD_NO_SOURCE);
}

static const struct live_face face = {
    .command = COMMAND,
    .waiting = "Testing the sources; figures come in a few seconds. Ctrl-C "
               "ends.",
    .next = next,
    .table = table,
    .json = json,
};

static int run(const struct load_options *options, struct live *live,
               struct sampler *sampler) {
  struct sampling sampling = {.sampler = sampler};
  /* Snapshots come at multiples of the interval, so the first one covers less:
   * too little to look at, unless the interval is long. */
  if (options->interval_s <= INTERVAL_WHOLE_S)
    snapshot_free(wait_for(live, sampler));
  int status = live_run(live, options->count, &sampling);
  snapshot_free(sampling.shown);
  return status;
}

struct engine_options load_engine_options(const struct load_options *options,
                                          struct machine *machine,
                                          struct journal journal) {
  return (struct engine_options){
      .cores = options->cores,
      .machine = machine,
      .hardware = true,
      .source = options->source,
      .event = options->event,
      .base_frequency_hz = options->base_frequency_hz,
      .denominator = options->denominator,
      .isolated_cores = ISOLATED_CORES_IDLE,
      .frequency = options->json,
      .raise_limit = true,
      .journal = journal,
      .cancel = stop_flag(),
  };
}

/* Windows for minimum and maximum: a quarter of the interval, but not so short
 * that the 10 ms steps of /proc/stat would make the extremes, and not longer
 * than the plugin's. */
static uint64_t sample_interval_ns(double interval_s) {
  double longest_s = (double)LOADAVG_INTERVAL_NS / 4e9;
  double window_s = fmax(interval_s / 4, fmin(interval_s, 0.5));
  return (uint64_t)(fmin(window_s, longest_s) * 1e9);
}

static int load_run(const struct load_options *options,
                    struct machine *machine) {
  struct live *live = live_open(&face, options->json);
  if (live == NULL)
    return say_failure(COMMAND, "%s", strerror(ENOMEM));
  struct sampler_options sampling = {
      .engine = load_engine_options(options, machine, live_journal(live)),
      .figures = {.period_s = {60, 300, 900},
                  .periods_len = 3,
                  .run_queue = true,
                  .count_blocked = true},
      .interval_ns = (uint64_t)(options->interval_s * 1e9),
      .sample_interval_ns = sample_interval_ns(options->interval_s),
  };
  struct sampler *sampler = NULL;
  int result, status = sampler_start(&sampler, &sampling);
  if (status == 0) {
    result = run(options, live, sampler);
    sampler_stop(sampler);
  } else {
    result = live_fail(live, "cannot sample: %s", strerror(-status));
  }
  live_close(live);
  return result;
}

int load_main(int argc, char **argv) {
  struct command_line line = {
      .options = {.interval_s = INTERVAL_DEFAULT_S, .source = SOURCE_AUTO}};
  int status = read_command_line(argc, argv, &line);
  if (status >= 0)
    return status;
  struct machine *machine = machine_linux(NULL);
  if (machine == NULL)
    return say_failure(COMMAND, "%s", strerror(errno));
  stop_catch();
  status = line.compare ? compare_run(&line.options, machine)
                        : load_run(&line.options, machine);
  machine_linux_close(machine);
  return status;
}
