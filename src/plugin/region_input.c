#include "regions.h"

#include "base/array.h"

#include "utils/common/common.h"

#include <sys/mman.h>

/* Summing a cell over SLOTS_PER_CELL slots takes as long as reading one cell of
 * a single core. */
#define SLOTS_PER_CELL 16
/* The costs, in cells, of reading a slot's record, and of matching a name with
 * a regular expression. */
#define CELLS_PER_SLOT 16
#define CELLS_PER_MATCH 32
/* Reading slot by slot is faster if a tile (a block of rows that are read
 * together) has at least TILE_ROWS rows. */
#define TILE_ROWS 16
#define TILE_CORES_BYTES ((size_t)1 << 20)
/* The memory of a tile is kept for the next. A large request in each round
 * would make malloc merge all small free chunks, which dispatching needs again:
 * this takes a fifth of the time of dispatching. */
#define TILE_KEPT_BYTES ((size_t)1 << 20)

/* ---------------------------------------------------------------------------
 * Memory
 */

static bool make_arrays(struct region_input *input) {
  const struct region_sum *sum = input->sum;
  size_t cells = (size_t)sum->copies * sum->columns;
  size_t size = (2 * cells + sum->columns) * sizeof(uint64_t);
  if (input->last != NULL)
    return true;
  input->last = region_calloc(&sum->budget->memory, size);
  if (input->last == NULL)
    return false;
  input->bytes += size;
  input->now = input->last + cells;
  input->present = input->now + cells;
  return true;
}

static bool has_long_marks(const struct region_sum *sum) {
  return sum->ranks_by != NULL || sum->chooses_rows;
}

/* Returns how many bytes the marks of a row take. */
static size_t size_of_mark(const struct region_sum *sum) {
  return has_long_marks(sum) ? sizeof(uint64_t) + 2 * sizeof(uint32_t)
                             : sizeof(uint32_t);
}

/* Reserves address space for the marks of `rows` rows. */
static bool reserve_marks(struct region_marks *marks, size_t rows) {
  size_t size = rows * (sizeof(uint64_t) + 2 * sizeof(uint32_t));
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return false;
  marks->size = size;
  marks->weighed = memory;
  marks->incarnation = (uint32_t *)(marks->weighed + rows);
  marks->candidate_in = marks->incarnation + rows;
  return true;
}

/* Warns of rows without a mark, and says which MaxMemory has room for marks of
 * all rows: twice what the region would then take (allowance.h). */
static void tell_memory(const struct region_sum *sum, size_t rows) {
  const struct region_allowance *memory = &sum->budget->memory;
  size_t more = rows * size_of_mark(sum);
  region_warn(region_about_sum(sum),
              "region %s: table %s: %zu of its rows are counted only in "
              "`other`: MaxMemory is too small; set MaxMemory %zu.",
              sum->budget->name, sum->table, rows,
              memory->pool->used + memory->used + more * 5 / 2 +
                  memory->pool->own);
}

/* Makes marks for the rows in use. If memory is short, the rows with the
 * highest numbers get none. */
static void make_marks(struct region_input *input) {
  struct region_marks *marks = &input->marks;
  struct region_allowance *memory = &input->sum->budget->memory;
  struct region_reader *reader = input->instance->reader;
  size_t max_rows =
      region_reader_directory(reader)->tables[input->number].max_rows;
  if (input->sum->single ||
      (marks->size == 0 && !reserve_marks(marks, max_rows)))
    return;
  size_t each = size_of_mark(input->sum);
  size_t in_use = region_reader_rows(reader, input->number);
  size_t most = marks->len + region_allowance_left(memory) / each;
  size_t rows = MIN(in_use, most / 8 * 7); /* leaves memory for names */
  size_t more = rows > marks->len ? rows - marks->len : 0;
  if (!region_allowance_take(memory, more * each))
    return;
  for (size_t row = marks->len; row < MIN(rows, input->rows_read); row++)
    marks->incarnation[row] = REGION_UNREAD; /* it was read without a mark */
  input->bytes += more * each;
  marks->len += (uint32_t)more;
  if (marks->len < in_use && has_long_marks(input->sum))
    tell_memory(input->sum, in_use - marks->len);
}

/* ---------------------------------------------------------------------------
 * Objects
 */

