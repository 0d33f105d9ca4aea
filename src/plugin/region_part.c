/* The objects of an instance that are followed. */
#include "region_instance.h"

#include "utils/common/common.h"

static size_t size_of_part(const struct region_sum *sum, uint32_t copies) {
  return sizeof(struct region_part) + sizeof(struct region_part *) +
         (size_t)copies * sum->columns * sizeof(uint64_t);
}

static void tie(struct region_sum *sum, struct region_part *part,
                struct region_sum_row *row) {
  part->row = row;
  if (row == NULL)
    return;
  row->used = sum->round;
  sum->rows_followed += row->parts++ == 0;
  sum->rows_waiting -= row->waits;
  row->waits = false;
}

static void untie(struct region_sum *sum, struct region_part *part) {
  if (part->row != NULL)
    sum->rows_followed -= --part->row->parts == 0;
  part->row = NULL;
}

void region_part_show(struct region_sum *sum, struct region_part *part,
                      struct region_sum_row *row) {
  untie(sum, part);
  tie(sum, part, row);
}

/* With Row alone it is followed nevertheless, because nothing else counts for
 * the rows that are wanted. */
void region_part_let_go(struct region_sum *sum, struct region_part *part) {
  part->hidden = true;
  part->ended = !sum->chooses_rows;
}

static bool make_room(struct region_instance_table *table) {
  if (table->parts_len < table->parts_capacity)
    return true;
  uint32_t capacity =
      table->parts_capacity > 0 ? 2 * table->parts_capacity : 16;
  struct region_part **parts =
      realloc(table->parts, capacity * sizeof(struct region_part *));
  if (parts == NULL)
    return false;
  table->parts = parts;
  table->parts_capacity = capacity;
  return true;
}

/* Sets where counting begins. Cells of single cores have no birth: only the
 * first object in a row began at 0 there. */
static void begin_part(const struct region_reading *reading,
                       struct region_part *part, uint32_t i, bool from_birth) {
  const struct region_sum *sum = reading->sum;
  const struct region_tile *tile = &reading->tile;
  const uint64_t *total = from_birth ? tile->births : tile->totals;
  memcpy(part->last, total + (size_t)i * tile->columns,
         sum->columns * sizeof(*part->last));
  for (uint32_t copy = 1; copy < sum->copies; copy++)
    for (uint32_t c = 0; c < sum->columns; c++) {
      bool at_0 = part->incarnation <= 1 &&
                  (from_birth || !region_sum_grows(sum->kinds[c]));
      part->last[(size_t)copy * sum->columns + c] =
          at_0 ? 0 : region_tile_cells(tile, copy, i)[c];
    }
}

struct region_part *region_part_new(struct region_reading *reading, uint32_t i,
                                    struct region_sum_row *row,
                                    bool from_birth) {
  struct region_instance_table *table = reading->table;
  struct region_sum *sum = reading->sum;
  size_t size = size_of_part(sum, sum->copies);
  struct region_part *part = NULL;
  if (make_room(table) && region_allowance_take(table->allowance, size)) {
    part = calloc(1, size);
    if (part == NULL)
      region_allowance_give(table->allowance, size);
  }
  if (part == NULL) {
    sum->memory_short = true;
    return NULL;
  }
  part->copies = sum->copies;
  part->number = reading->tile.first_row + i;
  part->incarnation = region_incarnation(reading->tile.generations[i]);
  begin_part(reading, part, i, from_birth);
  tie(sum, part, row);
  table->parts[table->parts_len++] = part;
  return part;
}

static int compare_parts(const void *a, const void *b) {
  const struct region_part *x = *(struct region_part *const *)a;
  const struct region_part *y = *(struct region_part *const *)b;
  return (x->number > y->number) - (x->number < y->number);
}

void region_parts_tidy(struct region_instance_table *table) {
  struct region_sum *sum = table->sum;
  uint32_t kept = 0;
  bool sorted = true;
  for (uint32_t p = 0; p < table->parts_len; p++) {
    struct region_part *part = table->parts[p];
    if (part->ended || part->hidden)
      untie(sum, part);
    part->hidden = false;
    if (part->ended) {
      region_allowance_give(table->allowance, size_of_part(sum, part->copies));
      free(part);
      continue;
    }
    sorted &= kept == 0 || table->parts[kept - 1]->number < part->number;
    table->parts[kept++] = part;
  }
  table->parts_len = kept;
  if (!sorted)
    qsort(table->parts, kept, sizeof(struct region_part *), compare_parts);
}
