/* percore load: how busy each core is, live. */
#include "cycles/sampler.h"
#include "live.h"
#include "load_print.h"
#include "tool.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "load"
#define INTERVAL_DEFAULT_S 2.0
#define INTERVAL_LEAST_S 0.1
#define INTERVAL_MOST_S 3600.0
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
    "  -s, --source NAME         auto, mperf, ref-cycles, event or idle "
    "(default auto)\n"
    "  -e, --event EVENT         the perf event of source event: pmu/name/ or "
    "r1a8\n"
    "  -f, --base-frequency HZ   how fast the event counts on a core that is "
    "not halted\n"
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

/* A number from least to most, and nothing else. */
static bool parse_number(const char *text, double least, double most,
                         double *value) {
  char *end;
  errno = 0;
  *value = strtod(text, &end);
  return errno == 0 && end != text && *end == '\0' && isfinite(*value) &&
         *value >= least && *value <= most;
}

static int parse_count(const char *text, uint64_t *count) {
  double value;
  if (!parse_number(text, 1, 1e15, &value) || value != floor(value))
    return say_usage(COMMAND, "--count wants a whole number from 1, not '%s'",
                     text);
  *count = (uint64_t)value;
  return TOOL_OK;
}

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

static int parse_option(int option, const char *text,
                        struct command_line *line) {
  struct load_options *options = &line->options;
  switch (option) {
  case 'i':
    if (parse_number(text, INTERVAL_LEAST_S, INTERVAL_MOST_S,
                     &options->interval_s))
      return TOOL_OK;
    return say_usage(COMMAND, "--interval wants %g to %g seconds, not '%s'",
                     INTERVAL_LEAST_S, INTERVAL_MOST_S, text);
  case 'n':
    return parse_count(text, &options->count);
  case 'c':
    return parse_cores(text, line);
  case 's':
    if (source_parse(&options->source, text) == 0)
      return TOOL_OK;
    return say_usage(
        COMMAND,
        "--source is one of auto, mperf, ref-cycles, event, idle; not '%s'",
        text);
  case 'e':
    options->event = text;
    return TOOL_OK;
  case 'f':
    if (parse_number(text, 1, 1e12, &options->base_frequency_hz))
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
  case 'm':
    line->compare = true;
    return TOOL_OK;
  default: /* getopt has said what is wrong */
    fprintf(stderr, "Try 'percore " COMMAND " --help'.\n");
    return TOOL_USAGE;
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

/* Returns -1 if the command is to be carried out, else the exit code. */
static int parse(int argc, char **argv, struct command_line *line) {
  static const struct option long_options[] = {
      {"interval", required_argument, NULL, 'i'},
      {"count", required_argument, NULL, 'n'},
      {"cores", required_argument, NULL, 'c'},
      {"source", required_argument, NULL, 's'},
      {"event", required_argument, NULL, 'e'},
      {"base-frequency", required_argument, NULL, 'f'},
      {"denominator", required_argument, NULL, 'd'},
      {"json", no_argument, NULL, 'j'},
      {"compare", no_argument, NULL, 'm'},
      {"help", no_argument, NULL, 'h'},
      {"version", no_argument, NULL, 'V'},
      {NULL, 0, NULL, 0},
  };
  argv[0] = "percore " COMMAND; /* for getopt's messages */
  for (int option; (option = getopt_long(argc, argv, "i:n:c:s:e:f:d:jmhV",
                                         long_options, NULL)) != -1;) {
    if (option == 'h')
      return say_text(COMMAND, help);
    if (option == 'V')
      return say_version();
    int status = parse_option(option, optarg, line);
    if (status != TOOL_OK)
      return status;
  }
  if (optind < argc)
    return say_usage(COMMAND, "'%s' is not an option", argv[optind]);
  int status = check(line);
  return status == TOOL_OK ? -1 : status;
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

static const struct live_face face = {
    .command = COMMAND,
    .waiting = "Testing the sources; figures come in a few seconds. Ctrl-C "
               "ends.",
    .table = table,
    .json = json,
};

/* The next snapshot, or NULL if told to stop. */
static struct snapshot *wait_for(struct live *live, struct sampler *sampler,
                                 const struct snapshot *shown) {
  while (!stop_requested()) {
    struct snapshot *snapshot = sampler_wait(sampler, UINT64_C(100000000));
    if (snapshot != NULL)
      return snapshot;
    live_follow(live, shown);
  }
  return NULL;
}

static int run(const struct load_options *options, struct live *live,
               struct sampler *sampler) {
  struct snapshot *shown = NULL;
  int status = TOOL_OK;
  /* Snapshots come at multiples of the interval, so the first one covers less:
   * too little to look at, unless the interval is long. */
  if (options->interval_s <= INTERVAL_WHOLE_S)
    snapshot_free(wait_for(live, sampler, NULL));
  for (uint64_t n = 0; options->count == 0 || n < options->count; n++) {
    struct snapshot *snapshot = wait_for(live, sampler, shown);
    if (snapshot == NULL)
      break;
    snapshot_free(shown);
    shown = snapshot;
    if (!sampler_has_source(sampler)) {
      status = say_failure(COMMAND, "no source of loads works here; 'percore "
                                    "doctor' says why and what would help");
      break;
    }
    int written = live_show(live, snapshot);
    if (written != 0) {
      status = written == -EPIPE ? TOOL_OK : TOOL_FAILURE;
      break;
    }
  }
  snapshot_free(shown);
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
    result = say_failure(COMMAND, "cannot sample: %s", strerror(-status));
  }
  live_close(live);
  return result;
}

int load_main(int argc, char **argv) {
  struct command_line line = {
      .options = {.interval_s = INTERVAL_DEFAULT_S, .source = SOURCE_AUTO}};
  int status = parse(argc, argv, &line);
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
