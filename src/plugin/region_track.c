/* What a scan of an instance's table does with each row. */
#include "region_instance.h"

#include "utils/common/common.h"

/* ---------------------------------------------------------------------------
 * Counting
 */

/* Counts what a tracked object added to its cells. A cell that decreased counts
 * again once it exceeds its former value. Returns the number of such cells. */
static uint32_t count_cells(struct region_reading *reading,
                            struct region_object *object, uint32_t copy,
                            const uint64_t *cells) {
  struct region_sum *sum = reading->sum;
  size_t at = (size_t)copy * sum->shape.columns;
  uint64_t *last = object->last + at,
           *remainder = reading->table->remainder + at;
  uint64_t *own = NULL;
  uint32_t back = 0;
  if (object->row != NULL && !object->row->clashes)
    own = region_sum_grow(sum, object->row) + at;
  for (uint32_t g = 0; g < sum->shape.counters_len; g++) {
    uint32_t c = sum->shape.counters[g].column;
    uint64_t grown = cells[c] - last[c];
    if ((int64_t)grown < 0) {
      back++;
      continue;
    }
    last[c] = cells[c];
    if (sum->shape.chooses_rows)
      remainder[c] += grown; /* of all wanted rows */
    if (own != NULL && region_sum_counts(sum, object->row, copy,
                                         sum->shape.counters[g].field)) {
      own[c] += grown;
      remainder[c] -= grown;
    }
  }
  return back;
}

/* The row changed hands during the read, so its growth belongs to the table. */
static void skip_cells(const struct region_reading *reading,
                       struct region_object *object, uint32_t copy,
                       uint32_t i) {
  const struct region_sum *sum = reading->sum;
  const uint64_t *cells = region_tile_cells(&reading->tile, copy, i);
  uint64_t *last = object->last + (size_t)copy * sum->shape.columns;
  for (uint32_t g = 0; g < sum->shape.counters_len; g++) {
    uint32_t c = sum->shape.counters[g].column;
    if ((int64_t)(cells[c] - last[c]) > 0)
      last[c] = cells[c];
  }
}

/* Levels and states as they are; gauges minus their value at birth. */
static const uint64_t *present_values(const struct region_sum *sum,
                                      const uint64_t *cells,
                                      const uint64_t *bases) {
  for (uint32_t s = 0; s < sum->shape.present_len; s++) {
    uint32_t c = sum->shape.present[s];
    uint64_t base = sum->shape.kinds[c] == PERCORE_GAUGE ? bases[c] : 0;
    sum->scratch[s] = cells[c] - base;
  }
  return sum->scratch;
}

static void add_to_other(const struct region_reading *reading, uint32_t i) {
  const struct region_tile *tile = &reading->tile;
  region_sum_add_to_other(
      reading->sum, present_values(reading->sum, region_tile_cells(tile, 0, i),
                                   tile->births + (size_t)i * tile->columns));
}

/* The weight by which Top ranks the row at index i; for a counter, its growth
 * since `last`. */
static int64_t weigh(const struct region_reading *reading, uint32_t i,
                     uint64_t last) {
  const struct region_sum *sum = reading->sum;
  const struct region_sum_field *field =
      &sum->shape.fields[sum->shape.top_field];
  size_t at = (size_t)i * sum->shape.columns + field->column;
  if (field->kind == PERCORE_GAUGE)
    last = reading->tile.births[at];
  else if (field->kind != PERCORE_COUNTER)
    last = 0;
  return (int64_t)(reading->tile.totals[at] - last);
}

static uint64_t last_weighed(const struct region_sum *sum,
                             const struct region_object *object) {
  return object->last[sum->shape.fields[sum->shape.top_field].column];
}

static void add_weight(struct region_sum *sum, struct region_sum_row *row,
                       int64_t weight) {
  (void)region_sum_grow(sum, row); /* resets the weight in a new round */
  row->weight = region_weights_add(row->weight, weight);
}

/* ---------------------------------------------------------------------------
 * A row that is followed
 */