static size_t size_of_object(const struct region_sum *sum, uint32_t copies) {
  return sizeof(struct region_object) + sizeof(struct region_object *) +
         (size_t)copies * sum->columns * sizeof(uint64_t) *
             (1 + (sum->present.len > 0));
}

/* Returns the cells of the row at index i. */
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

/* Sets the values from which the object's counting begins: its births if
 * from_birth is set, and its present cells otherwise. Births are sums over all
 * cores. Those of a single core are known only for the first object of a row:
 * they are 0. */
static void begin_object(const struct region_input *input,
                         struct region_object *object, uint32_t i,
                         bool from_birth) {
  const struct region_columns *present = &input->sum->present;
  const struct region_tile *tile = input->tile;
  bool is_first = region_incarnation(object->generation) <= 1;
  for (uint32_t copy = 0; copy < object->copies; copy++) {
    uint64_t *last = object->last + (size_t)copy * tile->columns;
    uint64_t *base = last + (size_t)object->copies * tile->columns;
    const uint64_t *cells = cells_of(tile, copy, i);
    const uint64_t *births = copy == 0 ? births_of(tile, i) : cells;
    bool from_0 = is_first && copy > 0; /* object->last is zeroed */
    for (uint32_t n = 0; n < present->len && !from_0; n++) {
      uint32_t c = present->list[n].column;
      if (input->sum->fields[present->list[n].field].kind == PERCORE_UPDOWN)
        base[c] = births[c];
    }
    if (!from_birth || !from_0)
      memcpy(last, from_birth ? births : cells, tile->columns * sizeof(*last));
  }
}

static struct region_object *make_object(struct region_input *input, uint32_t i,
                                         bool from_birth) {
  struct region_sum *sum = input->sum;
  struct region_object *object =
      region_calloc(&sum->budget->memory, size_of_object(sum, sum->copies));
  if (object == NULL)
    return NULL;
  object->copies = sum->copies;
  object->number = input->tile->first_row + i;
  object->generation = input->tile->generations[i];
  begin_object(input, object, i, from_birth);
  return object;
}

/* Stops counting the object for its row. A row without objects is hidden, with
 * Top not until the next choice, because a successor may continue it. */
static void release_object(struct region_input *input,
                           struct region_object *object) {
  if (object->row != NULL && --object->row->objects == 0 &&
      input->sum->ranks_by == NULL)
    region_sum_hide(input->sum, object->row);
  object->row = NULL;
}

void region_object_free(struct region_input *input,
                        struct region_object *object) {
  release_object(input, object);
  region_allowance_give(&input->sum->budget->memory,
                        size_of_object(input->sum, object->copies));
  free(object);
}

static bool add(struct region_objects *objects, struct region_object *object) {
  if (!array_reserve(&objects->list, objects->len, &objects->capacity,
                     sizeof(*objects->list)))
    return false;
  objects->list[objects->len++] = object;
  return true;
}

bool region_object_show(struct region_input *input,
                        struct region_object *object,
                        struct region_sum_row *row) {
  if (!add(&input->objects, object)) {
    region_object_free(input, object);
    return false;
  }
  object->row = row;
  row->objects++;
  return true;
}

static int by_number(const void *a, const void *b) {
  const struct region_object *x = *(struct region_object *const *)a;
  const struct region_object *y = *(struct region_object *const *)b;
  return (x->number > y->number) - (x->number < y->number);
}

/* Frees the objects that need not be tracked any more, and sorts the others. */
static void tidy(struct region_input *input) {
  struct region_objects *objects = &input->objects;
  bool sorted = true;
  size_t kept = 0;
  for (size_t p = 0; p < objects->len; p++) {
    struct region_object *object = objects->list[p];
    if (object->row == NULL || !object->row->shown) {
      region_object_free(input, object);
      continue;
    }
    sorted &= kept == 0 || objects->list[kept - 1]->number < object->number;
    objects->list[kept++] = object;
  }
  objects->len = kept;
  if (!sorted)
    qsort(objects->list, kept, sizeof(*objects->list), by_number);
}

/* ---------------------------------------------------------------------------
 * A row that is read
 */

struct row {
  struct region_input *input;
  uint32_t i, number;
  bool is_live;
  bool is_marked;
  bool was_seen; /* the last scan read the same object; false without a mark */
  bool is_new;   /* no scan has counted the object yet */
  const uint64_t *totals, *births; /* births: see need_births */
};

/* Makes sure that the births have been read. Returns false if the row holds
 * another object by now. */
