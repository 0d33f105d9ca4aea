/* percore top: what a fast path does right now. */
#include "top.h"

#include "arguments.h"
#include "live.h"
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COMMAND "top"

enum { ROWS_DEFAULT = 100, ROWS_MOST = 1000000 };
#define PAST_BYTES_MOST (UINT64_C(4) << 30) /* why_failed says it, too */

static const char help[] =
    "Usage: percore top REGION [OPTION]...\n"
    "Shows what a fast path does: rates of its counters, what its polling\n"
    "threads do with their time, and which of them are stuck; on a terminal\n"
    "in place, otherwise one table after the other. REGION is NAME or\n"
    "NAME@INSTANCE. Ends at Ctrl-C.\n\n"
    "  -i, --interval S   seconds between two looks, 0.1 to 3600 (default 2)\n"
    "  -n, --count N      end after N tables\n"
    "  -t, --table TABLE  only this table; core: only the threads\n"
    "  -s, --sort FIELD   rows with the most of it first (default: the first\n"
    "                     counter where not all rows fit; row: no order)\n"
    "  -r, --rows N       at most N rows of each table (default 100)\n"
    "  -p, --per-core     the rates of each core, too\n"
    "  -j, --json         one JSON document per line instead of tables\n"
    "  -h, --help         print this help\n"
    "  -V, --version      print the version\n";

struct top_options {
  const char *region, *table;
  double interval_s;
  uint64_t count; /* 0: until it is told to stop */
  struct rates_options rates;
  bool json;
};

struct top {
  const struct top_options *options;
  struct region_reader *reader;
  struct top_figures figures;
};

/* ---------------------------------------------------------------------------
 * Looking
 */

static void close_tables(struct top *top) {
  struct top_figures *figures = &top->figures;
  for (size_t t = 0; t < figures->tables_len; t++)
    rates_close(&figures->tables[t]);
  free(figures->tables);
  workers_close(&figures->workers);
  figures->tables = NULL;
  figures->tables_len = 0;
  figures->with_workers = false;
}

static bool is_shown(const struct top *top, uint32_t t) {
  const struct region_directory *directory = top->figures.directory;
  return top->options->table == NULL ||
         strcmp(directory->described[t].name, top->options->table) == 0;
}

/* A field to sort by need not be in every table, but in one. */
static int open_tables(struct top *top) {
  struct top_figures *figures = &top->figures;
  bool sorted = top->options->rates.sort == NULL;
  uint32_t count = figures->directory->table_count;
  figures->with_workers = is_shown(top, 0);
  if (figures->with_workers &&
      workers_open(&figures->workers, top->reader) != 0)
    return -ENOMEM;
  figures->tables = calloc(count, sizeof(*figures->tables));
  if (figures->tables == NULL)
    return -ENOMEM;
  for (uint32_t t = 1; t < count; t++) {
    struct rates_options options = top->options->rates;
    if (!is_shown(top, t))
      continue;
    struct rates *rates = &figures->tables[figures->tables_len];
    int status = rates_open(rates, top->reader, t, &options);
    sorted |= status == 0;
    if (status == -ENOENT) {
      options.sort = NULL;
      status = rates_open(rates, top->reader, t, &options);
    }
    if (status != 0)
      return status;
    figures->tables_len++;
  }
  return sorted || figures->tables_len == 0 ? 0 : -ENOENT;
}

static int take_region(struct top *top) {
  struct top_figures *figures = &top->figures;
  close_tables(top);
  figures->directory = region_reader_directory(top->reader);
  figures->pid = region_reader_pid(top->reader);
  figures->uid = region_reader_uid(top->reader);
  figures->tsc_hz = figures->directory->header.tsc_hz;
  target_name(figures->region, figures->directory);
  return open_tables(top);
}

static int read_tables(struct top *top) {
  struct top_figures *figures = &top->figures;
  int status = 0;
  if (figures->with_workers)
    workers_read(&figures->workers, top->reader, monotonic_ns());
  for (size_t t = 0; t < figures->tables_len && status == 0; t++)
    status = rates_read(&figures->tables[t], top->reader, monotonic_ns());
  return status;
}

/* 0 or -errno. A producer that ends is looked at once more by the next call,
 * and one that takes its place is begun with. */
