/* geometry.c: checks where the parts of a region lie. */
#include "percore_config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "directory.h"

/* Twice the largest stride that the library chooses. */
enum { MAX_ROW_STRIDE = 2 * 8 * PERCORE_MAX_COLUMNS, MAX_LABEL_STRIDE = 512 };

enum { NO_TABLE = UINT16_MAX };
enum { DIRECTORY_PARTS = 4, SLOT_PARTS = 2, PARTS_OF_TABLE = 6 };

struct part {
  uint64_t start, end;
  const char *name;
  uint16_t table; /* NO_TABLE: part of the region itself */
};

/* The parts that share a space: the directory, the region, or a slot block. */
struct parts {
  /* NULL: the parts belong to no table. */
  const struct region_directory *directory;
  uint64_t start, end; /* the bounds of the space */
  struct part *part;   /* array with room for all parts */
  size_t count;
};

static const char *table_name(const struct region_directory *directory,
                              uint32_t t) {
  return directory->described[t].name;
}

/* The place of `count` elements of `size` bytes. */
struct place {
  const char *name;
  uint64_t offset, count, size;
};

static bool add_part(struct parts *parts, enum region_rule rule, uint32_t table,
                     const struct place *place, struct region_fault *fault) {
  uint64_t bytes, end;
  if (place->offset % 8 != 0)
    return region_breaks(
        fault, rule, "the offset of its %s is %" PRIu64 ", not a multiple of 8",
        place->name, place->offset);
  if (place->offset < parts->start ||
      __builtin_mul_overflow(place->count, place->size, &bytes) ||
      __builtin_add_overflow(place->offset, bytes, &end) || end > parts->end)
    return region_breaks(fault, rule,
                         "its %s, %" PRIu64 " times %" PRIu64
                         " bytes at %" PRIu64 ", do not lie between %" PRIu64
                         " and %" PRIu64,
                         place->name, place->count, place->size, place->offset,
                         parts->start, parts->end);
  parts->part[parts->count++] =
      (struct part){place->offset, end, place->name, (uint16_t)table};
  return true;
}

static bool add_parts(struct parts *parts, enum region_rule rule,
                      uint32_t table, const struct place *places, size_t count,
                      struct region_fault *fault) {
  for (size_t i = 0; i < count; i++)
    if (!add_part(parts, rule, table, &places[i], fault))
      return false;
  return true;
}

/* ---------------------------------------------------------------------------
 * Overlaps
 */

static int by_start(const void *left, const void *right) {
  const struct part *a = left, *b = right;
  if (a->start != b->start)
    return a->start < b->start ? -1 : 1;
  return (int)a->table - (int)b->table;
}

static bool overlap(const struct parts *parts, enum region_rule rule,
                    const struct part *part, const struct part *other,
                    struct region_fault *fault) {
  if (part->table == NO_TABLE && other->table != NO_TABLE) {
    const struct part *swapped = part;
    part = other;
    other = swapped;
  }
  bool of_table = other->table != NO_TABLE;
  region_breaks(fault, rule, "%s overlap %s%s%s", part->name, other->name,
                of_table ? " of table " : "",
                of_table ? table_name(parts->directory, other->table) : "");
  if (part->table != NO_TABLE)
    region_blame_table(fault, table_name(parts->directory, part->table),
                       part->table);
  return false;
}

/* No part is empty, so if any two parts overlap, two neighbouring parts
 * overlap. */
static bool parts_are_apart(struct parts *parts, enum region_rule rule,
                            struct region_fault *fault) {
  qsort(parts->part, parts->count, sizeof(*parts->part), by_start);
  for (size_t i = 1; i < parts->count; i++)
    if (parts->part[i].start < parts->part[i - 1].end)
      return overlap(parts, rule, &parts->part[i], &parts->part[i - 1], fault);
  return true;
}

/* ---------------------------------------------------------------------------
 * The directory, slots and blocks
 */