static bool need_births(const struct row *row) {
  struct region_input *input = row->input;
  return input->tile->want & REGION_WANT_BIRTHS ||
         region_tile_read_births(input->instance->reader, input->tile, row->i);
}

/* Returns the value of the cell that Top ranks by, or 0 without Top. */
static uint64_t top_cell(const struct region_sum *sum, const uint64_t *cells) {
  return sum->ranks_by != NULL ? cells[sum->ranks_by->column] : 0;
}

/* Returns the weight by which Top ranks the row: the growth of a counter since
 * `last`, or the present value of an up-down counter or gauge; 0 without Top.
 */
static int64_t weigh(const struct row *row, uint64_t last) {
  const struct region_sum_field *field = row->input->sum->ranks_by;
  if (field == NULL)
    return 0;
  if (field->kind == PERCORE_UPDOWN)
    last = row->births[field->column];
  else if (field->kind != PERCORE_COUNTER)
    last = 0;
  return (int64_t)(row->totals[field->column] - last);
}

/* Adds what the object has grown to its row. */
static void count_object(const struct region_input *input,
                         struct region_object *object, uint32_t i,
                         struct region_sum_row *row) {
  const struct region_sum *sum = input->sum;
  const struct region_columns *present = &sum->present;
  for (uint32_t copy = 0; copy < sum->copies; copy++) {
    uint64_t *last = object->last + (size_t)copy * sum->columns;
    const uint64_t *cells = cells_of(input->tile, copy, i);
    region_row_count(sum, row, copy, last, cells);
    for (uint32_t n = 0; n < present->len; n++)
      last[present->list[n].column] = cells[present->list[n].column];
  }
}

/* Leaves what the object has grown to `other`, because its row is changing. */
static void pass_over(const struct region_input *input,
                      struct region_object *object, uint32_t i) {
  for (uint32_t copy = 0; copy < input->sum->copies; copy++)
    memcpy(object->last + (size_t)copy * input->sum->columns,
           cells_of(input->tile, copy, i),
           input->sum->columns * sizeof(*object->last));
}

static void follow(const struct row *row, struct region_object *object) {
  struct region_sum *sum = row->input->sum;
  int64_t weight = weigh(row, top_cell(sum, object->last));
  object->is_chosen = false;
  object->row->weight = region_weights_add(object->row->weight, weight);
  count_object(row->input, object, row->i, object->row);
  if (!row->is_live)
    release_object(row->input, object);
}

/* Ends an object whose row now holds another object. The births of the next
 * object include the last counts of this one. If the row has held further
 * objects since the last scan, the last counts belong to `other`. */
static void end_object(const struct row *row, struct region_object *object) {
  struct region_sum *sum = row->input->sum;
  uint32_t next = region_incarnation(object->generation) + 1;
  if (region_incarnation(row->input->tile->generations[row->i]) == next &&
      need_births(row)) {
    uint64_t before = top_cell(sum, object->last);
    /* Cells that were read while the row was changing may exceed the births. */
    region_row_count(sum, object->row, 0, object->last, row->births);
    object->row->weight = region_weights_add(
        object->row->weight, (int64_t)(top_cell(sum, object->last) - before));
  }
  release_object(row->input, object);
}

/* Adds the present values of a row that is not shown to those of `other`. */
static void add_to_other(const struct row *row) {
  struct region_input *input = row->input;
  const struct region_sum *sum = input->sum;
  for (uint32_t n = 0; n < sum->present.len; n++) {
    const struct region_column *column = &sum->present.list[n];
    bool is_updown = sum->fields[column->field].kind == PERCORE_UPDOWN;
    uint32_t c = column->column;
    region_sum_combine(sum, column, &input->present[c],
                       row->totals[c] - (is_updown ? row->births[c] : 0),
                       !input->has_present);
  }
  input->has_present = sum->present.len > 0;
}

static void offer(const struct row *row, int64_t weight) {
  struct region_input *input = row->input;
  size_t most = input->sum->config->top;
  if (input->candidates.len >= most && weight <= input->least)
    return;
  struct region_object *object = make_object(input, row->i, false);
  if (object == NULL)
    return;
  object->weight = weight;
  if (!add(&input->candidates, object))
    region_object_free(input, object);
  if (input->candidates.len == 2 * most)
    region_candidates_cut(input);
}

