/* layout.c: where the parts of a region lie. The writer chooses the places and
 * a reader checks them with the same functions, so there is one list of the
 * parts, in the order in which they follow each other. */
#include "percore_config.h"

#include <inttypes.h>
#include <string.h>

#include "fault.h"
#include "memory.h"

/* ---------------------------------------------------------------------------
 * Shapes
 */

uint32_t region_histogram_buckets(uint32_t sub_bits, uint32_t max_bits) {
  if (sub_bits > 8 || max_bits <= sub_bits || max_bits > 64)
    return 0;
  return (max_bits - sub_bits + 1) << sub_bits;
}

uint32_t region_field_cells(uint32_t kind, uint32_t sub_bits,
                            uint32_t max_bits) {
  return kind == PERCORE_HISTOGRAM
             ? region_histogram_buckets(sub_bits, max_bits)
             : 1;
}

uint32_t region_row_stride(uint32_t columns, bool consistent, uint32_t align) {
  if (align > 4096 || (align & (align - 1)) != 0)
    return 0;
  uint32_t bytes = (columns + (consistent ? 1 : 0)) * 8;
  uint32_t stride = 8;
  while (stride < bytes && stride < 64)
    stride *= 2;
  if (bytes > 64)
    stride = (bytes + 63) / 64 * 64;
  if (align > 8)
    stride = (stride + align - 1) / align * align;
  return stride;
}

#define PART(name, member, count, size)                                        \
  { name, offsetof(struct region_table, member), table->member, count, size }

void region_table_parts(const struct region_table *table,
                        struct region_part parts[REGION_TABLE_PARTS]) {
  uint64_t rows = table->max_rows, bases = 8ull * table->columns;
  const struct region_part all[REGION_TABLE_PARTS] = {
      PART("live words", live_offset, 1, sizeof(struct region_table_live)),
      PART("generations", generations_offset, rows, 8),
      PART("labels", labels_offset, rows, region_label_size(table)),
      PART("births", birth_offset, rows, bases),
      PART("resets", reset_offset, rows, bases),
      PART("single copies", single_offset, rows, table->row_stride),
  };
  memcpy(parts, all, sizeof(all));
}

/* ---------------------------------------------------------------------------
 * Places
 */

static uint64_t round_up(uint64_t size, uint64_t align) {
  return (size + align - 1) / align * align;
}

/* Chooses or checks the offset of a part of `count` elements of `size` bytes.
 * `align` is for the library's choice; readers accept any multiple of 8. */
static bool place(struct region_places *places, const char *name,
                  uint64_t *offset, uint64_t count, uint64_t size,
                  uint64_t align) {
  uint64_t bytes, end;
  if (places->page != 0)
    *offset = round_up(places->next, align);
  if (*offset % 8 != 0 || *offset < places->next ||
      __builtin_mul_overflow(count, size, &bytes) ||
      __builtin_add_overflow(*offset, bytes, &end) || end > places->end)
    return region_breaks(places->fault, REGION_RULE_PLACE,
                         "its %s, %" PRIu64 " times %" PRIu64
                         " bytes at %" PRIu64
                         ", must begin at a multiple of 8 and lie between "
                         "%" PRIu64 ", where the part before ends, and "
                         "%" PRIu64,
                         name, count, size, *offset, places->next, places->end);
  places->next = end;
  return true;
}

/* Parts of a large table begin on a page boundary, so that memory allocated for
 * one part is not shared with another. Parts that fill several huge pages begin
 * on a huge page. */
static bool place_part(struct region_places *places,
                       const struct region_table *table, const char *name,
                       uint64_t *offset, uint64_t count, uint64_t size) {
  uint64_t align = table->row_stride % 128 == 0 ? 128 : 64;
  if ((uint64_t)table->max_rows * table->row_stride >= places->page)
    align = count * size >= REGION_LARGE_PART ? REGION_HUGE_PAGE : places->page;
  return place(places, name, offset, count, size, align);
}

/* `block`: a slot block; NULL for `core`, whose row lies in the block's head.
 */
static bool place_table(struct region_places *places,
                        struct region_places *block,
                        struct region_table *table) {
  static const size_t resets = offsetof(struct region_table, reset_offset);
  struct region_part parts[REGION_TABLE_PARTS];
  region_table_parts(table, parts);
  for (int i = 0; i < REGION_TABLE_PARTS; i++) {
    struct region_part *part = &parts[i];
    if (part->member == resets && part->offset == 0)
      continue;
    if (!place_part(places, table, part->name, &part->offset, part->count,
                    part->size))
      return false;
    memcpy((char *)table + part->member, &part->offset, sizeof(part->offset));
  }
  return block == NULL || table->storage != PERCORE_PER_CORE ||
         place_part(block, table, "rows in slot blocks", &table->slot_offset,
                    table->max_rows, table->row_stride);
}

void region_place_columns(struct region_table *table,
                          struct region_field *fields) {
  uint32_t columns = 0;
  for (uint32_t f = 0; f < table->field_count; f++) {
    struct region_field *field = &fields[f];
    field->column = columns;
    field->cells =
        region_field_cells(field->kind, field->sub_bits, field->max_bits);
    columns += field->cells;
  }
  table->columns = columns;
}

bool region_place_directory(struct region_places *places,
                            struct region_header *header) {
  places->next = header->header_size;
  return place(places, "table records", &header->tables_offset,
               header->table_count, header->table_size, 64) &&
         place(places, "field records", &header->fields_offset,
               header->field_count, header->field_size, 64) &&
         place(places, "strings", &header->strings_offset, header->strings_size,
               1, 64);
}

static uint64_t stride_of(const struct region_places *block) {
  return round_up(block->next, block->next >= REGION_LARGE_PART
                                   ? REGION_HUGE_PAGE
                                   : block->page);
}

bool region_place_all(struct region_places *places,
                      struct region_header *header, struct region_table *tables,
                      uint32_t *at_fault) {
  bool chooses = places->page != 0;
  struct region_places block = *places;
  block.next = sizeof(struct percore_slot_head);
  if (!chooses)
    block.end = header->block_stride;
  *at_fault = header->table_count;
  if (!place(places, "slot records", &header->slots_offset, header->slot_count,
             header->slot_size, places->page))
    return false;
  for (uint32_t t = 0; t < header->table_count; t++)
    if (!place_table(places, t > 0 ? &block : NULL, &tables[t])) {
      *at_fault = t;
      return false;
    }
  if (chooses)
    header->block_stride = stride_of(&block);
  return place(places, "slot blocks", &header->blocks_offset,
               header->slot_count, header->block_stride,
               block.next >= REGION_LARGE_PART ? REGION_HUGE_PAGE
                                               : places->page);
}
