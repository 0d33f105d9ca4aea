/* percore dump: prints every value of a region once.
 *
 * Reads a tile (up to a few thousand rows), and writes its rows before reading
 * the next tile, so that memory use does not grow with the number of rows. */
#include "arguments.h"
#include "json.h"
#include "merge.h"
#include "text.h"
#include "tool.h"
#include "values.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dump_options {
  const char *table; /* NULL: all */
  bool per_core, each, json;
};

static const struct argument arguments[] = {
    ARGUMENT(struct dump_options, table, 't', "table", ARGUMENT_TEXT, "TABLE",
             "print only this table"),
    ARGUMENT(struct dump_options, per_core, 'p', "per-core", ARGUMENT_FLAG,
             NULL, "also print the values of each core"),
    ARGUMENT(struct dump_options, each, 'e', "each", ARGUMENT_FLAG, NULL,
             "tell the instances of a region apart, instead of adding them up"),
    ARGUMENT_JSON(struct dump_options),
};

#define COMMAND "dump"

struct dump {
  const struct dump_options *options;
  struct merge merge;
  const struct region_directory *directory;
  struct json *json; /* NULL: write text */
};

/* A live row of a tile. */
struct row {
  const struct region_tile *tile;
  uint32_t i;                /* index of the row in the tile */
  char name[MERGE_ROW_SIZE]; /* untrusted bytes; "" if the table has only one
                                row */
};

static const char *const storages[] = {"per core", "owned", "shared"};

/* True if the values of the field on each core are shown. */
static bool shows_cores(const struct dump *dump, const struct region_tile *tile,
                        uint32_t field) {
  return tile->cores != NULL &&
         (dump->options->per_core ||
          !field_has_total(dump->directory, tile->table, field));
}

/* ---------------------------------------------------------------------------
 * Text
 */

static void write_region(const struct merge *merge) {
  struct region_reader *reader = merge->parts[0].reader;
  const struct region_directory *directory = region_reader_directory(reader);
  char user[USER_TEXT_SIZE], size[SIZE_TEXT_SIZE];
  char time[TIME_TEXT_SIZE], pid[PID_TEXT_SIZE];
  user_text(user, region_reader_uid(reader));
  size_text(size, directory->header.region_size);
  time_text(time, directory->header.start_realtime_ns);
  pid_text(pid, region_reader_pid(reader));
  if (merge->is_one)
    printf("# region %s: pid %s, user %s, since %s, %s\n", merge->region, pid,
           user, time, size);
  else
    printf("# region %s: %zu instances, user %s\n", merge->region,
           merge_count(merge), user);
}

static void write_table_about(const struct dump *dump, uint32_t t,
                              uint32_t rows) {
  const struct percore_table *table = &dump->directory->described[t];
  char help[512] = "";
  printf("# table %s (%s, ", table->name, storages[table->storage]);
  if (table->max_rows == 0)
    printf("one row)");
  else
    printf("%" PRIu32 " live of at most %" PRIu32 " rows)", rows,
           table->max_rows);
  if (table->help != NULL)
    text_clean_string(help, sizeof(help), table->help);
  printf("%s%s\n", table->help != NULL ? ": " : "", help);
}

/* What is the same in all lines about a row's values on one core, or about a
 * row's totals. */
struct place {
  const struct dump *dump;
  const char *table;
  char row[MERGE_ROW_SIZE * TEXT_GROWTH]; /* clean text */
  int core;                               /* -1: all */
  bool torn;
};

/* Writes tab-separated columns. Clean text contains no tab. */
static void write_line(const struct place *place, const char *field,
                       const char *value, const char *unit) {
  char core[16], clean[VALUE_TEXT_SIZE * TEXT_GROWTH], clean_unit[256];
  snprintf(core, sizeof(core), place->core < 0 ? "all" : "%d", place->core);
  printf("%s\t%s\t%s\t%s\t%s\t%s%s\n", place->table, place->row, core, field,
         text_clean_string(clean, sizeof(clean), value),
         text_clean_string(clean_unit, sizeof(clean_unit), unit),
         place->torn ? " (torn)" : "");
}

static void write_histogram(const struct place *place, struct field_ref field,
                            const uint64_t *cells) {
  struct histogram_summary summary;
  char name[96], value[VALUE_TEXT_SIZE];
  histogram_summarise(&summary, field, cells);
  snprintf(name, sizeof(name), "%s_count", field.described->name);
  snprintf(value, sizeof(value), "%" PRIu64, summary.count);
  write_line(place, name, value, "");
  for (int i = 0; i < QUANTILES && summary.count > 0; i++) {
    snprintf(name, sizeof(name), "%s_%s", field.described->name,
             quantiles[i].name);
    snprintf(value, sizeof(value), "%.15g", summary.at[i]);
    write_line(place, name, value, field_unit(field));
  }
}