static bool read_name(const struct row *row, char name[REGION_ROW_NAME_SIZE]) {
  return region_reader_row_name(row->input->instance->reader,
                                row->input->number, row->number,
                                row->input->tile->generations[row->i], name);
}

/* True if the option Row does not match the name of an object. */
static bool is_unwanted(const struct row *row, const char *name) {
  struct region_input *input = row->input;
  if (!input->sum->chooses_rows || row->was_seen)
    return false;
  input->names_matched += input->sum->config->rows_len;
  if (region_config_wants_row(input->sum->config, name))
    return false;
  if (row->is_marked)
    input->marks.candidate_in[row->number] = REGION_UNWANTED;
  return true;
}

/* True if there is no room for the values of another row. */
static bool lacks_values(const struct region_sum *sum) {
  return region_allowance_left(&sum->budget->values) <
         region_sum_row_values(sum);
}

/* True if no other row may be shown, except one that was shown before, or the
 * single row of a table. */
static bool is_full(const struct region_sum *sum) {
  return lacks_values(sum) ||
         (!sum->single && region_sum_new_rows(sum, sum->shown + 1) == 0);
}

/* Returns the row of the sum for an object, or `other` if the object is not
 * wanted, has this name or is gone, or NULL if there is no room for a row. With
 * Top, only names that are already shown are found. */
static struct region_sum_row *find_row(const struct row *row) {
  struct region_input *input = row->input;
  struct region_sum *sum = input->sum;
  bool ranks = sum->ranks_by != NULL;
  char name[REGION_ROW_NAME_SIZE];
  if (row->was_seen &&
      input->marks.candidate_in[row->number] == REGION_UNWANTED)
    return sum->other;
  bool full = is_full(sum);
  if ((ranks && sum->shown == 0 && !sum->chooses_rows) ||
      (ranks && row->was_seen && !input->looks_names_up) ||
      (!ranks && full && (row->was_seen || lacks_values(sum)) &&
       !input->looks_names_up && !sum->chooses_rows))
    return NULL;
  if (!read_name(row, name) || is_unwanted(row, name))
    return sum->other;
  struct region_sum_row *found = region_sum_find(sum, name, !ranks && !full);
  if (found == NULL && strcmp(name, sum->other->name) == 0)
    return sum->other;
  if (found == NULL || (ranks && !found->shown) ||
      (!ranks && !region_sum_show(sum, found)))
    return NULL;
  return found;
}

/* Handles an object that is not tracked: a live one, or one that came and went
 * since the last scan. Returns false if its row now holds another object. */
static bool consider(const struct row *row) {
  struct region_input *input = row->input;
  struct region_sum *sum = input->sum;
  struct region_sum_row *found = find_row(row);
  struct region_sum_row *shown = found != sum->other ? found : NULL;
  bool has_room = found == sum->other;
  bool ranks = sum->ranks_by != NULL;
  if ((shown != NULL || (ranks && !row->was_seen)) && !need_births(row))
    return false;
  struct region_object *object =
      shown != NULL ? make_object(input, row->i, row->is_new) : NULL;
  if (object != NULL) {
    if (shown->objects == 0)
      shown->since_ns = !row->is_new ? input->instance->watch->now.stamp_ns
                        : input->scanned || shown->put != 0 ? sum->put_ns
                                                            : input->start_ns;
    if (!row->is_live) {
      count_object(input, object, row->i, shown);
      region_object_free(input, object);
      has_room = true;
    } else if (region_object_show(input, object, shown)) {
      follow(row, object);
      return true;
    }
  }
  bool is_unwanted = row->is_marked &&
                     input->marks.candidate_in[row->number] == REGION_UNWANTED;
  uint64_t last = row->was_seen
                      ? input->marks.weighed[row->number]
                      : top_cell(sum, row->is_new ? row->births : row->totals);
  add_to_other(row);
  if (!ranks)
    input->left_out += !has_room;
  else if (row->is_marked && !is_unwanted)
    offer(row, weigh(row, last));
  return true;
}

static struct row look_at(struct region_input *input, uint32_t i) {
  const struct region_tile *tile = input->tile;
  uint32_t number = tile->first_row + i;
  struct row row = {.input = input,
                    .i = i,
                    .number = number,
                    .is_live =
                        region_state(tile->generations[i]) == REGION_LIVE,
                    .is_marked = number < input->marks.len,
                    .totals = cells_of(tile, 0, i),
                    .births = births_of(tile, i)};
  uint32_t seen =
      row.is_marked ? input->marks.incarnation[number] : REGION_UNREAD;
  row.was_seen =
      row.is_marked && seen == region_incarnation(tile->generations[i]);
  row.is_new = !row.was_seen &&
               (input->scanned ? seen != REGION_UNREAD : input->from_zero);
  if (row.is_marked && !row.was_seen && input->marks.candidate_in[number] != 0)
    input->marks.candidate_in[number] = 0;
  return row;
}