static void show(struct region_reading *reading,
                 const struct region_object *object, uint32_t i) {
  struct region_sum *sum = reading->sum;
  const struct region_tile *tile = &reading->tile;
  bool replace =
      region_sum_add(sum, object->row, reading->table->instance,
                     present_values(sum, region_tile_cells(tile, 0, i),
                                    tile->births + (size_t)i * tile->columns));
  for (uint32_t copy = 1; copy < sum->copies; copy++)
    region_sum_add_core(
        sum, object->row, copy - 1,
        present_values(sum, region_tile_cells(tile, copy, i),
                       object->last + (size_t)copy * sum->shape.columns),
        replace);
}

/* The heaviest first; equal candidates in the order of their rows. */
static int compare_candidates(const void *a, const void *b) {
  const struct region_candidate *x = a, *y = b;
  return x->weight != y->weight ? (x->weight < y->weight ? 1 : -1)
                                : (x->row > y->row) - (x->row < y->row);
}

void region_candidates_cut(struct region_candidates *candidates) {
  qsort(candidates->list, candidates->len, sizeof(*candidates->list),
        compare_candidates);
  if (candidates->len <= candidates->most)
    return;
  candidates->len = candidates->most;
  candidates->least = candidates->list[candidates->len - 1].weight;
}

static void offer(struct region_reading *reading, uint32_t i, int64_t weight,
                  uint32_t candidate_in) {
  struct region_candidates *candidates = &reading->table->candidates;
  if (candidates->len >= candidates->most && weight <= candidates->least)
    return;
  candidates->list[candidates->len++] = (struct region_candidate){
      .weight = weight,
      .generation = reading->tile.generations[i],
      .row = reading->tile.first_row + i,
      .again = candidate_in != 0 && candidate_in + 2 >= reading->table->scans};
  if (candidates->len == 2 * candidates->most)
    region_candidates_cut(candidates);
}

/* NULL if the row holds another object by now. */
static const char *name_of(struct region_reading *reading, uint32_t i) {
  const struct region_tile *tile = &reading->tile;
  uint32_t row = tile->first_row + i;
  if (reading->named != row + 1 &&
      !region_reader_row_name(reading->reader, reading->table->number, row,
                              tile->generations[i], reading->name))
    return NULL;
  reading->named = row + 1;
  return reading->name;
}

/* Finds or creates the row with this name. NULL if out of memory. */
static struct region_sum_row *make_row(struct region_reading *reading,
                                       uint32_t i) {
  const char *name = name_of(reading, i);
  return name != NULL ? region_sum_name(reading->sum, name) : NULL;
}

/* The row with this name if it is shown already, else NULL. */
static struct region_sum_row *find_shown(struct region_reading *reading,
                                         uint32_t i) {
  const struct region_sum *sum = reading->sum;
  const char *name = name_of(reading, i);
  struct region_sum_row *row = name != NULL ? region_sum_find(sum, name) : NULL;
  bool is_shown =
      row != NULL && (sum->shape.top_field >= 0 ? row->top : row->objects > 0);
  return is_shown ? row : NULL;
}

static void track(struct region_reading *reading, struct region_object *object,
                  uint32_t i) {
  struct region_sum *sum = reading->sum;
  bool is_live = region_state(reading->tile.generations[i]) == REGION_LIVE;
  bool ranks = sum->shape.top_field >= 0;
  if (object->row == NULL && is_live && !ranks && !region_sum_is_full(sum))
    region_object_show(sum, object, make_row(reading, i));
  int64_t weight = ranks ? weigh(reading, i, last_weighed(sum, object)) : 0;
  for (uint32_t copy = 0; copy < sum->copies; copy++) {
    uint32_t back = count_cells(reading, object, copy,
                                region_tile_cells(&reading->tile, copy, i));
    reading->watch->cells_back += copy == 0 ? back : 0;
  }
  if (object->row != NULL) {
    show(reading, object, i);
    add_weight(sum, object->row, weight);
  } else if (is_live) {
    add_to_other(reading, i);
    if (ranks)
      offer(reading, i, weight, object->candidate_in);
    else
      reading->left_out++;
  }
  if (!is_live) /* updates still in flight belong to `other` */
    region_object_let_go(sum, object);
}

/* The row holds another object now. That object's birth is the sum of what all
 * earlier objects counted. What unseen objects counted in between belongs to
 * `other`. */
