/* percore dump: prints every value of a region once. */
#include "dump.h"

#include "arguments.h"
#include "target.h"
#include "tool.h"
#include "values.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dump_options {
  const char *table; /* NULL: all */
  bool per_core, json;
};

static const struct argument arguments[] = {
    ARGUMENT(struct dump_options, table, 't', "table", ARGUMENT_TEXT, "TABLE",
             "only this table"),
    ARGUMENT(struct dump_options, per_core, 'p', "per-core", ARGUMENT_FLAG,
             NULL, "also print the values of each core"),
    ARGUMENT_JSON(struct dump_options),
};

#define COMMAND "dump"

struct walk {
  const struct dump_options *options;
  struct region_reader *reader;
  const struct region_directory *directory;
  struct json *json; /* NULL: write text */
};

/* ---------------------------------------------------------------------------
 * Rows
 */

/* In the table `core`, a sum over cores has no meaning. */
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

static void write_row(const struct walk *walk, const struct region_tile *tile,
                      uint32_t i) {
  char name[REGION_ROW_NAME_SIZE];
  uint64_t shown[PERCORE_MAX_COLUMNS];
  if (region_state(tile->generations[i]) != REGION_LIVE ||
      !region_reader_row_name(walk->reader, tile->table, tile->first_row + i,
                              tile->generations[i], name))
    return;
  for (uint32_t c = 0; c < tile->columns; c++)
    shown[c] = region_row_shown(walk->directory, tile, i, c);
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
  if (walk->json != NULL)
    dump_json_row(walk->json, &row);
  else
    dump_text_row(&row);
}

/* Returns 0, or -errno after printing it; -EPIPE if nobody reads the output any
 * more. */
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
    if (error != ENOMEM)
      say_failure(COMMAND, "cannot read table %s: %s",
                  walk->directory->described[t].name, strerror(error));
    return -error;
  }
  if (walk->json != NULL)
    dump_json_table(walk->json, walk->directory, t,
                    region_reader_rows(walk->reader, t));
  else
    dump_text_table(walk->directory, t,
                    region_reader_live_rows(walk->reader, t));
  int status = write_rows(walk, &tile);
  if (walk->json != NULL) {
    json_close_array(walk->json);
    json_close_object(walk->json);
  }
  region_tile_free(&tile);
  return status;
}

/* ---------------------------------------------------------------------------
 * All tables
 */

static int write_tables(const struct walk *walk, int only) {
  int status = 0;
  for (uint32_t t = 0; status == 0 && t < walk->directory->table_count; t++)
    if (only < 0 || t == (uint32_t)only)
      status = write_table(walk, t);
  return status;
}

static int write_json(struct walk *walk, int only) {
  walk->json = json_begin(stdout, COMMAND);
  if (walk->json == NULL)
    return -ENOMEM;
  dump_json_region(walk->json, walk->reader);
  json_open_array(walk->json, "tables");
  int status = write_tables(walk, only);
  json_close_array(walk->json);
  int ended = json_end(walk->json);
  return status == 0 ? ended : status;
}

static int write_region(struct walk *walk, int only) {
  int status;
  if (walk->options->json) {
    status = write_json(walk, only);
  } else {
    dump_text_region(walk->reader);
    status = write_tables(walk, only);
  }
  if (status == -ENOMEM)
    say_failure(COMMAND, "%s", strerror(ENOMEM));
  if (status == 0)
    status = flush_output(COMMAND);
  return status == 0 || status == -EPIPE ? TOOL_OK : TOOL_FAILURE;
}

static int run(const struct dump_options *options, const char *region) {
  struct walk walk = {.options = options};
  int only = -1, status = target_open(COMMAND, region, &walk.reader);
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

static int dump_main(int argc, char **argv) {
  struct dump_options options = {0};
  int status = arguments_read(&dump_command, argc, argv, &options);
  if (status >= 0)
    return status;
  stop_catch();
  return run(&options, argv[optind]);
}

const struct command dump_command = {
    .name = "dump",
    .summary = "print every value of a region, once",
    .usage = "REGION [OPTION]...",
    .about = "Prints every value of a region once: counters and histograms "
             "since their last reset, gauges, levels and states as they are. "
             "REGION is NAME or NAME@INSTANCE.",
    .arguments = ARGUMENTS(arguments),
    .words_min = 1,
    .words_max = 1,
    .words_missing = TARGET_MISSING,
    .run = dump_main,
};