static struct region_object *find_object(struct region_input *input,
                                         uint32_t row) {
  struct region_object **list = input->objects.list;
  while (input->next_object < input->objects_len &&
         list[input->next_object]->number < row)
    input->next_object++;
  return input->next_object < input->objects_len &&
                 list[input->next_object]->number == row
             ? list[input->next_object]
             : NULL;
}

/* Notes that the row was not read. What the next scan finds in it may have
 * counted before. */
static void miss(const struct row *row) {
  if (row->is_marked)
    row->input->marks.incarnation[row->number] = REGION_UNREAD;
}

static void read_row(struct region_input *input, uint32_t i) {
  const struct region_tile *tile = input->tile;
  struct region_object *object = find_object(input, tile->first_row + i);
  if (tile->generations[i] == 0)
    return;
  struct row row = look_at(input, i);
  if (tile->generations[i] == REGION_CHANGING) {
    miss(&row);
    if (object != NULL)
      pass_over(input, object, i);
    return;
  }
  input->live += row.is_live;
  if (object != NULL && region_incarnation(object->generation) !=
                            region_incarnation(tile->generations[i])) {
    end_object(&row, object);
    object = NULL;
  }
  if (object != NULL) {
    follow(&row, object);
  } else if ((row.is_live || (row.is_new && row.is_marked)) &&
             !consider(&row)) {
    miss(&row);
    return;
  }
  if (!row.is_marked)
    return;
  input->marks.incarnation[row.number] =
      region_incarnation(tile->generations[i]);
  if (input->sum->ranks_by != NULL)
    input->marks.weighed[row.number] = top_cell(input->sum, row.totals);
}

/* How many elements of `weighed` are in a cache line, and how many rows ahead
 * marks are prefetched: the processor's own prefetch begins anew for each tile,
 * because the tile's cells are read between the marks. */
enum { LINE = 8, AHEAD = 512 };

/* Skips rows that are neither tracked nor would be now, from the tile's row i
 * on: live objects that the last scan has seen, if there is no room, or which
 * with Top have not grown more than the candidates. With Top, remembers their
 * cells. */
static uint32_t skip_light(struct region_input *input, uint32_t i) {
  const struct region_sum *sum = input->sum;
  const struct region_tile *tile = input->tile;
  bool ranks = sum->ranks_by != NULL;
  uint32_t columns = tile->columns, first = tile->first_row, stop = tile->rows;
  if (!input->skips ||
      (ranks ? input->candidates.len < sum->config->top : !is_full(sum)))
    return i;
  (void)find_object(input, first + i);
  if (input->next_object < input->objects_len)
    stop = MIN(stop, input->objects.list[input->next_object]->number - first);
  stop = MIN(stop, MAX(input->marks.len, first) - first);
  const uint64_t *cells = tile->totals + (ranks ? sum->ranks_by->column : 0);
  const uint32_t *seen = input->marks.incarnation + first;
  uint64_t *weighed = input->marks.weighed + first;
  uint32_t from = i;
  for (; i < stop; i++) {
    uint64_t generation = tile->generations[i];
    uint64_t now = cells[(size_t)i * columns];
    if (i % LINE == 0) {
      __builtin_prefetch(&weighed[i + AHEAD]);
      __builtin_prefetch(&seen[i + AHEAD]);
    }
    if (region_state(generation) != REGION_LIVE ||
        seen[i] != region_incarnation(generation) ||
        (ranks && (int64_t)(now - weighed[i]) > input->least))
      break;
    if (ranks && weighed[i] != now) /* a store costs memory bandwidth */
      weighed[i] = now;
  }
  input->live += i - from;
  input->left_out += ranks ? 0 : i - from;
  return i;
}

/* Adds the cells of every row to the totals of the table. */
static void add_tile(const struct region_input *input) {
  const struct region_tile *tile = input->tile;
  for (uint32_t copy = 0; copy < input->sum->copies; copy++)
    if (copy == 0 || tile->core_used[copy - 1])
      region_tile_add(tile, cells_of(tile, copy, 0),
                      input->now + (size_t)copy * tile->columns);
}