static void end_object(struct region_reading *reading,
                       struct region_object *object, uint32_t i) {
  struct region_sum *sum = reading->sum;
  const struct region_tile *tile = &reading->tile;
  const uint64_t *births = tile->births + (size_t)i * tile->columns;
  if (region_incarnation(tile->generations[i]) == object->incarnation + 1) {
    if (object->row != NULL && sum->shape.top_field >= 0)
      add_weight(
          sum, object->row,
          (int64_t)(births[sum->shape.fields[sum->shape.top_field].column] -
                    last_weighed(sum, object)));
    /* while the row was changing, cells beyond the birth may have been read */
    (void)count_cells(reading, object, 0, births);
    if (object->row != NULL)
      region_sum_add(sum, object->row, reading->table->instance, NULL);
  }
  object->ended = true;
}

/* ---------------------------------------------------------------------------
 * A row that is not followed
 */

static bool begin_tracking(struct region_reading *reading, uint32_t i,
                           struct region_sum_row *row, bool is_new) {
  struct region_object *object = region_object_track(reading, i, row, is_new);
  if (object != NULL)
    track(reading, object, i);
  return object != NULL;
}

static void leave_out(struct region_reading *reading, uint32_t i) {
  reading->left_out++;
  add_to_other(reading, i);
}

/* Without Top and Row, every row is shown if there is room. */
static void consider_any(struct region_reading *reading, uint32_t i) {
  const struct region_instance_table *table = reading->table;
  /* the growth that was left out may be as old as the table */
  bool is_new = table->scanned ? table->left_out == 0 : table->from_zero;
  struct region_sum_row *row = NULL;
  if (!region_sum_is_full(reading->sum))
    row = make_row(reading, i);
  else if (reading->sum->shared)
    row = find_shown(reading, i);
  if (row == NULL || !begin_tracking(reading, i, row, is_new))
    leave_out(reading, i);
}

/* Tracks the object if Top shows a row with its name. */
static bool track_if_shown(struct region_reading *reading, uint32_t i,
                           bool is_new) {
  struct region_sum_row *row = find_shown(reading, i);
  return row != NULL && begin_tracking(reading, i, row, is_new);
}

/* Under Top: the row counts for `other` unless its name is shown. */
static void consider_under_top(struct region_reading *reading, uint32_t i,
                               struct region_mark *mark, bool is_new,
                               bool was_seen) {
  const struct region_sum *sum = reading->sum;
  const struct region_tile *tile = &reading->tile;
  size_t at = (size_t)i * tile->columns +
              sum->shape.fields[sum->shape.top_field].column;
  if ((!was_seen || reading->looks_names_up) &&
      track_if_shown(reading, i, is_new))
    return;
  add_to_other(reading, i);
  uint64_t last = was_seen ? mark->weighed
                  : is_new ? tile->births[at]
                           : tile->totals[at];
  offer(reading, i, weigh(reading, i, last), mark->candidate_in);
}

static bool is_wanted(struct region_reading *reading, uint32_t i) {
  const char *name = name_of(reading, i);
  reading->names_matched += reading->sum->config->rows_len;
  return name != NULL && region_config_wants_row(reading->sum->config, name);
}

/* Under Row: tracks the object if its name is wanted, even if it was removed
 * already. Returns false if out of memory. */
static bool consider_wanted(struct region_reading *reading, uint32_t i,
                            bool is_new) {
  bool is_live = region_state(reading->tile.generations[i]) == REGION_LIVE;
  if (!is_wanted(reading, i) ||
      (is_live && reading->sum->shape.top_field >= 0 &&
       track_if_shown(reading, i, is_new)) ||
      begin_tracking(reading, i, NULL, is_new))
    return true;
  if (is_live)
    leave_out(reading, i);
  return false;
}

/* Decides what to do with an object that is not tracked. Under Top or Row,
 * marks show which objects were seen before. Returns false if the object must
 * be considered again in the next scan. */
