/* percore top: shows the rates of a region or of a BPF map live, or their
 * totals. */
#include "top.h"

#include "base/clock.h"
#include "live.h"
#include "map.h"
#include "text.h"
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "top"

enum { ROWS_DEFAULT = 100, ROWS_MOST = 1000000 };

struct top_options {
  const char *table, *sort;
  double interval_s;
  uint64_t count; /* 0: no limit */
  uint64_t rows;  /* 0: not given; if there is no page, all */
  bool totals, per_core, each, json;
};

static const struct argument arguments[] = {
    ARGUMENT_INTERVAL(struct top_options),
    ARGUMENT_COUNT(struct top_options),
    ARGUMENT(struct top_options, table, 't', "table", ARGUMENT_TEXT, "TABLE",
             "show only this table; \"core\" shows only the threads"),
    ARGUMENT(struct top_options, totals, 'a', "totals", ARGUMENT_FLAG, NULL,
             "show what was counted since the last reset, not rates; once, "
             "unless on a terminal"),
    ARGUMENT(
        struct top_options, sort, 's', "sort", ARGUMENT_TEXT, "FIELD",
        "sort rows by FIELD, largest first (default: the first counter, if "
        "not all rows fit)"),
    ARGUMENT(struct top_options, rows, 'r', "rows", ARGUMENT_WHOLE, "N",
             "show at most N rows of each table (default 100; all totals, "
             "unless on a terminal)",
             .min = 1, .max = ROWS_MOST),
    ARGUMENT(struct top_options, per_core, 'p', "per-core", ARGUMENT_FLAG, NULL,
             "also show the figures of each core"),
    ARGUMENT(struct top_options, each, 'e', "each", ARGUMENT_FLAG, NULL,
             "tell the instances of a region apart, instead of adding them up"),
    ARGUMENT_JSON(struct top_options),
};

struct top {
  const struct top_options *options;
  struct merge merge;
  struct top_figures figures;
  /* cores and order chosen with keys; NULL before the first table */
  const struct screen *view;
  uint64_t interval_ns;
  uint64_t due_ns; /* when to read the region again (CLOCK_MONOTONIC) */
};

/* ---------------------------------------------------------------------------
 * Reading
 */

static void close_tables(struct top *top) {
  struct top_figures *figures = &top->figures;
  for (size_t t = 0; t < figures->tables_len; t++)
    rates_close(&figures->tables[t]);
  free(figures->tables);
  figures->tables = NULL;
  figures->tables_len = 0;
  figures->with_workers = false;
}

static bool is_shown(const struct top *top, uint32_t t) {
  const struct region_directory *directory = top->figures.directory;
  return top->options->table == NULL ||
         strcmp(directory->described[t].name, top->options->table) == 0;
}

/* Opens the tables that are shown. Returns 0, -ENOMEM, or -ENOENT if none of
 * them contains the field to sort by. */
static int open_tables(struct top *top) {
  struct top_figures *figures = &top->figures;
  bool sorted = top->options->sort == NULL;
  uint32_t count = figures->directory->table_count;
  figures->with_workers = is_shown(top, 0) && !figures->totals;
  figures->tables = calloc(count, sizeof(*figures->tables));
  if (figures->tables == NULL)
    return -ENOMEM;
  for (uint32_t t = figures->totals ? 0 : 1; t < count; t++) {
    const struct rates_options options = {.rows = top->options->rows,
                                          .sort = top->options->sort,
                                          .per_core = top->options->per_core,
                                          .totals = figures->totals};
    if (!is_shown(top, t))
      continue;
    struct rates *rates = &figures->tables[figures->tables_len++];
    int status = rates_open(rates, &top->merge, t, &options);
    if (status != 0)
      return status;
    sorted |= rates->sort_asked;
  }
  return sorted || figures->tables_len == 0 ? 0 : -ENOENT;
}

static int take_region(struct top *top) {
  struct top_figures *figures = &top->figures;
  struct region_reader *reader = top->merge.parts[0].reader;
  close_tables(top);
  figures->merge = &top->merge;
  figures->directory = region_reader_directory(reader);
  figures->pid = region_reader_pid(reader);
  figures->uid = region_reader_uid(reader);
  figures->region = top->merge.region;
  return open_tables(top);
}

/* The keys for sorting step through the columns of one table after the other.
 */