/* ---------------------------------------------------------------------------
 * A scan
 */

/* Ends a scan and logs the reason, which is in errno. After ENOMEM, the next
 * round begins a new scan. */
static void give_up(struct region_input *input) {
  struct region_sum *sum = input->sum;
  bool later = errno == ENOMEM;
  region_warn(region_about_sum(sum), "region %s: table %s is %s.",
              sum->budget->name, sum->table,
              later            ? "read later: out of memory"
              : errno == EFBIG ? "left out: a row of all cores takes more than "
                                 "16 MiB; set ReportPerCore false"
                               : "left out: MaxMemory is too small for it; "
                                 "raise MaxMemory");
  input->from_zero &= later;
  input->ending &= later;
  input->awaits_put &= !later;
  region_input_stop(input);
}

void region_input_begin(struct region_input *input) {
  struct region_sum *sum = input->sum;
  if (input->underway || (input->awaits_put && !input->ending))
    return;
  errno = 0; /* MaxMemory is no error of the system */
  if (!make_arrays(input)) {
    give_up(input);
    return;
  }
  tidy(input);
  region_candidates_drop(input, 0);
  make_marks(input);
  memset(input->now, 0,
         (size_t)(input->present - input->now) * sizeof(*input->now));
  input->has_present = false;
  bool several = sum->inputs != input || input->next_of_sum != NULL;
  input->looks_names_up =
      several && (sum->ranks_by == NULL || !input->scanned ||
                  input->names_seen != sum->names_shown);
  input->skips =
      !sum->chooses_rows && sum->present.len == 0 && !input->looks_names_up &&
      (sum->ranks_by == NULL || sum->ranks_by->kind == PERCORE_COUNTER);
  input->names_seen = sum->names_shown;
  input->awaits_put = true;
  input->least = INT64_MIN;
  input->scans++;
  input->next_row = 0;
  input->next_object = 0;
  input->objects_len = input->objects.len;
  input->live = input->left_out = 0;
  input->underway = true;
  sum->open++;
}

void region_input_stop(struct region_input *input) {
  if (!input->underway)
    return;
  input->underway = false;
  input->sum->open--;
}

/* Adds what all cells have grown since the last scan to `other`, from which the
 * growth of shown rows has already been subtracted. What was counted before the
 * first scan is left out unless from_zero is set. */
static void grow(struct region_input *input) {
  const struct region_sum *sum = input->sum;
  enum region_growth worst = REGION_GREW;
  if (!input->scanned && !input->from_zero)
    memcpy(input->last, input->now,
           (size_t)(input->now - input->last) * sizeof(*input->last));
  if (sum->other->since_ns == 0)
    sum->other->since_ns = input->from_zero
                               ? input->start_ns
                               : input->instance->watch->now.stamp_ns;
  for (uint32_t copy = 0; copy < sum->copies; copy++) {
    size_t at = (size_t)copy * sum->columns;
    worst = MAX(worst, region_row_count(sum, sum->other, copy, input->last + at,
                                        input->now + at));
  }
  if (worst == REGION_FELL)
    region_warn(region_about(input->instance, NULL),
                "region %s: counters of table %s decreased, which a producer "
                "must never do. They are reported again once they exceed their "
                "former values.",
                input->instance->label, sum->table);
  else if (worst == REGION_LEAPT)
    region_warn(region_about(input->instance, NULL),
                "region %s: counters of table %s grew by 2^63 or more at once. "
                "They are reported again once the producer is restarted.",
                input->instance->label, sum->table);
}

static void finish(struct region_input *input) {
  struct region_sum *sum = input->sum;
  grow(input);
  if (!input->scanned) /* names and births are not read again */
    region_reader_give_back(input->instance->reader);
  input->scanned = true;
  input->ending = false;
  sum->is_new = true;
  sum->read_ns = input->instance->watch->now.monotonic_ns;
  bool denies = is_full(sum) && !lacks_values(sum);
  if (denies)
    region_sum_deny(sum, input->left_out);
  else
    input->instance->watch->rows_left_out += input->left_out;
  if (input->left_out > 0 && sum->single)
    region_warn(region_about_sum(sum),
                "region %s: table %s is not reported: MaxValues or MaxMemory "
                "leave too little for its row; raise them.",
                input->instance->budget->name, sum->table);
  else if (input->left_out > 0 && !denies)
    region_warn(region_about_sum(sum),
                "region %s: table %s: %" PRIu64
                " of its rows are counted only in `other`: a region may have "
                "half of MaxValues or MaxMemory that other regions leave; "
                "raise them, or choose rows with Row and Top.",
                input->instance->budget->name, sum->table, input->left_out);
  region_input_stop(input);
}

