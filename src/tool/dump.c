/* percore dump: every value of a region, once. */
#include "dump.h"

#include "arguments.h"
#include "target.h"
#include "tool.h"
#include "values.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "dump"

static const char help[] =
    "Usage: percore dump REGION [OPTION]...\n"
    "Prints every value of a region once: counters and histograms since they\n"
    "were last reset, gauges, levels and states as they stand. REGION is NAME\n"
    "or NAME@INSTANCE.\n\n"
    "  -t, --table TABLE  only this table\n"
    "  -p, --per-core     the values of each core, too\n"
    "  -j, --json         one JSON document instead of lines\n"
    "  -h, --help         print this help\n"
    "  -V, --version      print the version\n";

struct dump_options {
  const char *region;
  const char *table; /* NULL: all */
  bool per_core, json;
};

struct walk {
  const struct dump_options *options;
  struct region_reader *reader;
  const struct region_directory *directory;
  const struct dump_face *face;
  void *context;
};

/* ---------------------------------------------------------------------------
 * Rows
 */

/* In the table `core` a sum over cores says nothing. */
enum { TABLE_CORE = 0 };

static bool wants_cores(const struct walk *walk, uint32_t t) {
  const struct region_directory *directory = walk->directory;
  if (directory->tables[t].storage != PERCORE_PER_CORE)
    return false;
  bool wanted = walk->options->per_core || t == TABLE_CORE;
  for (uint32_t f = 0; f < directory->tables[t].field_count; f++)
    wanted |= !field_has_total(directory, t, f);
  return wanted;
}

/* What people see of a row; region_row_shown, but a field at a time. */
static void take_shown(const struct walk *walk, const struct region_tile *tile,
                       uint32_t i, uint64_t *shown) {
  const struct region_table *table = &walk->directory->tables[tile->table];
  size_t at = (size_t)i * tile->columns;
  for (uint32_t f = 0; f < table->field_count; f++) {
    const struct region_field *field =
        &walk->directory->fields[table->first_field + f];
    const uint64_t *base =
        field->kind == PERCORE_COUNTER || field->kind == PERCORE_HISTOGRAM
            ? tile->resets
        : field->kind == PERCORE_GAUGE ? tile->births
                                       : NULL;
    for (uint32_t c = field->column; c < field->column + field->cells; c++)
      shown[c] = tile->totals[at + c] - (base != NULL ? base[at + c] : 0);
  }
}

static void write_row(const struct walk *walk, const struct region_tile *tile,
                      uint32_t i) {
  char name[REGION_ROW_NAME_SIZE];
  uint64_t shown[PERCORE_MAX_COLUMNS];
  if (region_state(tile->generations[i]) != REGION_LIVE ||
      !region_reader_row_name(walk->reader, tile->table, tile->first_row + i,
                              tile->generations[i], name))
    return;
  take_shown(walk, tile, i, shown);
  struct dump_row row = {.directory = walk->directory,
                         .table = tile->table,
                         .name = name,
                         .torn = tile->torn[i] != 0,
                         .with_total = tile->table != TABLE_CORE,
                         .shown = shown,
                         .all_on_cores = walk->options->per_core ||
                                         tile->table == TABLE_CORE};
  if (tile->cores != NULL) {
    row.core_count = (int)tile->core_count;
    row.core_used = tile->core_used;
    row.cores = tile->cores + (size_t)i * tile->columns;
    row.core_stride = (size_t)tile->capacity * tile->columns;
  }
  walk->face->row(walk->context, &row);
}

/* 0 or -errno; -EPIPE if nobody reads on. */
static int write_rows(const struct walk *walk, struct region_tile *tile) {
  for (uint32_t first = 0;; first += tile->rows) {
    region_tile_read(walk->reader, tile, first);
    if (tile->rows == 0)
      return 0;
    for (uint32_t i = 0; i < tile->rows; i++)
      write_row(walk, tile, i);
    int status = flush_output(COMMAND);
    if (status != 0)
      return status;
    if (stop_requested())
      return -EINTR;
  }
}

static int write_table(const struct walk *walk, uint32_t t) {
  struct region_tile tile;
  bool with_cores = wants_cores(walk, t);
  uint32_t want = REGION_WANT_BIRTHS | REGION_WANT_RESETS |
                  (with_cores ? REGION_WANT_CORES : 0);
  if (region_tile_init(&tile, walk->reader, t,
                       rows_per_tile(walk->directory, t, with_cores),
                       want) != 0) {
    int error = errno;
    say_failure(COMMAND, "%s", strerror(error));
    return -error;
  }
  walk->face->begin_table(walk->context, walk->directory, t,
                          region_reader_rows(walk->reader, t),
                          region_reader_live_rows(walk->reader, t));
  int status = write_rows(walk, &tile);
  walk->face->end_table(walk->context);
  region_tile_free(&tile);
  return status;
}

/* ---------------------------------------------------------------------------
 * The whole
 */

static int write_region(struct walk *walk, int only) {
  if (walk->face->begin(&walk->context, walk->reader) != 0)
    return say_failure(COMMAND, "%s", strerror(ENOMEM));
  int status = 0;
  for (uint32_t t = 0; status == 0 && t < walk->directory->table_count; t++)
    if (only < 0 || t == (uint32_t)only)
      status = write_table(walk, t);
  if (walk->face->end(walk->context) != 0 && status == 0) {
    say_failure(COMMAND, "%s", strerror(ENOMEM));
    status = -ENOMEM;
  }
  if (status == 0)
    status = flush_output(COMMAND);
  return status == 0 || status == -EPIPE ? TOOL_OK : TOOL_FAILURE;
}

static int run(const struct dump_options *options) {
  struct walk walk = {.options = options,
                      .face = options->json ? &dump_json : &dump_text};
  int only = -1, status = target_open(COMMAND, options->region, &walk.reader);
  if (status != TOOL_OK)
    return status;
  walk.directory = region_reader_directory(walk.reader);
  if (options->table != NULL)
    only = target_table(walk.directory, options->table);
  status = options->table != NULL && only < 0
               ? target_no_table(COMMAND, walk.directory, options->table)
               : write_region(&walk, only);
  region_reader_close(walk.reader);
  return status;
}

static int take_option(int option, const char *text, void *into) {
  struct dump_options *options = into;
  if (option == 't')
    options->table = text;
  options->per_core |= option == 'p';
  options->json |= option == 'j';
  return TOOL_OK;
}

int dump_main(int argc, char **argv) {
  static const struct option options[] = {
      {"table", required_argument, NULL, 't'},
      {"per-core", no_argument, NULL, 'p'},
      {"json", no_argument, NULL, 'j'},
      ARGUMENTS_END,
  };
  static const struct arguments arguments = {.command = COMMAND,
                                             .help = help,
                                             .options = options,
                                             .take = take_option,
                                             .takes_words = true};
  struct dump_options asked = {0};
  int status = arguments_read(&arguments, argc, argv, &asked);
  if (status < 0)
    status = arguments_region(COMMAND, argc, argv, &asked.region);
  if (status >= 0)
    return status;
  stop_catch();
  return run(&asked);
}