static bool directory_parts_are_valid(const struct region_header *header,
                                      struct region_fault *fault) {
  static const enum region_rule rule = REGION_RULE_DIRECTORY_PARTS;
  struct part room[DIRECTORY_PARTS];
  struct parts parts = {.end = header->directory_size, .part = room};
  const struct place places[] = {
      {"header", 0, 1, header->header_size},
      {"table records", header->tables_offset, header->table_count,
       header->table_size},
      {"field records", header->fields_offset, header->field_count,
       header->field_size},
      {"strings", header->strings_offset, header->strings_size, 1},
  };
  return add_parts(&parts, rule, NO_TABLE, places, DIRECTORY_PARTS, fault) &&
         parts_are_apart(&parts, rule, fault);
}

static bool add_slot_parts(struct parts *parts,
                           const struct region_header *header,
                           struct region_fault *fault) {
  const struct place places[SLOT_PARTS] = {
      {"slot records", header->slots_offset, header->slot_count,
       header->slot_size},
      {"slot blocks", header->blocks_offset, header->slot_count,
       header->block_stride},
  };
  return add_parts(parts, REGION_RULE_SLOT_PARTS, NO_TABLE, places, SLOT_PARTS,
                   fault);
}

bool region_header_places_are_valid(const struct region_header *header,
                                    struct region_fault *fault) {
  struct part room[SLOT_PARTS];
  struct parts parts = {.start = header->directory_size,
                        .end = header->region_size,
                        .part = room};
  if (!directory_parts_are_valid(header, fault))
    return false;
  if (header->block_stride % 8 != 0 ||
      header->block_stride < sizeof(struct percore_slot_head))
    return region_breaks(fault, REGION_RULE_SLOT_PARTS,
                         "its block stride is %" PRIu64
                         "; it must be a multiple of 8 and at least %zu",
                         header->block_stride,
                         sizeof(struct percore_slot_head));
  return add_slot_parts(&parts, header, fault);
}

/* ---------------------------------------------------------------------------
 * Columns and strides
 */

static bool columns_are_valid(const struct region_directory *directory,
                              uint32_t t, struct region_fault *fault) {
  const struct region_table *table = &directory->tables[t];
  uint32_t column = 0;
  for (uint32_t f = 0; f < table->field_count; f++) {
    const struct region_field *field =
        &directory->fields[table->first_field + f];
    uint32_t cells =
        region_field_cells(field->kind, field->sub_bits, field->max_bits);
    if (field->column != column || field->cells != cells) {
      region_breaks(fault, REGION_RULE_COLUMNS,
                    "it has %u columns, the first of which is %u; it must have "
                    "%u, the first of which is %u",
                    field->cells, field->column, cells, column);
      return region_blame_field(
          fault, directory->described_fields[table->first_field + f].name, f);
    }
    column += cells;
  }
  return table->columns == column ||
         region_breaks(fault, REGION_RULE_COLUMNS,
                       "it has %u columns, but its fields have %u",
                       table->columns, column);
}

static bool strides_are_valid(const struct region_table *table,
                              struct region_fault *fault) {
  bool consistent = (table->flags & REGION_TABLE_CONSISTENT) != 0;
  uint32_t least = 8 * (table->columns + (consistent ? 1 : 0));
  if (table->max_rows == 0 || table->max_rows > REGION_MAX_ROWS ||
      ((table->flags & REGION_TABLE_SINGLE) && table->max_rows != 1))
    return region_breaks(fault, REGION_RULE_MAX_ROWS,
                         "its maximum is %u rows; it must be 1 to %u, and 1 in "
                         "a single-row table",
                         table->max_rows, REGION_MAX_ROWS);
  if (table->row_stride % 8 != 0 || table->row_stride < least ||
      table->row_stride > MAX_ROW_STRIDE)
    return region_breaks(fault, REGION_RULE_ROW_STRIDE,
                         "its row stride is %u; it must be a multiple of 8 "
                         "between %u and %u",
                         table->row_stride, least, MAX_ROW_STRIDE);
  return (table->label_stride % 8 == 0 &&
          table->label_stride >= region_label_size(table) &&
          table->label_stride <= MAX_LABEL_STRIDE) ||
         region_breaks(fault, REGION_RULE_LABEL_STRIDE,
                       "its label stride is %u; it must be a multiple of 8 "
                       "between %u and %u",
                       table->label_stride, region_label_size(table),
                       MAX_LABEL_STRIDE);
}