static uint32_t tile_rows(const struct region_sum *sum) {
  uint64_t cells =
      sum->per_core ? REGION_TILE_CELLS_PER_CORE : REGION_TILE_CELLS;
  uint64_t row = (uint64_t)sum->columns * sum->copies;
  uint64_t few = MIN(TILE_ROWS, TILE_CORES_BYTES / sizeof(uint64_t) / row);
  return (uint32_t)MAX(1, MAX(cells / row, few));
}

/* Returns the cost of reading the tile, in cells. */
static uint64_t cost_of_tile(const struct region_input *input) {
  const struct region_sum *sum = input->sum;
  uint64_t slots =
      sum->per_core ? region_reader_slots(input->instance->reader) : 1;
  uint64_t row =
      sum->columns * MAX((uint64_t)sum->copies, slots / SLOTS_PER_CELL);
  return MAX(1, input->tile->rows) * row + CELLS_PER_SLOT * slots +
         CELLS_PER_MATCH * input->names_matched;
}

static void read_tile(struct region_input *input) {
  struct region_sum *sum = input->sum;
  input->names_matched = 0;
  region_tile_read(input->instance->reader, input->tile, input->next_row);
  add_tile(input);
  errno = 0; /* MaxMemory is no error of the system */
  for (uint32_t core = 0; core < sum->core_count; core++)
    sum->core_used[core] |= input->tile->core_used[core];
  for (uint32_t i = skip_light(input, 0); i < input->tile->rows;
       i = skip_light(input, i + 1))
    read_row(input, i);
  if (sum->single && input->left_out > 0 && errno == ENOMEM)
    give_up(input); /* `other` is not reported */
  if (input->live > REGION_PER_CORE_ROWS &&
      sum->budget->config->report_per_core == REGION_PER_CORE_FEW)
    sum->copies = 1; /* for good, so that series do not come and go */
  input->next_row += input->tile->rows;
  input->rows_read = MAX(input->rows_read, input->next_row);
}

bool region_input_read(struct region_input *input, uint64_t *cells_left) {
  if (!input->underway)
    return false;
  struct region_watch *watch = input->instance->watch;
  struct region_sum *sum = input->sum;
  /* If few rows or none need births, those are read row by row. */
  bool few = sum->present.len == 0 &&
             (sum->ranks_by != NULL || (input->skips && is_full(sum)));
  uint32_t want = (few ? 0 : REGION_WANT_BIRTHS) |
                  (sum->copies > 1 ? REGION_WANT_CORES : 0);
  input->tile = &watch->tile;
  int status = region_tile_reuse(input->tile, input->instance->reader,
                                 input->number, tile_rows(sum), want);
  if (status != 0)
    give_up(input);
  bool goes_on = status == 0;
  while (goes_on) {
    read_tile(input);
    *cells_left -= MIN(*cells_left, cost_of_tile(input));
    if (input->underway && input->tile->rows < input->tile->capacity)
      finish(input);
    goes_on =
        input->underway && *cells_left > 0 && region_watch_is_wanted(watch);
  }
  if (input->tile->size > TILE_KEPT_BYTES)
    region_tile_free(input->tile);
  return true;
}

void region_input_leave(struct region_input *input) {
  struct region_sum *sum = input->sum;
  if (sum == NULL)
    return;
  region_input_stop(input);
  region_candidates_drop(input, 0);
  for (size_t p = 0; p < input->objects.len; p++)
    region_object_free(input, input->objects.list[p]);
  struct region_input **link = &sum->inputs;
  while (*link != input)
    link = &(*link)->next_of_sum;
  *link = input->next_of_sum;
  region_sum_rest(sum);
  region_allowance_give(&sum->budget->memory, input->bytes);
  free(input->objects.list);
  free(input->candidates.list);
  free(input->last);
  if (input->marks.size > 0)
    munmap(input->marks.weighed, input->marks.size);
  *input = (struct region_input){.instance = input->instance,
                                 .number = input->number};
}
