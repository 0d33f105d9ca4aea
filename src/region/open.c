/* open.c: percore_open and the calls on its readers. */
#include "percore_config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reader.h"

#include "base/cancellation.h"

struct percore_reader {
  struct region_reader *reader;
  struct region_tile tile; /* one row of the table that was read last */
};

int percore_open(struct percore_reader **opened, const char *region,
                 const char *instance) {
  struct percore_reader *reader = calloc(1, sizeof(*reader));
  *opened = NULL;
  if (reader == NULL)
    return -1;
  if (region_reader_open(&reader->reader, region, instance, NULL) != 0) {
    percore_close(reader);
    return -1;
  }
  *opened = reader;
  return 0;
}

unsigned percore_reader_uid(const struct percore_reader *reader) {
  return region_reader_uid(reader->reader);
}

void percore_close(struct percore_reader *reader) {
  NOT_CANCELLED;
  if (reader == NULL)
    return;
  region_tile_free(&reader->tile);
  region_reader_close(reader->reader);
  free(reader);
}

int percore_refresh(struct percore_reader *reader) {
  NOT_CANCELLED;
  enum region_event event = region_reader_refresh(reader->reader);
  if (event == REGION_WENT)
    event = region_reader_refresh(reader->reader);
  if (event == REGION_CAME) {
    region_tile_free(&reader->tile);
    (void)region_reader_refresh(reader->reader); /* it may be over already */
    return 1;
  }
  if (region_reader_presence(reader->reader) == REGION_ALIVE)
    return 0;
  errno = region_reader_fault(reader->reader)->error;
  return -1;
}

enum percore_reader_state
percore_reader_state(const struct percore_reader *reader, const char **why) {
  if (why != NULL)
    *why = region_reader_error(reader->reader);
  switch (region_reader_presence(reader->reader)) {
  case REGION_ALIVE:
    return PERCORE_ALIVE;
  case REGION_LEFT:
    return PERCORE_GONE;
  default:
    return PERCORE_ABSENT;
  }
}

/* Converts the application's number of a table to its number in the directory,
 * where `core` is 0. A number that is too large stays too large. */
static uint32_t in_directory(uint32_t table) {
  return table == PERCORE_TABLE_CORE ? 0
         : table < UINT32_MAX        ? table + 1
                                     : table;
}

/* Return the record of a table, or of one of its fields, or NULL. */
static const struct region_table *find_table(struct percore_reader *reader,
                                             uint32_t table) {
  const struct region_directory *directory =
      region_reader_directory(reader->reader);
  table = in_directory(table);
  return directory != NULL && table < directory->table_count
             ? &directory->tables[table]
             : NULL;
}

static const struct region_field *find_field(struct percore_reader *reader,
                                             uint32_t table, uint32_t field) {
  const struct region_table *found = find_table(reader, table);
  return found != NULL && field < found->field_count
             ? &region_reader_directory(reader->reader)
                    ->fields[found->first_field + field]
             : NULL;
}

const struct percore_table *percore_reader_table(struct percore_reader *reader,
                                                 uint32_t table) {
  return find_table(reader, table) != NULL
             ? &region_reader_directory(reader->reader)
                    ->described[in_directory(table)]
             : NULL;
}

uint32_t percore_reader_rows(struct percore_reader *reader, uint32_t table) {
  return region_reader_rows(reader->reader, in_directory(table));
}

uint32_t percore_reader_column(struct percore_reader *reader, uint32_t table,
                               uint32_t field) {
  const struct region_table *found = find_table(reader, table);
  if (found == NULL || field > found->field_count)
    return 0;
  return field < found->field_count ? find_field(reader, table, field)->column
                                    : found->columns;
}

static int64_t find_table_named(struct percore_reader *reader,
                                const char *name) {
  const struct percore_table *table;
  if (strcmp(name, "core") == 0)
    return PERCORE_TABLE_CORE;
  for (uint32_t t = 0; (table = percore_reader_table(reader, t)) != NULL; t++)
    if (strcmp(table->name, name) == 0)
      return t;
  return -1;
}

static int64_t find_field_named(struct percore_reader *reader, uint32_t table,
                                const char *name) {
  const struct percore_table *found = percore_reader_table(reader, table);
  for (uint32_t f = 0; found != NULL && f < found->field_count; f++)
    if (strcmp(found->fields[f].name, name) == 0)
      return f;
  return -1;
}