/* ---------------------------------------------------------------------------
 * Parts of tables
 */

static bool add_table_parts(struct parts *parts, uint32_t t,
                            struct region_fault *fault) {
  const struct region_table *table = &parts->directory->tables[t];
  uint64_t rows = table->max_rows, bases = 8ull * table->columns;
  const struct place places[PARTS_OF_TABLE] = {
      {"live words", table->live_offset, 1, sizeof(struct region_table_live)},
      {"generations", table->generations_offset, rows, 8},
      {"labels", table->labels_offset, rows, table->label_stride},
      {"single copies", table->single_offset, rows, table->row_stride},
      {"births", table->birth_offset, rows, bases},
      {"resets", table->reset_offset, rows, bases},
  };
  /* The last two places, births and resets, are optional; a table with resets
   * must also have births. */
  size_t count =
      PARTS_OF_TABLE - (table->birth_offset == 0) - (table->reset_offset == 0);
  return add_parts(parts, REGION_RULE_PART_PLACE, t, places, count, fault);
}

static bool table_is_valid(struct parts *parts, uint32_t t,
                           struct region_fault *fault) {
  const struct region_table *table = &parts->directory->tables[t];
  if (!columns_are_valid(parts->directory, t, fault) ||
      !strides_are_valid(table, fault))
    return false;
  if (table->birth_offset == 0 && table->reset_offset != 0)
    return region_breaks(fault, REGION_RULE_BASES,
                         "it has resets but no births");
  return add_table_parts(parts, t, fault);
}

/* Checks that the slots and the parts of all tables lie inside the region and
 * do not overlap. `room` is an array that is large enough for these parts. */
static bool region_parts_are_valid(const struct region_directory *directory,
                                   struct part *room,
                                   struct region_fault *fault) {
  const struct region_header *header = &directory->header;
  struct parts parts = {.directory = directory,
                        .start = header->directory_size,
                        .end = header->region_size,
                        .part = room};
  if (!add_slot_parts(&parts, header, fault))
    return false;
  for (uint32_t t = 0; t < directory->table_count; t++)
    if (!table_is_valid(&parts, t, fault))
      return region_blame_table(fault, table_name(directory, t), t);
  return parts_are_apart(&parts, REGION_RULE_OVERLAP, fault);
}

/* Checks that the rows of PER_CORE tables lie inside a slot block and do not
 * overlap. */
static bool block_parts_are_valid(const struct region_directory *directory,
                                  struct part *room,
                                  struct region_fault *fault) {
  struct parts parts = {.directory = directory,
                        .start = REGION_CORE_ROW_OFFSET,
                        .end = directory->header.block_stride,
                        .part = room};
  for (uint32_t t = 0; t < directory->table_count; t++) {
    const struct region_table *table = &directory->tables[t];
    const struct place rows = {"rows in slot blocks", table->slot_offset,
                               table->max_rows, table->row_stride};
    if (table->storage == PERCORE_PER_CORE &&
        !add_part(&parts, REGION_RULE_PART_PLACE, t, &rows, fault))
      return region_blame_table(fault, table_name(directory, t), t);
  }
  return parts_are_apart(&parts, REGION_RULE_OVERLAP, fault);
}

bool region_geometry_is_valid(const struct region_directory *directory,
                              struct region_fault *fault) {
  size_t most = SLOT_PARTS + PARTS_OF_TABLE * directory->table_count;
  struct part *room = calloc(most, sizeof(*room));
  if (room == NULL)
    return region_fails(fault, ENOMEM, "");
  bool valid = region_parts_are_valid(directory, room, fault) &&
               block_parts_are_valid(directory, room, fault);
  free(room);
  return valid;
}