static size_t order_after(const void *context, size_t order, bool forwards) {
  const struct top_figures *figures = context;
  size_t orders = 1;
  for (size_t t = 0; t < figures->tables_len; t++)
    orders += figures->tables[t].columns_len;
  return (order + (forwards ? 1 : orders - 1)) % orders;
}

static const char *chosen_column(const struct top_figures *figures,
                                 size_t number) {
  for (size_t t = 0; number > 0 && t < figures->tables_len; t++) {
    if (number <= figures->tables[t].columns_len)
      return figures->tables[t].columns[number - 1].title;
    number -= figures->tables[t].columns_len;
  }
  return NULL;
}

static int read_tables(struct top *top) {
  struct top_figures *figures = &top->figures;
  struct merge_part *part = NULL;
  int status = 0;
  map_renew();
  while (status == 0 && figures->with_workers &&
         (part = merge_next(&top->merge, part)) != NULL)
    status = region_workers_read(&part->workers, part->reader, monotonic_ns(),
                                 percore_tsc(), 0);
  for (size_t t = 0; top->view != NULL && t < figures->tables_len; t++)
    rates_sort(&figures->tables[t], chosen_column(figures, top->view->sort),
               top->view->reverse);
  for (size_t t = 0; t < figures->tables_len && status == 0; t++)
    status = rates_read(&figures->tables[t], monotonic_ns());
  return status;
}

/* Reads the region. If its producer has just ended, reads the last values. If a
 * new producer has appeared, starts over with the new producer's region.
 * Returns 0 or -errno. */
static int read_region(struct top *top) {
  struct top_figures *figures = &top->figures;
  enum region_event event = merge_refresh(&top->merge);
  struct region_reader *reader = top->merge.parts[0].reader;
  figures->realtime_ns = clock_now_ns(CLOCK_REALTIME);
  figures->alive = event == REGION_WENT ||
                   region_reader_presence(reader) == REGION_ALIVE ||
                   (!top->merge.is_one && merge_count(&top->merge) > 0);
  figures->why = region_reader_error(reader);
  if (!figures->alive)
    return 0;
  /* A new region may lack the field to sort by, which is not an error here. */
  int status = event == REGION_CAME ? take_region(top) : 0;
  return status == 0 || status == -ENOENT ? read_tables(top) : status;
}

/* ---------------------------------------------------------------------------
 * Showing
 */

static const char *why_failed(int status) {
  return status == -EFBIG ? "a table needs more than 4 GiB to remember its "
                            "cells: choose other "
                            "tables with --table, or leave out --per-core"
                          : strerror(-status);
}

static int next(struct live *live, void *context, const void **figures) {
  struct top *top = context;
  uint64_t turn_ns = monotonic_ns() + LIVE_WAIT_NS;
  sleep_until_ns(top->due_ns < turn_ns ? top->due_ns : turn_ns);
  uint64_t now_ns = monotonic_ns();
  if (now_ns < top->due_ns)
    return TOOL_OK;
  top->due_ns += top->interval_ns;
  if (top->due_ns < now_ns) /* intervals that were missed are skipped */
    top->due_ns = now_ns + top->interval_ns;
  top->view = live_view(live);
  int status = read_region(top);
  if (status != 0)
    return live_fail(live, "%s", why_failed(status));
  *figures = &top->figures;
  return TOOL_OK;
}

static const struct live_face face = {
    .command = COMMAND,
    .waiting = "The first rates take one interval.",
    .next = next,
    .table = top_table_write,
    .json = top_json_write,
    .order = order_after,
};

static int show_live(struct top *top) {
  struct live *live = live_open(&face, top->options->json);
  top->interval_ns = (uint64_t)(top->options->interval_s * 1e9);
  top->due_ns = monotonic_ns();
  if (!top->figures.totals) /* rates take an interval */
    top->due_ns += top->interval_ns;
  int status = live_run(live, top->options->count, top);
  live_close(live);
  return status;
}

/* ---------------------------------------------------------------------------
 * The command
 */

static int say_no_column(const struct top *top) {
  const struct top_figures *figures = &top->figures;
  char names[512] = "";
  for (size_t t = 0; t < figures->tables_len; t++)
    for (size_t c = 0; c < figures->tables[t].columns_len; c++)
      text_append(names, sizeof(names), ", ",
                  figures->tables[t].columns[c].title);
  return say_failure(COMMAND, "--sort: unknown field '%s'; choose %s",
                     top->options->sort, names);
}