static bool consider(struct region_reading *reading, uint32_t i) {
  const struct region_instance_table *table = reading->table;
  const struct region_tile *tile = &reading->tile;
  uint32_t row = tile->first_row + i;
  uint32_t incarnation = region_incarnation(tile->generations[i]);
  if (table->sum->shape.top_field < 0 && !table->sum->shape.chooses_rows) {
    consider_any(reading, i);
    return true;
  }
  if (row >= table->marks_len) {
    if (!table->sum->shape.chooses_rows)
      add_to_other(reading, i);
    return false;
  }
  struct region_mark *mark = &table->marks[row];
  bool was_seen = mark->incarnation == incarnation;
  bool is_new =
      !was_seen && (table->scanned ? !region_table_had_no_mark(table, row)
                                   : table->from_zero);
  if (!was_seen)
    mark->candidate_in = 0;
  if (!table->sum->shape.chooses_rows) {
    consider_under_top(reading, i, mark, is_new, was_seen);
  } else if (!was_seen) {
    if (!consider_wanted(reading, i, is_new))
      return false;
    reading->watch->rows_unseen +=
        is_new && incarnation > mark->incarnation + 1;
  }
  return true;
}

/* ---------------------------------------------------------------------------
 * All rows
 */

static void mark_row(const struct region_reading *reading, uint32_t i) {
  const struct region_instance_table *table = reading->table;
  const struct region_sum *sum = reading->sum;
  const struct region_tile *tile = &reading->tile;
  uint32_t row = tile->first_row + i;
  if (row >= table->marks_len)
    return;
  table->marks[row].incarnation = region_incarnation(tile->generations[i]);
  if (sum->shape.top_field >= 0)
    table->marks[row].weighed =
        tile->totals[(size_t)i * tile->columns +
                     sum->shape.fields[sum->shape.top_field].column];
}

static struct region_object *find_object(struct region_reading *reading,
                                         uint32_t row) {
  struct region_object **objects = reading->table->objects;
  while (reading->next_object < reading->objects_len &&
         objects[reading->next_object]->number < row)
    reading->next_object++;
  return reading->next_object < reading->objects_len &&
                 objects[reading->next_object]->number == row
             ? objects[reading->next_object]
             : NULL;
}

static void read_row(struct region_reading *reading, uint32_t i) {
  const struct region_sum *sum = reading->sum;
  const struct region_tile *tile = &reading->tile;
  uint64_t generation = tile->generations[i];
  struct region_object *object = find_object(reading, tile->first_row + i);
  if (generation == 0) { /* the row changed while it was read; under Row its
                            growth waits until the next scan */
    for (uint32_t copy = 0;
         object != NULL && !sum->shape.chooses_rows && copy < sum->copies;
         copy++)
      skip_cells(reading, object, copy, i);
    return;
  }
  bool is_live = region_state(generation) == REGION_LIVE;
  reading->live += is_live;
  reading->watch->rows_torn += tile->torn[i];
  if (object != NULL && object->incarnation == region_incarnation(generation)) {
    track(reading, object, i);
  } else {
    if (object != NULL)
      end_object(reading, object, i);
    if ((is_live || sum->shape.chooses_rows) && !consider(reading, i))
      return;
  }
  mark_row(reading, i);
}

/* Adds every cell to the sum of the table, whichever object it belongs to, so
 * that no count is lost when rows change hands. */
static void add_to_sum(const struct region_reading *reading) {
  const struct region_sum *sum = reading->sum;
  const struct region_tile *tile = &reading->tile;
  for (uint32_t copy = 0; copy < sum->copies; copy++) {
    uint64_t *now = reading->table->now + (size_t)copy * sum->shape.columns;
    if (copy > 0 && !tile->core_used[copy - 1])
      continue;
    for (uint32_t i = 0; i < tile->rows; i++) {
      const uint64_t *cells = region_tile_cells(tile, copy, i);
      for (uint32_t g = 0; g < sum->shape.counters_len; g++)
        now[sum->shape.counters[g].column] +=
            cells[sum->shape.counters[g].column];
    }
  }
}

void region_track_tile(struct region_reading *reading) {
  const struct region_tile *tile = &reading->tile;
  add_to_sum(reading);
  for (uint32_t i = 0; i < tile->rows; i++)
    read_row(reading, i);
  region_sum_use_cores(reading->sum, tile->core_used);
  region_sum_count_live(reading->sum, reading->live);
}