static int look(struct top *top) {
  struct top_figures *figures = &top->figures;
  struct timespec now;
  enum region_event event = region_reader_refresh(top->reader);
  clock_gettime(CLOCK_REALTIME, &now);
  figures->realtime_ns =
      (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
  figures->alive = event == REGION_WENT ||
                   region_reader_presence(top->reader) == REGION_ALIVE;
  figures->why = region_reader_error(top->reader);
  if (!figures->alive)
    return 0;
  /* Another producer may lack the field that rows are sorted by. */
  int status = event == REGION_CAME ? take_region(top) : 0;
  return status == 0 || status == -ENOENT ? read_tables(top) : status;
}

/* ---------------------------------------------------------------------------
 * Showing
 */

static int table(FILE *out, const void *figures, struct window window) {
  return top_table_write(out, figures, window);
}

static int json(FILE *out, const void *figures) {
  return top_json_write(out, figures);
}

static const char *why_failed(int status) {
  return status == -EFBIG
             ? "a table has more than 4 GiB of cells to remember from look to "
               "look: choose others with --table, or leave out --per-core"
             : strerror(-status);
}

static int next(struct live *live, void *context, const void **figures) {
  struct top *top = context;
  if (!live_wait(live))
    return TOOL_OK;
  int status = look(top);
  if (status != 0)
    return live_fail(live, "%s", why_failed(status));
  *figures = &top->figures;
  return TOOL_OK;
}

static const struct live_face face = {
    .command = COMMAND,
    .waiting = "Rates come in a moment. Ctrl-C ends.",
    .next = next,
    .table = table,
    .json = json,
};

static int run_live(struct top *top) {
  struct live *live = live_open(&face, top->options->json);
  if (live == NULL)
    return say_failure(COMMAND, "%s", strerror(ENOMEM));
  live_pace(live, top->options->interval_s);
  int status = live_run(live, top->options->count, top);
  live_close(live);
  return status;
}

/* ---------------------------------------------------------------------------
 * The command
 */

/* Which columns there are instead. */
static int say_no_column(const struct top *top) {
  const struct top_figures *figures = &top->figures;
  char names[512] = "";
  size_t used = 0;
  for (size_t t = 0; t < figures->tables_len; t++)
    for (size_t c = 0; c < figures->tables[t].columns_len; c++)
      if (used < sizeof(names))
        used += (size_t)snprintf(names + used, sizeof(names) - used, ", %s",
                                 figures->tables[t].columns[c].title);
  return say_failure(COMMAND, "--sort: there is no field '%s'; there are row%s",
                     top->options->rates.sort, names);
}

static int begin(struct top *top) {
  int status = take_region(top);
  if (status == 0)
    status = read_tables(top);
  if (status == 0)
    return TOOL_OK;
  if (status == -ENOENT)
    return say_no_column(top);
  return say_failure(COMMAND, "%s", why_failed(status));
}

static int run(const struct top_options *options) {
  struct top top = {
      .options = options,
      .figures = {.interval_s = options->interval_s, .alive = true}};
  int status = target_open(COMMAND, options->region, &top.reader);
  if (status != TOOL_OK)
    return status;
  if (options->table != NULL &&
      target_table(region_reader_directory(top.reader), options->table) < 0) {
    status = target_no_table(COMMAND, region_reader_directory(top.reader),
                             options->table);
    goto cleanup;
  }
  status = begin(&top);
  if (status == TOOL_OK)
    status = run_live(&top);
cleanup:
  close_tables(&top);
  region_reader_close(top.reader);
  return status;
}

/* ---------------------------------------------------------------------------
 * The command line
 */

static int take_rows(const char *text, struct top_options *options) {
  uint64_t rows;
  if (!arguments_whole(text, ROWS_MOST, &rows))
    return say_usage(COMMAND,
                     "--rows wants a whole number from 1 to %d, not '%s'",
                     ROWS_MOST, text);
  options->rates.rows = (size_t)rows;
  return TOOL_OK;
}

static int take_option(int option, const char *text, void *into) {
  struct top_options *options = into;
  switch (option) {
  case 'i':
    return arguments_interval(COMMAND, text, &options->interval_s);
  case 'n':
    return arguments_count(COMMAND, text, &options->count);
  case 'r':
    return take_rows(text, options);
  case 't':
    options->table = text;
    return TOOL_OK;
  case 's':
    options->rates.sort = text;
    return TOOL_OK;
  case 'p':
    options->rates.per_core = true;
    return TOOL_OK;
  default:
    options->json = true;
    return TOOL_OK;
  }
}

int top_main(int argc, char **argv) {
  static const struct option options[] = {
      {"interval", required_argument, NULL, 'i'},
      {"count", required_argument, NULL, 'n'},
      {"table", required_argument, NULL, 't'},
      {"sort", required_argument, NULL, 's'},
      {"rows", required_argument, NULL, 'r'},
      {"per-core", no_argument, NULL, 'p'},
      {"json", no_argument, NULL, 'j'},
      ARGUMENTS_END,
  };
  static const struct arguments arguments = {.command = COMMAND,
                                             .help = help,
                                             .options = options,
                                             .take = take_option,
                                             .takes_words = true};
  struct top_options asked = {
      .interval_s = INTERVAL_DEFAULT_S,
      .rates = {.rows = ROWS_DEFAULT, .bytes_most = PAST_BYTES_MOST}};
  int status = arguments_read(&arguments, argc, argv, &asked);
  if (status < 0)
    status = arguments_region(COMMAND, argc, argv, &asked.region);
  if (status >= 0)
    return status;
  stop_catch();
  return run(&asked);
}
