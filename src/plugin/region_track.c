/* What a scan of an instance's table does with each row. */
#include "region_instance.h"

#include "base/array.h"

#include "utils/common/common.h"

/* ---------------------------------------------------------------------------
 * Tracked objects
 */

static size_t size_of_object(const struct region_sum *sum, uint32_t copies) {
  return sizeof(struct region_object) + sizeof(struct region_object *) +
         (size_t)copies * sum->shape.columns * sizeof(uint64_t);
}

void region_object_show(struct region_object *object,
                        struct region_sum_row *row) {
  if (object->row != NULL)
    object->row->objects--;
  object->row = row;
  if (row != NULL)
    row->objects++;
}

/* Returns the cells of the row at index i. Copy 0 is the sum over all cores,
 * copy 1 + N is core N. */
static const uint64_t *cells_of(const struct region_tile *tile, uint32_t copy,
                                uint32_t i) {
  size_t at = (size_t)i * tile->columns;
  return copy == 0 ? tile->totals + at
                   : tile->cores + at +
                         (size_t)(copy - 1) * tile->capacity * tile->columns;
}

static const uint64_t *births_of(const struct region_tile *tile, uint32_t i) {
  return tile->births + (size_t)i * tile->columns;
}

/* Sets `last`, the values from which the object's counting begins. An object's
 * births are the values of the row's cells when the object was added. They are
 * not known per core: only a row's first object is known to have begun at 0. */
static void begin_object(const struct region_instance_table *table,
                         struct region_object *object, uint32_t i,
                         bool from_birth) {
  const struct region_columns *present = &table->sum->shape.present;
  const struct region_tile *tile = &table->scan.tile;
  bool is_first = object->incarnation <= 1;
  for (uint32_t copy = 0; copy < object->copies; copy++) {
    uint64_t *last = object->last + (size_t)copy * tile->columns;
    const uint64_t *cells =
        copy == 0 && from_birth ? births_of(tile, i) : cells_of(tile, copy, i);
    if (!is_first || !from_birth)
      memcpy(last, cells, tile->columns * sizeof(*last));
    for (uint32_t n = 0; is_first && n < present->len; n++)
      last[present->list[n].column] = 0;
  }
}

struct region_object *region_object_track(struct region_instance_table *table,
                                          uint32_t i,
                                          struct region_sum_row *row,
                                          bool from_birth) {
  struct region_sum *sum = table->sum;
  size_t size = size_of_object(sum, sum->copies);
  struct region_object *object = NULL;
  if (array_reserve(&table->objects, table->objects_len,
                    &table->objects_capacity, sizeof(struct region_object *)))
    object = region_claim(&sum->region->rows, size);
  if (object == NULL) {
    sum->memory_short = true;
    return NULL;
  }
  object->copies = sum->copies;
  object->number = table->scan.tile.first_row + i;
  object->incarnation = region_incarnation(table->scan.tile.generations[i]);
  begin_object(table, object, i, from_birth);
  region_object_show(object, row);
  table->objects[table->objects_len++] = object;
  return object;
}

static int compare_objects(const void *a, const void *b) {
  const struct region_object *x = *(struct region_object *const *)a;
  const struct region_object *y = *(struct region_object *const *)b;
  return (x->number > y->number) - (x->number < y->number);
}

/* With the option Row, objects stay tracked even without a row of the sum,
 * because wanted rows are not counted in any other way. */
void region_objects_tidy(struct region_instance_table *table) {
  const struct region_sum *sum = table->sum;
  uint32_t kept = 0;
  bool sorted = true;
  for (uint32_t p = 0; p < table->objects_len; p++) {
    struct region_object *object = table->objects[p];
    bool is_hidden = object->row != NULL && !object->row->shown;
    table->left_out += is_hidden;
    if (is_hidden || object->ended)
      region_object_show(object, NULL);
    if (object->ended || (object->row == NULL && !sum->shape.chooses_rows)) {
      region_allowance_give(&sum->region->rows,
                            size_of_object(sum, object->copies));
      free(object);
      continue;
    }
    sorted &= kept == 0 || table->objects[kept - 1]->number < object->number;
    table->objects[kept++] = object;
  }
  table->objects_len = kept;
  if (!sorted)
    qsort(table->objects, kept, sizeof(struct region_object *),
          compare_objects);
}

/* ---------------------------------------------------------------------------
 * A row of the tile
 */

struct row {
  struct region_instance_table *table;
  uint32_t i, number, incarnation;
  bool is_live;
  bool was_seen; /* the last scan read the same object; false if the row has no
                    mark */
  bool is_new;   /* no scan has counted the object yet */
  struct region_mark *mark; /* NULL: none */
  const uint64_t *totals, *births;
};

