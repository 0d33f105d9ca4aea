/* percore load: shows how busy each core is, live. */
#include "load.h"
#include "arguments.h"
#include "board/publish.h"
#include "board/read.h"
#include "cycles/aggregate.h"
#include "cycles/core.h"
#include "cycles/sampler.h"
#include "doctor.h"
#include "live.h"
#include "regions.h"
#include "tool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------
 * The command line
 */

#define COMMAND "load"

struct load_options {
  double interval_s;
  uint64_t count;        /* number of tables; 0: no limit */
  struct core_set cores; /* empty: all */
  const char *source;
  bool json, publish, time;
  bool all; /* percore without a command: regions and the doctor's line, too */
};

static const char *source_choice(int i) {
  return i == 0 ? "auto" : i <= SOURCES ? source_name(i - 1) : NULL;
}

static const struct argument arguments[] = {
    ARGUMENT_INTERVAL(struct load_options),
    ARGUMENT_COUNT(struct load_options),
    ARGUMENT(struct load_options, cores, 'c', "cores", ARGUMENT_CORES, "LIST",
             "show only these cores, such as 0-3,8"),
    ARGUMENT(struct load_options, source, 's', "source", ARGUMENT_TEXT, "NAME",
             "where loads come from", .choice = source_choice),
    ARGUMENT_JSON(struct load_options),
    ARGUMENT(struct load_options, time, 't', "time", ARGUMENT_FLAG, NULL,
             "also show user, system, irq and softirq time"),
    ARGUMENT(struct load_options, publish, 'p', "publish", ARGUMENT_FLAG, NULL,
             "publish the loads as the region board, for percore pick and "
             "programs"),
};

int load_check_cores(const char *command, struct core_set wanted,
                     const struct machine *machine) {
  struct core_set possible;
  char list[256];
  if (machine_read_core_set(machine, &possible,
                            "/sys/devices/system/cpu/possible") != 0 ||
      core_set_count(&wanted) == 0)
    return TOOL_OK;
  core_set_intersect(&wanted, &possible);
  if (core_set_count(&wanted) > 0)
    return TOOL_OK;
  core_set_format(&possible, list, sizeof(list));
  return say_usage(command, "--cores: this machine has only the cores %s",
                   list);
}

/* ---------------------------------------------------------------------------
 * What is measured
 */

static struct engine_options engine_options(const struct load_options *options,
                                            struct machine *machine,
                                            struct journal journal) {
  struct engine_options engine = {
      .cores = core_set_count(&options->cores) > 0 ? &options->cores : NULL,
      .machine = machine,
      .hardware = true,
      .isolated_cores = ISOLATED_CORES_IDLE,
      .frequency = options->json,
      .bounds = true,
      .journal = journal,
      .cancel = stop_flag(),
  };
  source_parse(&engine.source, options->source);
  return engine;
}

/* Notices only repeat what the table shows about sources, unless the user has
 * named a source that is not used. */
static enum journal_level journal_level(const struct load_options *options) {
  enum source_kind source = SOURCE_AUTO;
  source_parse(&source, options->source);
  return source_is_counter(source) ? JOURNAL_NOTICE : JOURNAL_WARNING;
}

/* Returns the length of the windows from which the minimum and the maximum load
 * are taken: a quarter of the interval, but long enough that the 10 ms steps of
 * /proc/stat do not dominate the extremes, and no longer than the plugin's
 * windows. */
static uint64_t sample_interval_ns(double interval_s) {
  double longest_s = (double)LOADAVG_INTERVAL_NS / 4e9;
  double window_s = fmax(interval_s / 4, fmin(interval_s, 0.5));
  return (uint64_t)(fmin(window_s, longest_s) * 1e9);
}

/* ---------------------------------------------------------------------------
 * Sampling and showing
 */

struct sampling {
  struct sampler *sampler;
  struct snapshot *shown;
  struct load_page page;
  char *doctor; /* its line; NULL unless options->all */
  char *below;
};

/* Below the loads are the regions, in at most a third of the screen, and what
 * the doctor says first. */
static void renew_below(struct sampling *sampling, struct screen screen) {
  struct screen third = screen;
  third.height /= 3;
  char *regions = regions_text(third), *below = NULL;
  if (regions == NULL ||
      asprintf(&below, "%s%s", regions, sampling->doctor) < 0)
    below = NULL;
  free(regions);
  free(sampling->below);
  sampling->page.below = sampling->below = below;
}

static int next(struct live *live, void *context, const void **figures) {
  struct sampling *sampling = context;
  struct snapshot *snapshot = sampler_wait(sampling->sampler, LIVE_WAIT_NS);
  if (snapshot == NULL)
    return TOOL_OK;
  snapshot_free(sampling->shown);
  sampling->page.snapshot = sampling->shown = snapshot;
  if (sampling->doctor != NULL)
    renew_below(sampling, *live_view(live));
  *figures = &sampling->page;
  return sampler_has_source(sampling->sampler)
             ? TOOL_OK
             : live_fail(live, "no source of loads works here: see 'percore "
                               "doctor' for reasons and advice");
}

