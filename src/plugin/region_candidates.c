/* Rows that are shown unless they are beaten before the table ends. Only who is
 * left gets a name. */
#include "region_reading.h"

#include "utils/common/common.h"

static uint32_t cells_of_candidate(const struct region_sum *sum) {
  return sum->growing_len + sum->standing_len;
}

bool region_candidates_make(struct region_reading *reading) {
  struct region_sum *sum = reading->sum;
  size_t most = MIN(sum->config->top, MIN(sum->rows_most, sum->max_rows));
  size_t cells = cells_of_candidate(sum) * sizeof(uint64_t);
  size_t each = sizeof(struct region_top_entry) +
                sizeof(struct region_candidate) + sizeof(uint32_t) + cells;
  while (!region_allowance_take(sum->allowance, most * each)) {
    sum->memory_short = true;
    if (most <= 1)
      return false;
    most /= 2;
  }
  reading->top_bytes = most * each;
  reading->candidates = malloc(most * sizeof(*reading->candidates));
  reading->cells = malloc(most * cells + 1);
  reading->unused = malloc(most * sizeof(*reading->unused));
  if (!region_top_init(&reading->top, most) || reading->candidates == NULL ||
      reading->cells == NULL || reading->unused == NULL)
    return false;
  for (size_t n = 0; n < most; n++)
    reading->unused[n] = (uint32_t)n;
  reading->unused_len = most;
  return true;
}

void region_candidates_free(struct region_reading *reading) {
  region_allowance_give(reading->sum->allowance, reading->top_bytes);
  region_top_free(&reading->top);
  free(reading->candidates);
  free(reading->cells);
  free(reading->unused);
}

/* Beaten: what it counted belongs to the rest. */
static void let_go(struct region_reading *reading, uint32_t item) {
  const uint64_t *cells =
      reading->cells + (size_t)item * cells_of_candidate(reading->sum);
  if (item == REGION_TOP_NONE)
    return;
  region_sum_add_to_other(reading->sum, cells,
                          cells + reading->sum->growing_len);
  reading->unused[reading->unused_len++] = item;
}

static int64_t weigh(const struct region_reading *reading, uint32_t i,
                     const struct region_growth_look *look) {
  const struct region_sum *sum = reading->sum;
  const struct region_sum_field *field = &sum->fields[sum->top_field];
  size_t at = (size_t)i * sum->columns + field->column;
  if (field->kind == PERCORE_COUNTER)
    return (int64_t)look->counted[sum->top_place];
  uint64_t base = field->kind == PERCORE_GAUGE ? reading->tile.births[at] : 0;
  return (int64_t)(reading->tile.totals[at] - base);
}

/* A row that is named already only takes a place. */
void region_candidates_offer_part(struct region_reading *reading,
                                  const struct region_part *part, uint32_t i,
                                  const struct region_growth_look *look) {
  int64_t weight = weigh(reading, i, look);
  bool shown = part->row->top;
  if (!part->row->clashes && region_top_wants(&reading->top, weight, shown))
    let_go(reading,
           region_top_keep(&reading->top, weight, shown, REGION_TOP_NONE));
}

void region_candidates_offer_row(struct region_reading *reading, uint32_t i,
                                 const struct region_growth_look *look) {
  struct region_sum *sum = reading->sum;
  struct region_tile *tile = &reading->tile;
  size_t at = (size_t)i * tile->columns;
  int64_t weight = weigh(reading, i, look);
  region_part_take_standing(reading, tile->totals + at, tile->births + at);
  if ((look->removed && !look->is_new) ||
      !region_top_wants(&reading->top, weight, false)) {
    region_sum_add_to_other(sum, look->counted,
                            look->removed ? NULL : reading->standing);
    return;
  }
  if (reading->top.len == reading->top.most)
    let_go(reading, reading->top.heap[0].item);
  uint32_t item = reading->unused[--reading->unused_len];
  uint64_t *cells = reading->cells + (size_t)item * cells_of_candidate(sum);
  memcpy(cells, look->counted, sum->growing_len * sizeof(*cells));
  memcpy(cells + sum->growing_len, reading->standing,
         sum->standing_len * sizeof(*cells));
  reading->candidates[item] = (struct region_candidate){
      .row = tile->first_row + i, .generation = tile->generations[i]};
  region_top_keep(&reading->top, weight, false, item);
}

/* Who was not beaten is named. */
void region_candidates_name(struct region_reading *reading) {
  struct region_sum *sum = reading->sum;
  for (size_t n = 0; n < reading->top.len; n++) {
    uint32_t item = reading->top.heap[n].item;
    if (item == REGION_TOP_NONE)
      continue;
    const struct region_candidate *candidate = &reading->candidates[item];
    const uint64_t *cells =
        reading->cells + (size_t)item * cells_of_candidate(sum);
    struct region_part *part =
        region_part_make(reading, candidate->row, candidate->generation, NULL);
    struct region_sum_share share = {reading->instance, cells,
                                     cells + sum->growing_len};
    if (part == NULL)
      region_sum_add_to_other(sum, share.counted, share.standing);
    else
      region_sum_add(sum, part->row, &share);
  }
}