/* Adds the growth of a tracked object since the last scan to `row`. If `row` is
 * NULL, the growth counts only for the table as a whole. With the option Row,
 * the growth is also added to the table as a whole here, because it is not
 * added anywhere else. Returns how many cells have decreased. */
static uint32_t count_object(const struct region_instance_table *table,
                             struct region_object *object, uint32_t i,
                             struct region_sum_row *row) {
  const struct region_sum *sum = table->sum;
  uint32_t back = 0;
  for (uint32_t copy = 0; copy < sum->copies; copy++) {
    uint32_t of_copy = region_sum_count(
        sum, copy, object->last + (size_t)copy * sum->shape.columns,
        cells_of(&table->scan.tile, copy, i), row, sum->shape.chooses_rows);
    back += copy == 0 ? of_copy : 0;
  }
  return back;
}

/* Returns the weight by which Top ranks the row: the growth of a counter since
 * `last`, or the present value of a gauge or level; 0 without Top. */
static int64_t weigh(const struct row *row, uint64_t last) {
  const struct region_shape *shape = &row->table->sum->shape;
  if (shape->top_field < 0)
    return 0;
  const struct region_sum_field *field = &shape->fields[shape->top_field];
  if (field->kind == PERCORE_GAUGE)
    last = row->births[field->column];
  else if (field->kind != PERCORE_COUNTER)
    last = 0;
  return (int64_t)(row->totals[field->column] - last);
}

/* Returns the value of the cell that Top ranks by, or 0 without Top. */
static uint64_t top_cell(const struct region_sum *sum, const uint64_t *cells) {
  return sum->shape.top_field >= 0
             ? cells[sum->shape.fields[sum->shape.top_field].column]
             : 0;
}

/* Puts the heaviest candidate first, and equal candidates in the order of their
 * rows. */
static int compare_candidates(const void *a, const void *b) {
  const struct region_candidate *x = a, *y = b;
  return x->weight != y->weight ? (x->weight < y->weight ? 1 : -1)
                                : (x->row > y->row) - (x->row < y->row);
}

void region_candidates_cut(struct region_candidates *candidates) {
  if (candidates->len == 0)
    return; /* if memory is short, there may be no list */
  qsort(candidates->list, candidates->len, sizeof(*candidates->list),
        compare_candidates);
  if (candidates->len <= candidates->most)
    return;
  candidates->len = candidates->most;
  candidates->least = candidates->list[candidates->len - 1].weight;
}

static void offer(const struct row *row, struct region_object *object,
                  int64_t weight) {
  struct region_instance_table *table = row->table;
  struct region_candidates *candidates = &table->candidates;
  if (candidates->len >= candidates->most && weight <= candidates->least)
    return;
  candidates->list[candidates->len++] = (struct region_candidate){
      .weight = weight,
      .generation = row->table->scan.tile.generations[row->i],
      .object = object,
      .row = row->number};
  if (candidates->len == 2 * candidates->most)
    region_candidates_cut(candidates);
}

static void add_present(const struct row *row) {
  struct region_instance_table *table = row->table;
  if (table->sum->shape.present.len == 0)
    return;
  region_sum_add_present(table->sum, table->present, row->totals, row->births,
                         !table->has_present);
  table->has_present = true;
}

/* Handles a row that is not shown. With Top, the row becomes a candidate, whose
 * weight is its growth since `last`; without Top, it is counted as left out. */
static void leave_out(const struct row *row, struct region_object *object,
                      uint64_t last) {
  add_present(row);
  if (row->table->sum->shape.top_field < 0)
    row->table->scan.left_out++;
  else if (row->mark != NULL)
    offer(row, object, weigh(row, last));
}

/* ---------------------------------------------------------------------------
 * Names
 */

/* Reads the row's name. Returns false if the row holds another object by now.
 */
static bool read_name(const struct row *row, char name[REGION_ROW_NAME_SIZE]) {
  const struct region_tile *tile = &row->table->scan.tile;
  return region_table_name(row->table, row->number, tile->generations[row->i],
                           name);
}

/* Finds or creates the row of the sum with this row's name, and shows it.
 * Returns NULL if out of memory, or if the row holds another object by now. */
static struct region_sum_row *make_row(const struct row *row) {
  struct region_sum *sum = row->table->sum;
  char name[REGION_ROW_NAME_SIZE];
  struct region_sum_row *made =
      read_name(row, name) ? region_sum_name(sum, name) : NULL;
  if (made != NULL && !made->shown) {
    sum->rows.places += !region_sum_is_due(sum, made);
    made->shown = true;
  }
  return made;
}

/* Returns the row of the sum with this row's name if it is already shown, else
 * NULL. */