/* Writes a value as a line or as a member of the open JSON object. */
static void put_value(const struct place *place, struct field_ref field,
                      const uint64_t *cells) {
  char value[VALUE_TEXT_SIZE];
  if (place->dump->json != NULL) {
    value_json(place->dump->json, field.described->name, field, cells);
  } else if (field.layout->kind == PERCORE_HISTOGRAM) {
    write_histogram(place, field, cells);
  } else {
    value_text(value, field, cells);
    write_line(place, field.described->name, value,
               field.layout->kind == PERCORE_STATE ? "" : field_unit(field));
  }
}

/* Puts the totals of a row or, if place->core is not -1, its values on a core.
 */
static void put_values(const struct place *place, const struct row *row) {
  const struct dump *dump = place->dump;
  uint32_t t = row->tile->table;
  const uint64_t *cells =
      tile_cells(row->tile, row->i, (uint32_t)(place->core + 1));
  for (uint32_t f = 0; f < dump->directory->tables[t].field_count; f++) {
    struct field_ref field = field_of(dump->directory, t, f);
    if (!merge_has_field(&dump->merge, t, f))
      continue;
    if (place->core < 0 ? field_has_total(dump->directory, t, f)
                        : shows_cores(dump, row->tile, f))
      put_value(place, field, cells + field.layout->column);
  }
}

/* ---------------------------------------------------------------------------
 * JSON
 */

static void put_optional(struct json *json, const char *key, const char *text) {
  if (text != NULL)
    json_text(json, key, text);
}

static void put_region(struct json *json, const struct merge *merge) {
  struct region_reader *reader = merge->parts[0].reader;
  const struct region_directory *directory = region_reader_directory(reader);
  json_text(json, "region", directory->name);
  json_unsigned(json, "tsc_hz", directory->header.tsc_hz);
  target_json_user(json, reader);
  if (!merge->is_one) {
    json_unsigned(json, "instances", merge_count(merge));
    return;
  }
  put_optional(json, "instance", directory->instance);
  target_json(json, reader);
  json_unsigned(json, "size", directory->header.region_size);
  json_unsigned(json, "attach_refused", region_reader_attach_refused(reader));
}

static void put_field(struct json *json, const struct percore_field *field) {
  static const char *const kinds[] = {"counter", "updown", "gauge", "state",
                                      "histogram"};
  static const char *const aggregations[] = {"sum", "min", "max", "none"};
  json_open_object(json, NULL);
  json_text(json, "name", field->name);
  json_text(json, "kind", kinds[field->kind]);
  put_optional(json, "unit", field->unit);
  put_optional(json, "help", field->help);
  if (field->kind == PERCORE_GAUGE)
    json_text(json, "aggregation", aggregations[field->aggregation]);
  json_close_object(json);
}

/* Begins the JSON object of a table, and writes all its members except the
 * rows. The caller writes the rows, and closes the array of rows and the
 * object. */
static void put_table_about(const struct dump *dump, uint32_t t,
                            uint32_t rows) {
  const struct percore_table *table = &dump->directory->described[t];
  struct json *json = dump->json;
  json_open_object(json, NULL);
  json_text(json, "name", table->name);
  put_optional(json, "help", table->help);
  json_text(json, "storage", storages[table->storage]);
  json_integer(json, "max_rows", table->max_rows);
  json_integer(json, "rows_in_use", rows);
  json_open_array(json, "fields");
  for (uint32_t f = 0; f < table->field_count; f++)
    put_field(json, &table->fields[f]);
  json_close_array(json);
  json_open_array(json, "rows");
}

static void open_object(const struct dump *dump, const char *key) {
  if (dump->json != NULL)
    json_open_object(dump->json, key);
}

static void close_object(const struct dump *dump) {
  if (dump->json != NULL)
    json_close_object(dump->json);
}

static void put_row(const struct dump *dump, const struct row *row) {
  const struct region_tile *tile = row->tile;
  struct place place = {.dump = dump,
                        .table = dump->directory->described[tile->table].name,
                        .core = -1,
                        .torn = tile->torn[row->i] != 0};
  text_clean_string(place.row, sizeof(place.row),
                    row->name[0] != '\0' ? row->name : "-");
  open_object(dump, NULL);
  if (dump->json != NULL)
    json_text(dump->json, "row", row->name);
  if (dump->json != NULL && place.torn)
    json_bool(dump->json, "torn", true);
  if (tile->table != TABLE_CORE) {
    open_object(dump, "values");
    put_values(&place, row);
    close_object(dump);
  }
  if (tile->cores != NULL)
    open_object(dump, "cores");
  for (int core = 0; tile->cores != NULL && core < (int)tile->core_count;
       core++) {
    char key[16];
    snprintf(key, sizeof(key), "%d", place.core = core);
    if (!merge_has_core(&dump->merge, tile, row->i, (uint32_t)core))
      continue;
    open_object(dump, key);
    put_values(&place, row);
    close_object(dump);
  }
  if (tile->cores != NULL)
    close_object(dump);
  close_object(dump);
}

/* ---------------------------------------------------------------------------
 * Reading
 */