static int show_region(struct top *top) {
  const struct region_directory *directory = merge_directory(&top->merge);
  const char *table = top->options->table;
  if (table != NULL && target_table(directory, table) < 0)
    return target_no_table(COMMAND, directory, table);
  int status = take_region(top);
  if (status == -ENOENT)
    return say_no_column(top);
  if (status == 0 && !top->figures.totals)
    status = read_tables(top);
  if (status != 0)
    return say_failure(COMMAND, "%s", why_failed(status));
  return show_live(top);
}

/* ---------------------------------------------------------------------------
 * Which region
 */

/* Chooses the only region whose producer is alive; percore's own regions only
 * if there are no others. */
static int choose_region(struct region_title *chosen) {
  struct listing listing;
  char names[512] = "";
  bool several = false;
  int status = listing_connect(&listing, NULL);
  for (int own = 0; own < 2 && names[0] == '\0'; own++)
    for (size_t i = 0; i < listing.len; i++) {
      const struct listed *listed = &listing.listed[i];
      if (!listed->is_valid || listed_is_own(listed) != own ||
          strcmp(listed_state(listed), "alive") != 0)
        continue;
      if (names[0] == '\0')
        *chosen = listed->title;
      several |= strcmp(chosen->region, listed->title.region) != 0;
      text_append(names, sizeof(names), ", ", listed->name);
    }
  listing_free(&listing);
  if (status != 0)
    return listing_fails(COMMAND, -status);
  if (several)
    return say_usage(COMMAND, "there are several regions; name one of them: %s",
                     names);
  if (names[0] == '\0')
    return say_failure(COMMAND,
                       "no region in %s has a producer that is alive: 'percore "
                       "regions' lists the regions",
                       region_runtime_dir());
  return TOOL_OK;
}

/* Shows a region, or a map after publishing it as a region. */
static int show(struct top_options *options, const char *word) {
  struct region_title only;
  struct top top = {.options = options,
                    .figures = {.interval_s = options->interval_s,
                                .totals = options->totals,
                                .alive = true}};
  bool is_map = word != NULL && map_is_named(word);
  int status = word == NULL ? choose_region(&only)
               : is_map     ? map_publish(COMMAND, word, &options->table)
                            : TOOL_OK;
  const char *region = word == NULL ? only.region : is_map ? MAP_REGION : word;
  if (status == TOOL_OK)
    status = merge_open(&top.merge, COMMAND, region, options->each);
  if (status == TOOL_OK)
    status = show_region(&top);
  close_tables(&top);
  merge_close(&top.merge);
  map_end();
  return status;
}

static int top_main(void *given, const char *word, struct machine *machine) {
  struct top_options *options = given;
  (void)machine;
  if (options->table != NULL && strcmp(options->table, "core") == 0 &&
      !options->totals && (options->sort != NULL || options->per_core))
    return say_usage(COMMAND, "--sort and --per-core have no effect on the "
                              "table core without --totals");
  bool has_page = !options->json && terminal_screen().width > 0;
  bool is_once = options->totals && !has_page;
  if (options->rows == 0 && (!is_once || options->sort != NULL))
    options->rows = ROWS_DEFAULT;
  if (options->count == 0 && is_once)
    options->count = 1;
  stop_catch();
  return show(options, word);
}

const struct command top_command = {
    .name = COMMAND,
    .summary = "show what a fast path or a BPF map counts, live",
    .usage = "[REGION|MAP] [OPTION]...",
    .about = "Shows the rates of a fast path's counters, what its polling "
             "threads do with their time, and which of them are stuck: on a "
             "terminal in place (q quits, < > sort, r reverses), otherwise one "
             "table after "
             "the other. REGION is NAME@INSTANCE, or NAME for all of its "
             "instances together; if there is only one region it can be left "
             "out. MAP is the path of a pinned BPF map, or id:NUMBER. Ctrl-C "
             "ends it.",
    .arguments = ARGUMENTS(arguments),
    DEFAULTS(top_options, .interval_s = INTERVAL_DEFAULT_S),
    .words_max = 1,
    .run = top_main,
};