static struct region_sum_row *find_shown(const struct row *row) {
  char name[REGION_ROW_NAME_SIZE];
  struct region_sum_row *found =
      read_name(row, name) ? region_sum_find(row->table->sum, name) : NULL;
  return found != NULL && found->shown ? found : NULL;
}

static bool is_wanted(const struct row *row) {
  const struct region_table_config *config = row->table->sum->config;
  char name[REGION_ROW_NAME_SIZE];
  row->table->scan.names_matched += config->rows_len;
  return read_name(row, name) && region_config_wants_row(config, name);
}

/* ---------------------------------------------------------------------------
 * A row that is tracked
 */

/* Adds the gauges, levels, states and weight of a tracked object to its row of
 * the sum. Gauges, levels and states of several instances are combined; those
 * of an earlier object of the same instance are replaced. */
static void show(const struct row *row, const struct region_object *object,
                 uint64_t last) {
  const struct region_instance_table *table = row->table;
  const struct region_sum *sum = table->sum;
  struct region_sum_row *shown = object->row;
  bool first = shown->owner == NULL, again = shown->owner == table->instance;
  for (uint32_t copy = 0; copy < sum->copies; copy++) {
    size_t at = (size_t)copy * sum->shape.columns;
    region_sum_add_present(
        sum, shown->now + at, cells_of(&table->scan.tile, copy, row->i),
        copy == 0 ? row->births : object->last + at, first || again);
  }
  shown->round = sum->round;
  shown->several = !first && (shown->several || !again);
  shown->owner = table->instance;
  shown->weight = region_weights_add(shown->weight, weigh(row, last));
}

static void follow(const struct row *row, struct region_object *object) {
  struct region_instance_table *table = row->table;
  struct region_sum *sum = table->sum;
  uint64_t last = top_cell(sum, object->last);
  if (object->row == NULL && row->is_live && sum->shape.top_field < 0 &&
      !region_sum_is_full(sum))
    region_object_show(object, make_row(row));
  table->instance->watch->cells_back +=
      count_object(table, object, row->i, object->row);
  if (object->row != NULL)
    show(row, object, last);
  else if (row->is_live)
    leave_out(row, object, last);
  if (!row->is_live) /* updates that were in flight when the row was removed
                        count for `other` */
    region_object_show(object, NULL);
}

/* Ends a tracked object whose row holds another object by now. The births of
 * the new object are the sums of what all earlier objects counted, so they
 * include the last counts of the ended object. If the row has also held other
 * objects since the last scan, their counts and the last counts of the ended
 * object belong to `other`. */
static void end_object(const struct row *row, struct region_object *object) {
  struct region_sum *sum = row->table->sum;
  object->ended = true;
  if (row->incarnation != object->incarnation + 1)
    return;
  uint64_t grown = top_cell(sum, row->births) - top_cell(sum, object->last);
  /* The result is ignored, because cells that were read while the row was
   * changing may exceed the births. */
  (void)region_sum_count(sum, 0, object->last, row->births, object->row,
                         sum->shape.chooses_rows);
  if (object->row == NULL)
    return;
  object->row->weight = region_weights_add(object->row->weight, (int64_t)grown);
  object->row->round = sum->round; /* was live, but its gauges are unknown */
}

/* ---------------------------------------------------------------------------
 * A row that is not tracked
 */

static bool begin_tracking(const struct row *row,
                           struct region_sum_row *shown) {
  struct region_object *object =
      region_object_track(row->table, row->i, shown, row->is_new);
  if (object != NULL)
    follow(row, object);
  return object != NULL;
}

/* With the option Row: tracks the object if its name is wanted, even if it has
 * already been removed. Returns false if the object must be considered again in
 * the next scan, because memory is short. */
static bool consider_wanted(const struct row *row) {
  struct region_instance_table *table = row->table;
  bool ranks = table->sum->shape.top_field >= 0;
  if (row->mark == NULL || row->was_seen)
    return true;
  if (is_wanted(row)) {
    struct region_sum_row *shown =
        ranks && row->is_live ? find_shown(row) : NULL;
    if (!begin_tracking(row, shown)) {
      if (row->is_live)
        add_present(row);
      table->scan.left_out += row->is_live;
      return false;
    }
  }
  table->instance->watch->rows_unseen +=
      row->is_new && row->incarnation > row->mark->incarnation + 1;
  return true;
}

/* Tracks the object if its name is already shown or, without the option Top, if
 * there is room to show another row. */
