/* geometry.c: checks where the parts of a region lie. */
#include "percore_config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "directory.h"

/* Twice the largest stride that the library chooses. */
enum { MAX_ROW_STRIDE = 2 * 8 * PERCORE_MAX_COLUMNS, MAX_LABEL_STRIDE = 512 };

enum { NO_TABLE = UINT16_MAX };
enum { DIRECTORY_PARTS = 4, SLOT_PARTS = 2 };

struct part {
  uint64_t start, end;
  const char *name;
  uint16_t table; /* NO_TABLE: part of the region itself */
};

/* Parts that may not overlap: those of the directory, the region, or a slot
 * block. */
struct space {
  enum region_rule rule; /* that a part breaks which does not lie inside */
  uint64_t start, end;
  struct part *parts; /* array with room for all parts */
  size_t len;
  uint16_t table;                           /* that the next parts belong to */
  const struct region_directory *directory; /* NULL: there are no tables */
  struct region_fault *fault;
};

/* Adds a part of `count` elements of `size` bytes. */
static bool add(struct space *space, const char *name, uint64_t offset,
                uint64_t count, uint64_t size) {
  uint64_t bytes, end;
  if (offset % 8 != 0 || offset < space->start ||
      __builtin_mul_overflow(count, size, &bytes) ||
      __builtin_add_overflow(offset, bytes, &end) || end > space->end)
    return region_breaks(space->fault, space->rule,
                         "its %s, %" PRIu64 " times %" PRIu64
                         " bytes at %" PRIu64
                         ", must begin at a multiple of 8 and lie between "
                         "%" PRIu64 " and %" PRIu64,
                         name, count, size, offset, space->start, space->end);
  space->parts[space->len++] = (struct part){offset, end, name, space->table};
  return true;
}

static bool blame(const struct space *space, uint32_t t) {
  return region_blame(space->fault->table, space->directory->described[t].name,
                      t);
}

static int by_start(const void *left, const void *right) {
  const struct part *a = left, *b = right;
  if (a->start != b->start)
    return a->start < b->start ? -1 : 1;
  return (int)a->table - (int)b->table;
}

/* Blames the first part, unless only the other part belongs to a table. */
static bool overlap(const struct space *space, const struct part *part,
                    const struct part *other) {
  if (part->table == NO_TABLE && other->table != NO_TABLE)
    return overlap(space, other, part);
  bool both = other->table != NO_TABLE;
  region_breaks(space->fault, space->rule, "%s overlap %s%s%s", part->name,
                other->name, both ? " of table " : "",
                both ? space->directory->described[other->table].name : "");
  return part->table != NO_TABLE && blame(space, part->table);
}

/* No part is empty, so if any two parts overlap, two neighbouring parts
 * overlap. */
static bool are_apart(struct space *space) {
  struct part *parts = space->parts;
  qsort(parts, space->len, sizeof(*parts), by_start);
  for (size_t i = 1; i < space->len; i++)
    if (parts[i].start < parts[i - 1].end)
      return overlap(space, &parts[i], &parts[i - 1]);
  return true;
}

/* ---------------------------------------------------------------------------
 * The directory, slots and blocks
 */

bool region_header_places_are_valid(const struct region_header *header,
                                    struct region_fault *fault) {
  struct part parts[DIRECTORY_PARTS];
  struct space directory = {.rule = REGION_RULE_DIRECTORY_PARTS,
                            .end = header->directory_size,
                            .parts = parts,
                            .table = NO_TABLE,
                            .fault = fault};
  return add(&directory, "header", 0, 1, header->header_size) &&
         add(&directory, "table records", header->tables_offset,
             header->table_count, header->table_size) &&
         add(&directory, "field records", header->fields_offset,
             header->field_count, header->field_size) &&
         add(&directory, "strings", header->strings_offset,
             header->strings_size, 1) &&
         are_apart(&directory);
}

/* ---------------------------------------------------------------------------
 * Tables
 */

static bool columns_are_valid(const struct region_directory *directory,
                              const struct region_table *table,
                              uint32_t *columns, struct region_fault *fault) {
  for (uint32_t f = 0; f < table->field_count; f++) {
    uint32_t number = table->first_field + f;
    const struct region_field *field = &directory->fields[number];
    uint32_t cells =
        region_field_cells(field->kind, field->sub_bits, field->max_bits);
    const struct region_limit limits[] = {
        REGION_LIMIT(COLUMNS, "column", field->column, *columns, *columns),
        REGION_LIMIT(COLUMNS, "number of cells", field->cells, cells, cells),
        REGION_LIMITS_END};
    if (!region_within(limits, fault))
      return region_blame(fault->field,
                          directory->described_fields[number].name, f);
    *columns += cells;
  }
  return true;
}