int64_t percore_reader_find(struct percore_reader *reader,
                            enum percore_find what, uint32_t table,
                            const char *name) {
  switch (what) {
  case PERCORE_FIND_TABLE:
    return find_table_named(reader, name);
  case PERCORE_FIND_FIELD:
    return find_field_named(reader, table, name);
  case PERCORE_FIND_ROW:
    return region_reader_find_row(reader->reader, in_directory(table), name);
  }
  return -1;
}

uint32_t percore_reader_incarnation(struct percore_reader *reader,
                                    uint32_t table, uint32_t row) {
  uint64_t generation =
      region_reader_generation(reader->reader, in_directory(table), row);
  return region_state(generation) == REGION_LIVE
             ? region_incarnation(generation)
             : 0;
}

uint64_t percore_reader_bucket(struct percore_reader *reader, uint32_t table,
                               uint32_t field, uint32_t bucket) {
  const struct region_field *found = find_field(reader, table, field);
  return found != NULL && found->kind == PERCORE_HISTOGRAM
             ? region_bucket_least(found->sub_bits, bucket)
             : 0;
}

double percore_reader_quantile(struct percore_reader *reader, uint32_t table,
                               uint32_t field, const uint64_t *values,
                               double q) {
  const struct region_field *found = find_field(reader, table, field);
  if (found == NULL || found->kind != PERCORE_HISTOGRAM)
    return -1;
  return region_histogram_quantile(found->sub_bits, values + found->column,
                                   found->cells, q);
}

int percore_reader_slot_core(struct percore_reader *reader, uint32_t slot) {
  struct region_slot_view view;
  if (slot >= region_reader_slots(reader->reader))
    return PERCORE_NO_SLOT;
  region_reader_slot(reader->reader, slot, &view);
  return view.state != REGION_FREE ? view.core : -1;
}

/* ---------------------------------------------------------------------------
 * One row
 */

static int prepare_tile(struct percore_reader *reader, uint32_t table) {
  if (reader->tile.capacity > 0 && reader->tile.table == table)
    return 0;
  region_tile_free(&reader->tile);
  return region_tile_init(&reader->tile, reader->reader, table, 1,
                          REGION_WANT_BIRTHS | REGION_WANT_RESETS);
}

static int copy_row(struct percore_reader *reader, int slot, uint32_t row,
                    uint64_t *values, uint32_t count) {
  const struct region_directory *directory =
      region_reader_directory(reader->reader);
  struct region_tile *tile = &reader->tile;
  int rc = tile->torn[0];
  if (slot >= 0)
    rc = region_reader_slot_row(reader->reader, tile->table, row,
                                (uint32_t)slot, tile->values);
  for (uint32_t c = 0; c < count && c < tile->columns && rc >= 0; c++)
    values[c] =
        slot >= 0 ? tile->values[c] : region_row_shown(directory, tile, 0, c);
  return rc;
}

int percore_read_row(struct percore_reader *reader, uint32_t table,
                     uint32_t row, int slot, char *name, size_t name_size,
                     uint64_t *values, uint32_t count) {
  const struct region_directory *directory =
      region_reader_directory(reader->reader);
  if (directory == NULL)
    return region_failed(ENODEV);
  table = in_directory(table);
  if (table >= directory->table_count || slot < PERCORE_TOTAL)
    return region_failed(EINVAL);
  if (prepare_tile(reader, table) != 0)
    return -1;
  region_tile_read(reader->reader, &reader->tile, row);
  uint64_t generation = reader->tile.rows ? reader->tile.generations[0] : 0;
  enum region_state state = region_state(generation);
  if (state != REGION_LIVE)
    return region_failed(state == REGION_CHANGING ? EAGAIN : ENOENT);
  if (name != NULL && name_size > 0) {
    char row_name[REGION_ROW_NAME_SIZE];
    if (!region_reader_row_name(reader->reader, table, row, generation,
                                row_name))
      return region_failed(EAGAIN); /* it holds another object by now */
    size_t length = strnlen(row_name, name_size - 1);
    memcpy(name, row_name, length);
    name[length] = '\0';
  }
  return copy_row(reader, slot, row, values, count);
}