static void dump_tile(const struct dump *dump, const struct region_tile *tile) {
  struct row row = {.tile = tile};
  for (row.i = 0; row.i < tile->rows; row.i++)
    if (merge_row_name(&dump->merge, tile, row.i, row.name))
      put_row(dump, &row);
}

/* Replaces totals by the values that are shown: counts since the last reset. */
static int take_shown(struct merge_part *part, struct region_tile *tile) {
  for (uint32_t i = 0; i < tile->rows; i++)
    for (uint32_t c = 0; c < tile->columns; c++)
      tile->totals[(size_t)i * tile->columns + c] =
          region_row_shown(region_reader_directory(part->reader), tile, i, c);
  return 0;
}

static void put_about(const struct dump *dump, const struct region_tile *tile) {
  struct region_reader *reader = dump->merge.parts[0].reader;
  bool is_one = dump->merge.is_one;
  uint32_t t = tile->table;
  if (dump->json != NULL)
    put_table_about(dump, t,
                    is_one ? region_reader_rows(reader, t) : tile->rows);
  else
    write_table_about(dump, t,
                      is_one ? region_reader_live_rows(reader, t) : tile->rows);
}

/* Writes all rows of a table. Returns 0, -EPIPE if the output was closed,
 * -EINTR after a request to stop, or another -errno after an error message. */
static int dump_rows(struct dump *dump, struct region_tile *tile) {
  int status = merge_read(&dump->merge, tile, 0, take_shown);
  put_about(dump, tile);
  while (status == 0 && tile->rows > 0) {
    dump_tile(dump, tile);
    status = flush_output(COMMAND);
    if (status == 0 && stop_requested())
      status = -EINTR;
    if (status == 0)
      status = merge_read(&dump->merge, tile, tile->first_row + tile->rows,
                          take_shown);
  }
  return status;
}

static int dump_table(struct dump *dump, uint32_t t) {
  struct region_tile tile;
  uint32_t want = REGION_WANT_BIRTHS | REGION_WANT_RESETS;
  if (dump->options->per_core || !table_has_totals(dump->directory, t))
    want |= REGION_WANT_CORES;
  if (region_tile_init(&tile, dump->merge.parts[0].reader, t, TILE_ROWS,
                       want) != 0) {
    int error = errno;
    if (error != ENOMEM)
      say_failure(COMMAND, "cannot read table %s: %s",
                  dump->directory->described[t].name, strerror(error));
    return -error;
  }
  int status = dump_rows(dump, &tile);
  if (dump->json != NULL) {
    json_close_array(dump->json);
    json_close_object(dump->json);
  }
  region_tile_free(&tile);
  return status;
}

/* ---------------------------------------------------------------------------
 * All tables
 */

/* Writes the table with the index `only`, or all tables if `only` is -1. */
static int dump_tables(struct dump *dump, int only) {
  int status = 0;
  for (uint32_t t = 0; status == 0 && t < dump->directory->table_count; t++)
    if (only < 0 || t == (uint32_t)only)
      status = dump_table(dump, t);
  return status;
}

static int dump_json(struct dump *dump, int only) {
  dump->json = json_begin(stdout, COMMAND);
  put_region(dump->json, &dump->merge);
  json_open_array(dump->json, "tables");
  int status = dump_tables(dump, only);
  json_close_array(dump->json);
  json_end(dump->json);
  return status;
}

static int dump_region(struct dump *dump, int only) {
  int status;
  if (dump->options->json) {
    status = dump_json(dump, only);
  } else {
    write_region(&dump->merge);
    status = dump_tables(dump, only);
  }
  if (status == -ENOMEM)
    say_failure(COMMAND, "%s", strerror(ENOMEM));
  return status == 0 || status == -EPIPE ? end_output(COMMAND) : TOOL_FAILURE;
}

static int dump_main(int argc, char **argv) {
  struct dump_options options = {0};
  struct dump dump = {.options = &options};
  int only = -1, status = arguments_read(&dump_command, argc, argv, &options);
  if (status >= 0)
    return status;
  stop_catch();
  status = merge_open(&dump.merge, COMMAND, argv[optind], options.each);
  if (status != TOOL_OK)
    return status;
  dump.directory = merge_directory(&dump.merge);
  if (options.table != NULL)
    only = target_table(dump.directory, options.table);
  status = options.table != NULL && only < 0
               ? target_no_table(COMMAND, dump.directory, options.table)
               : dump_region(&dump, only);
  merge_close(&dump.merge);
  return status;
}

const struct command dump_command = {
    .name = COMMAND,
    .summary = "print every value of a region, once",
    .usage = "REGION [OPTION]...",
    .about = "Prints every value of a region once: counters and histograms "
             "since their last reset, up-down counters, gauges and states as "
             "they are. "
             "REGION is NAME@INSTANCE, or NAME for all of its instances "
             "together.",
    .arguments = ARGUMENTS(arguments),
    .words_min = 1,
    .words_max = 1,
    .words_missing = TARGET_MISSING,
    .run = dump_main,
};