static bool table_is_valid(const struct region_directory *directory,
                           const struct region_table *table,
                           struct region_fault *fault) {
  uint32_t columns = 0, label_size = region_label_size(table);
  if (!columns_are_valid(directory, table, &columns, fault))
    return false;
  bool consistent = (table->flags & REGION_TABLE_CONSISTENT) != 0,
       single = (table->flags & REGION_TABLE_SINGLE) != 0;
  const struct region_limit limits[] = {
      REGION_LIMIT(COLUMNS, "number of columns", table->columns, columns,
                   columns),
      REGION_LIMIT(MAX_ROWS, "maximum number of rows", table->max_rows, 1,
                   single ? 1 : REGION_MAX_ROWS),
      {REGION_RULE_ROW_STRIDE, "row stride", table->row_stride,
       8 * (columns + consistent), MAX_ROW_STRIDE, 8, NULL},
      {REGION_RULE_LABEL_STRIDE, "label stride", table->label_stride,
       label_size, MAX_LABEL_STRIDE, 8, NULL},
      {REGION_RULE_BASES, "offset of resets", table->reset_offset, 0,
       table->birth_offset != 0 ? UINT64_MAX : 0, 0,
       "a table with resets must have births"},
      REGION_LIMITS_END};
  return region_within(limits, fault);
}

static bool add_table(struct space *space, const struct region_table *table) {
  struct region_part parts[REGION_TABLE_PARTS];
  region_table_parts(table, parts);
  for (int i = 0; i < REGION_TABLE_PARTS; i++)
    if ((parts[i].offset != 0 || !parts[i].optional) &&
        !add(space, parts[i].name, parts[i].offset, parts[i].count,
             parts[i].size))
      return false;
  return true;
}

static bool tables_are_valid(struct space *space) {
  const struct region_directory *directory = space->directory;
  space->rule = REGION_RULE_PART_PLACE;
  for (uint32_t t = 0; t < directory->table_count; t++) {
    const struct region_table *table = &directory->tables[t];
    space->table = (uint16_t)t;
    if (!table_is_valid(directory, table, space->fault) ||
        !add_table(space, table))
      return blame(space, t);
  }
  space->rule = REGION_RULE_OVERLAP;
  return are_apart(space);
}

static bool blocks_are_valid(struct space *space) {
  const struct region_directory *directory = space->directory;
  space->rule = REGION_RULE_PART_PLACE;
  for (uint32_t t = 0; t < directory->table_count; t++) {
    const struct region_table *table = &directory->tables[t];
    space->table = (uint16_t)t;
    if (table->storage == PERCORE_PER_CORE &&
        !add(space, "rows in slot blocks", table->slot_offset, table->max_rows,
             table->row_stride))
      return blame(space, t);
  }
  space->rule = REGION_RULE_OVERLAP;
  return are_apart(space);
}

bool region_geometry_is_valid(const struct region_directory *directory,
                              struct region_fault *fault) {
  const struct region_header *header = &directory->header;
  struct part *parts = calloc(
      SLOT_PARTS + REGION_TABLE_PARTS * directory->table_count, sizeof(*parts));
  if (parts == NULL)
    return region_fails(fault, ENOMEM, "");
  const struct region_limit limits[] = {
      {REGION_RULE_SLOT_PARTS, "block stride", header->block_stride,
       sizeof(struct percore_slot_head), UINT64_MAX, 8, NULL},
      REGION_LIMITS_END};
  struct space region = {.rule = REGION_RULE_SLOT_PARTS,
                         .start = header->directory_size,
                         .end = header->region_size,
                         .parts = parts,
                         .table = NO_TABLE,
                         .directory = directory,
                         .fault = fault};
  struct space block = region;
  block.start = REGION_CORE_ROW_OFFSET;
  block.end = header->block_stride;
  bool valid = region_within(limits, fault) &&
               add(&region, "slot records", header->slots_offset,
                   header->slot_count, header->slot_size) &&
               add(&region, "slot blocks", header->blocks_offset,
                   header->slot_count, header->block_stride) &&
               tables_are_valid(&region) && blocks_are_valid(&block);
  free(parts);
  return valid;
}
