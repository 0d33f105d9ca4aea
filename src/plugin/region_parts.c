/* Rows of an instance that have a name in the sum. */
#include "region_reading.h"

#include "utils/common/common.h"

/* ---------------------------------------------------------------------------
 * Coming and going
 */

static size_t size_of_part(const struct region_sum *sum) {
  return sizeof(struct region_part) + sizeof(struct region_part *) +
         (size_t)(sum->copies - 1) * sum->columns * sizeof(uint64_t);
}

/* The last one takes its place. */
void region_part_free(struct region_instance_table *table, uint32_t p) {
  struct region_part *part = table->parts[p];
  struct region_part *last = table->parts[--table->parts_len];
  table->parts[p] = last;
  region_growth_set_tag(table->growth, last->number, last->generation,
                        TAG_PARTS + p);
  region_growth_set_tag(table->growth, part->number, part->generation,
                        TAG_UNKNOWN);
  part->row->parts--;
  region_allowance_give(table->sum->allowance, size_of_part(table->sum));
  free(part);
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

/* The number of a part for that row, or REGION_TOP_NONE without memory. */
static uint32_t make_part(struct region_instance_table *table,
                          struct region_sum_row *row, uint32_t number,
                          uint64_t generation) {
  struct region_sum *sum = table->sum;
  size_t size = size_of_part(sum);
  if (!make_room(table) || !region_allowance_take(sum->allowance, size))
    return REGION_TOP_NONE;
  struct region_part *part = calloc(1, size);
  if (part == NULL) {
    region_allowance_give(sum->allowance, size);
    return REGION_TOP_NONE;
  }
  part->row = row;
  part->number = number;
  part->generation = generation;
  row->parts++;
  row->used = sum->round;
  table->parts[table->parts_len] = part;
  return table->parts_len++;
}

void region_read_forget(struct region_instance_table *table, uint64_t round) {
  for (uint32_t p = table->parts_len; p-- > 0;)
    if (table->parts[p]->row->used < round)
      region_part_free(table, p);
}

void region_read_leave(struct region_instance_table *table) {
  region_read_stop(table);
  while (table->parts_len > 0)
    region_part_free(table, table->parts_len - 1);
  free(table->parts);
  region_growth_free(table->growth);
  table->parts = NULL;
  table->growth = NULL;
  table->parts_len = table->parts_capacity = 0;
}

struct region_part *region_part_make(struct region_reading *reading,
                                     uint32_t row, uint64_t generation,
                                     struct region_sum_row *known) {
  struct region_instance_table *table = reading->table;
  char name[REGION_ROW_NAME_SIZE];
  if (known == NULL) {
    if (!region_reader_row_name(reading->instance->reader, reading->number, row,
                                generation, name))
      return NULL;
    uint64_t names = reading->sum->names;
    known = region_sum_name(reading->sum, name);
    reading->named += reading->sum->names - names;
  }
  uint32_t p = known != NULL ? make_part(table, known, row, generation)
                             : REGION_TOP_NONE;
  if (p == REGION_TOP_NONE) {
    reading->sum->memory_short = true;
    return NULL;
  }
  region_growth_set_tag(table->growth, row, generation, TAG_PARTS + p);
  return table->parts[p];
}

/* ---------------------------------------------------------------------------
 * What they bring
 */

/* A level or state as it is, a gauge since its birth. */
void region_part_take_standing(const struct region_reading *reading,
                               const uint64_t *cells, const uint64_t *bases) {
  const struct region_sum *sum = reading->sum;
  for (uint32_t s = 0; s < sum->standing_len; s++) {
    uint32_t c = sum->standing[s];
    uint64_t base = sum->kinds[c] == PERCORE_GAUGE ? bases[c] : 0;
    reading->standing[s] = cells[c] - base;
  }
}

/* Single cores have no birth; only the first object in a row began with 0. */
static void begin_cores(const struct region_reading *reading,
                        struct region_part *part, const uint64_t *cells,
                        size_t stride, bool from_birth) {
  const struct region_sum *sum = reading->sum;
  bool is_first = region_incarnation(part->generation) <= 1;
  for (uint32_t core = 0; core + 1 < sum->copies; core++)
    for (uint32_t c = 0; c < sum->columns; c++) {
      bool begins_at_0 =
          is_first && (from_birth || !region_sum_grows(sum->kinds[c]));
      part->last[(size_t)core * sum->columns + c] =
          begins_at_0 ? 0 : cells[core * stride + c];
    }
  part->cores_known = true;
}

static void add_cores(struct region_reading *reading, struct region_part *part,
                      uint32_t i, bool from_birth, bool replace) {
  struct region_sum *sum = reading->sum;
  struct region_tile *tile = &reading->tile;
  size_t stride = (size_t)tile->capacity * tile->columns;
  const uint64_t *cells = tile->cores + (size_t)i * tile->columns;
  if (!part->cores_known)
    begin_cores(reading, part, cells, stride, from_birth);
  for (uint32_t core = 0; core + 1 < sum->copies; core++, cells += stride) {
    uint64_t *last = part->last + (size_t)core * sum->columns;
    for (uint32_t g = 0; g < sum->growing_len; g++) {
      uint32_t c = sum->growing[g];
      uint64_t counted = cells[c] - last[c];
      reading->counted[g] = (int64_t)counted < 0 ? 0 : counted;
      last[c] = cells[c];
    }
    region_part_take_standing(reading, cells, last);
    struct region_sum_share share = {reading->instance, reading->counted,
                                     reading->standing};
    region_sum_add_core(sum, part->row, core, &share, replace);
  }
}

void region_part_add(struct region_reading *reading, struct region_part *part,
                     uint32_t i, const struct region_growth_look *look) {
  struct region_sum *sum = reading->sum;
  struct region_tile *tile = &reading->tile;
  size_t at = (size_t)i * tile->columns;
  if (look->removed && look->was_removed) {
    region_sum_add_late(sum, part->row, look->counted);
    return;
  }
  region_part_take_standing(reading, tile->totals + at, tile->births + at);
  struct region_sum_share share = {reading->instance, look->counted,
                                   reading->standing};
  bool replace = region_sum_add(sum, part->row, &share);
  if (sum->copies > 1)
    add_cores(reading, part, i, look->from_birth, replace);
}