static void consider(const struct row *row) {
  struct region_instance_table *table = row->table;
  struct region_sum *sum = table->sum;
  struct region_sum_row *shown = NULL;
  uint64_t last = row->was_seen
                      ? row->mark->weighed
                      : top_cell(sum, row->is_new ? row->births : row->totals);
  if (sum->shape.top_field < 0)
    shown = !region_sum_is_full(sum)     ? make_row(row)
            : table->scan.looks_names_up ? find_shown(row)
                                         : NULL;
  else if (row->mark != NULL && (!row->was_seen || table->scan.looks_names_up))
    shown = find_shown(row);
  if (shown == NULL || !begin_tracking(row, shown))
    leave_out(row, NULL, last);
}

/* ---------------------------------------------------------------------------
 * All rows
 */

/* Returns false if counts that this row's objects made before the last scan may
 * already be in `other`, because the row had no mark or was left out. The row's
 * next object then counts from its present values instead of its births. With
 * the option Row, only tracked objects are counted, so the function returns
 * true. */
static bool was_tracked(const struct region_instance_table *table,
                        uint32_t row) {
  const struct region_shape *shape = &table->sum->shape;
  if (shape->top_field < 0 && !shape->chooses_rows)
    return table->left_out == 0;
  return shape->chooses_rows || row < table->marks_scanned ||
         row >= table->rows_scanned;
}

static struct row look_at(struct region_instance_table *table, uint32_t i) {
  const struct region_tile *tile = &table->scan.tile;
  uint32_t number = tile->first_row + i;
  struct row row = {
      .table = table,
      .i = i,
      .number = number,
      .incarnation = region_incarnation(tile->generations[i]),
      .is_live = region_state(tile->generations[i]) == REGION_LIVE,
      .mark = number < table->marks_len ? &table->marks[number] : NULL,
      .totals = cells_of(tile, 0, i),
      .births = births_of(tile, i)};
  row.was_seen = row.mark != NULL && row.mark->incarnation == row.incarnation;
  row.is_new = !row.was_seen &&
               (table->scanned ? was_tracked(table, number) : table->from_zero);
  if (row.mark != NULL && !row.was_seen)
    row.mark->candidate_in = 0;
  return row;
}

static struct region_object *find_object(struct region_instance_table *table,
                                         uint32_t row) {
  struct region_object **objects = table->objects;
  while (table->scan.next_object < table->scan.objects_len &&
         objects[table->scan.next_object]->number < row)
    table->scan.next_object++;
  return table->scan.next_object < table->scan.objects_len &&
                 objects[table->scan.next_object]->number == row
             ? objects[table->scan.next_object]
             : NULL;
}

static void read_row(struct region_instance_table *table, uint32_t i) {
  const struct region_shape *shape = &table->sum->shape;
  const struct region_tile *tile = &table->scan.tile;
  struct region_object *object = find_object(table, tile->first_row + i);
  if (tile->generations[i] == 0) {
    /* The row received another object while it was read, so its growth counts
     * only for the table as a whole. With the option Row, the next scan counts
     * it. */
    if (object != NULL && !shape->chooses_rows)
      (void)count_object(table, object, i, NULL);
    return;
  }
  struct row row = look_at(table, i);
  table->scan.live += row.is_live;
  table->instance->watch->rows_torn += tile->torn[i];
  if (object != NULL && object->incarnation != row.incarnation) {
    end_object(&row, object);
    object = NULL;
  }
  if (object != NULL)
    follow(&row, object);
  else if (shape->chooses_rows && !consider_wanted(&row))
    return;
  else if (!shape->chooses_rows && row.is_live)
    consider(&row);
  if (row.mark == NULL)
    return;
  row.mark->incarnation = row.incarnation;
  row.mark->weighed = top_cell(table->sum, row.totals);
}

/* Adds the counter cells of every row to the totals of the table, whichever
 * object holds the row, so that no count is lost when a row receives another
 * object. */
static void add_to_sum(const struct region_instance_table *table) {
  const struct region_columns *counters = &table->sum->shape.counters;
  const struct region_tile *tile = &table->scan.tile;
  for (uint32_t copy = 0; copy < table->sum->copies; copy++) {
    uint64_t *now = table->now + (size_t)copy * tile->columns;
    if (copy > 0 && !tile->core_used[copy - 1])
      continue;
    for (uint32_t i = 0; i < tile->rows; i++) {
      const uint64_t *cells = cells_of(tile, copy, i);
      for (uint32_t n = 0; n < counters->len; n++)
        now[counters->list[n].column] += cells[counters->list[n].column];
    }
  }
}

void region_track_tile(struct region_instance_table *table) {
  add_to_sum(table);
  for (uint32_t i = 0; i < table->scan.tile.rows; i++)
    read_row(table, i);
  region_sum_use_cores(table->sum, table->scan.tile.core_used);
  region_sum_count_live(table->sum, table->scan.live);
}