static const struct live_face face = {
    .command = COMMAND,
    .waiting = "Testing the sources; the first loads take a few seconds.",
    .next = next,
    .table = load_table_write,
    .json = load_json_write,
    .order = load_table_order,
};

#define BOARD_INTERVAL_MAX_NS UINT64_C(60000000000)

/* The board that this command writes. If it writes none, it reads the board of
 * collectd, which alone knows which polls found nothing, and whose load
 * averages are older than this command. */
struct publishing {
  struct board *board; /* NULL: not asked for */
  struct board_reader *others;
  struct machine *machine;
  bool any_source; /* the user has named none: the board's averages will do */
};

/* Adds to the room of each core the share of polls that found nothing, as the
 * board tells it, and takes the board's load averages if it has all of them. */
static void take_from_board(const struct publishing *publishing,
                            struct snapshot *snapshot,
                            const struct topology *topology) {
  struct board_reader *reader = publishing->others;
  bool has_all = publishing->any_source;
  struct board_core row;
  board_reader_update(reader);
  for (size_t i = 0; i < snapshot->cores_len; i++) {
    struct core_figures *core = &snapshot->cores[i];
    bool is_known = board_reader_core(reader, core->core, &row);
    if (is_known)
      core->room = more_room(1 - core->load, row.room + row.load - 1);
    has_all &= is_known || !core->online;
    if (core->online && has_all)
      memcpy(core->load_average, row.average, sizeof(row.average));
  }
  if (has_all)
    snapshot_sum_averages(snapshot);
  (void)aggregate_all(snapshot, topology, NULL, 0);
}

/* Runs in the sampler's thread. */
static void publish(void *context, struct snapshot *snapshot,
                    const struct topology *topology) {
  struct publishing *publishing = context;
  if (publishing->board != NULL)
    board_publish(publishing->board, snapshot, topology);
  if (publishing->board != NULL && board_is_published(publishing->board))
    return;
  if (publishing->others == NULL)
    publishing->others = board_reader_open(
        publishing->machine, topology->cores_len, BOARD_INTERVAL_MAX_NS, 0);
  if (publishing->others != NULL)
    take_from_board(publishing, snapshot, topology);
}

/* With --publish, every message about the board is shown as a warning. */
static void warn(void *context, enum journal_level level, const char *line) {
  const struct journal *journal = context;
  (void)level;
  journal->write(journal->context, JOURNAL_WARNING, line);
}

static int load_run(const struct load_options *options,
                    struct machine *machine) {
  struct live *live = live_open(&face, options->json);
  struct journal journal = live_journal(live, journal_level(options));
  const struct journal warnings = {.write = warn, .context = &journal};
  struct publishing publishing = {
      .board = options->publish ? board_open(BOARD_GROUP, &warnings) : NULL,
      .machine = machine,
      .any_source = strcmp(options->source, "auto") == 0};
  struct sampler_options sampler_options = {
      .engine = engine_options(options, machine, journal),
      .interval_ns = (uint64_t)(options->interval_s * 1e9),
      .sample_interval_ns = sample_interval_ns(options->interval_s),
      .from_start = true,
      .publish = publish,
      .context = &publishing,
  };
  struct sampling sampling = {.page = {.time = options->time},
                              .doctor =
                                  options->all ? doctor_line(machine) : NULL};
  int result, status = sampler_start(&sampling.sampler, &sampler_options);
  if (status == 0) {
    result = live_run(live, options->count, &sampling);
    snapshot_free(sampling.shown);
    sampler_stop(sampling.sampler);
    free(sampling.below);
  } else {
    result = live_fail(live, "cannot read loads: %s", strerror(-status));
  }
  free(sampling.doctor);
  board_close(publishing.board);
  board_reader_close(publishing.others);
  live_close(live);
  return result;
}

static int load_main(void *given, const char *word, struct machine *machine) {
  struct load_options *options = given;
  (void)word;
  int status = load_check_cores(COMMAND, options->cores, machine);
  if (status != TOOL_OK)
    return status;
  if (options->all && terminal_screen().width == 0)
    options->count = 1;
  stop_catch();
  return load_run(options, machine);
}

const struct command all_command = {
    .name = COMMAND,
    DEFAULTS(load_options, .source = "auto", .interval_s = INTERVAL_DEFAULT_S,
             .all = true),
    .run = load_main,
};

const struct command load_command = {
    .name = COMMAND,
    .summary = "show how busy each core is, live",
    .usage = "[OPTION]...",
    .about = "Shows how busy each core is every few seconds: on a terminal in "
             "place (q quits, < > sort, r reverses), otherwise one table after "
             "the other. Ctrl-C ends it. percore(1) explains the columns.",
    .arguments = ARGUMENTS(arguments),
    DEFAULTS(load_options, .source = "auto", .interval_s = INTERVAL_DEFAULT_S),
    .run = load_main,
};
