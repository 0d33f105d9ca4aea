/* geometry.c: checks where the parts of a region lie. */
#include "percore_config.h"

#include <errno.h>
#include <stdlib.h>

#include "directory.h"

/* Twice the largest stride that the library chooses. */
enum { MAX_ROW_STRIDE = 2 * 8 * PERCORE_MAX_COLUMNS, MAX_LABEL_STRIDE = 512 };

enum { NO_TABLE = UINT16_MAX, PARTS_OF_TABLE = 6, SLOT_PARTS = 2 };

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

/* Adds a part of `count` elements of `size` bytes. */
static bool add_part(struct parts *parts, enum region_rule rule,
                     const char *name, uint16_t table, uint64_t offset,
                     uint64_t count, uint64_t size,
                     struct region_fault *fault) {
  uint64_t bytes, end;
  if (offset % 8 != 0)
    return region_breaks(fault, rule,
                         "the offset of its %s is %llu, not a multiple of 8",
                         name, (unsigned long long)offset);
  if (offset < parts->start || __builtin_mul_overflow(count, size, &bytes) ||
      __builtin_add_overflow(offset, bytes, &end) || end > parts->end)
    return region_breaks(fault, rule,
                         "its %s, %llu times %llu bytes at %llu, do not lie "
                         "between %llu and %llu",
                         name, (unsigned long long)count,
                         (unsigned long long)size, (unsigned long long)offset,
                         (unsigned long long)parts->start,
                         (unsigned long long)parts->end);
  parts->part[parts->count++] = (struct part){offset, end, name, table};
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
  struct part room[4];
  struct parts parts = {.end = header->directory_size, .part = room};
  return add_part(&parts, rule, "header", NO_TABLE, 0, 1, header->header_size,
                  fault) &&
         add_part(&parts, rule, "table records", NO_TABLE,
                  header->tables_offset, header->table_count,
                  header->table_size, fault) &&
         add_part(&parts, rule, "field records", NO_TABLE,
                  header->fields_offset, header->field_count,
                  header->field_size, fault) &&
         add_part(&parts, rule, "strings", NO_TABLE, header->strings_offset,
                  header->strings_size, 1, fault) &&
         parts_are_apart(&parts, rule, fault);
}

static bool add_slot_parts(struct parts *parts,
                           const struct region_header *header,
                           struct region_fault *fault) {
  return add_part(parts, REGION_RULE_SLOT_PARTS, "slot records", NO_TABLE,
                  header->slots_offset, header->slot_count, header->slot_size,
                  fault) &&
         add_part(parts, REGION_RULE_SLOT_PARTS, "slot blocks", NO_TABLE,
                  header->blocks_offset, header->slot_count,
                  header->block_stride, fault);
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
                         "its slot blocks are %llu bytes apart; that must be a "
                         "multiple of 8 and at least %zu",
                         (unsigned long long)header->block_stride,
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
        field->kind == PERCORE_HISTOGRAM
            ? region_histogram_buckets(field->sub_bits, field->max_bits)
            : 1;
    if (field->column != column || field->cells != cells) {
      region_breaks(fault, REGION_RULE_COLUMNS,
                    "it has %u columns from column %u on; it must have %u from "
                    "column %u on",
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
                         "it may have %u rows; that must be 1 to %u, and 1 in "
                         "a single-row table",
                         table->max_rows, REGION_MAX_ROWS);
  if (table->row_stride % 8 != 0 || table->row_stride < least ||
      table->row_stride > MAX_ROW_STRIDE)
    return region_breaks(fault, REGION_RULE_ROW_STRIDE,
                         "its rows are %u bytes apart; that must be a multiple "
                         "of 8 from %u to %u",
                         table->row_stride, least, MAX_ROW_STRIDE);
  return (table->label_stride % 8 == 0 &&
          table->label_stride >= region_label_size(table) &&
          table->label_stride <= MAX_LABEL_STRIDE) ||
         region_breaks(fault, REGION_RULE_LABEL_STRIDE,
                       "its labels are %u bytes apart; that must be a multiple "
                       "of 8 from %u to %u",
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
  const struct {
    const char *name;
    uint64_t offset, count, size;
    bool optional;
  } wanted[PARTS_OF_TABLE] = {
      {"live words", table->live_offset, 1, sizeof(struct region_table_live),
       false},
      {"generations", table->generations_offset, rows, 8, false},
      {"labels", table->labels_offset, rows, table->label_stride, false},
      {"births", table->birth_offset, rows, bases, true},
      {"resets", table->reset_offset, rows, bases, true},
      {"single copies", table->single_offset, rows, table->row_stride, false},
  };
  for (size_t i = 0; i < PARTS_OF_TABLE; i++)
    if (!(wanted[i].optional && wanted[i].offset == 0) &&
        !add_part(parts, REGION_RULE_PART_PLACE, wanted[i].name, (uint16_t)t,
                  wanted[i].offset, wanted[i].count, wanted[i].size, fault))
      return false;
  return true;
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

/* room: an array for all parts of the region. */
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

/* Checks the rows of PER_CORE tables within a slot block. */
static bool block_parts_are_valid(const struct region_directory *directory,
                                  struct part *room,
                                  struct region_fault *fault) {
  struct parts parts = {.directory = directory,
                        .start = REGION_CORE_ROW_OFFSET,
                        .end = directory->header.block_stride,
                        .part = room};
  for (uint32_t t = 0; t < directory->table_count; t++) {
    const struct region_table *table = &directory->tables[t];
    if (table->storage == PERCORE_PER_CORE &&
        !add_part(&parts, REGION_RULE_PART_PLACE, "rows in slot blocks",
                  (uint16_t)t, table->slot_offset, table->max_rows,
                  table->row_stride, fault))
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
