#include "regions.h"

#include "base/array.h"

#include "utils/common/common.h"

/* The memory of a tile is kept for the next. A large request in each round
 * would make malloc merge all small free chunks, which dispatching needs again:
 * this takes a fifth of the time of dispatching. */
#define TILE_KEPT_BYTES ((size_t)1 << 20)
/* How far ahead of its use what is remembered is loaded, in words. */
#define PREFETCHED 1024

/* ---------------------------------------------------------------------------
 * Memory
 */

static uint64_t *last_of(const struct region_input *input, uint32_t row,
                         uint32_t copy) {
  return region_growth_last(&input->past, row, copy);
}

static size_t size_of_row(const struct region_input *input) {
  return region_growth_of_row(&input->past) + sizeof(*input->rows);
}

/* Allocates zeroed memory and charges it to the allowance. Returns NULL if the
 * allowance is too small or calloc fails. */
static void *allocate(struct region_allowance *allowance, size_t size) {
  if (!region_allowance_take(allowance, size))
    return NULL;
  void *memory = calloc(1, size);
  if (memory == NULL)
    region_allowance_give(allowance, size);
  return memory;
}

/* Remembers `rows` rows. Returns false if memory is short. */
static bool remember(struct region_input *input, uint32_t rows) {
  struct region_allowance *memory = &input->sum->budget->memory;
  size_t before = input->past.rows;
  size_t more = (rows - before) * size_of_row(input);
  if (!region_allowance_take(memory, more))
    return false;
  if (!array_grow(&input->rows, before, rows, sizeof(*input->rows)) ||
      !region_growth_resize(&input->past, rows)) {
    region_allowance_give(memory, more);
    return false;
  }
  input->bytes += more;
  return true;
}

/* Forgets single cores, which are not reported any more. */
static void forget_cores(struct region_input *input) {
  size_t before = size_of_row(input);
  region_growth_forget_copies(&input->past);
  size_t less = input->past.rows * (before - size_of_row(input));
  input->bytes -= less;
  region_allowance_give(&input->sum->budget->memory, less);
}

/* Warns of rows that are not remembered, and says which MaxMemory has room for
 * all: twice what the region would then take (allowance.h). */
static void tell_memory(const struct region_input *input, size_t rows) {
  const struct region_sum *sum = input->sum;
  const struct region_allowance *memory = &sum->budget->memory;
  region_warn(region_about_sum(sum),
              "region %s: table %s: %zu of its rows are counted only in "
              "`other`: MaxMemory is too small; set MaxMemory %zu.",
              sum->budget->name, sum->table, rows,
              memory->pool->used + memory->used +
                  rows * size_of_row(input) * 5 / 2 + memory->pool->own);
}

/* Makes room for what is remembered of all rows, or of those with the lowest
 * numbers. Returns false if there is too little memory for any. */
static bool make_room(struct region_input *input) {
  struct region_sum *sum = input->sum;
  struct region_allowance *memory = &sum->budget->memory;
  struct region_reader *reader = input->producer->reader;
  uint32_t in_use = region_reader_rows(reader, input->number);
  uint32_t max_rows =
      region_reader_directory(reader)->tables[input->number].max_rows;
  if (sum->copies > 1 &&
      sum->budget->config->report_per_core == REGION_PER_CORE_FEW &&
      region_reader_live_rows(reader, input->number) > REGION_PER_CORE_ROWS)
    sum->copies = 1; /* for good, so that series do not come and go */
  if (input->rest == NULL) {
    size_t cells = (size_t)sum->copies * sum->columns;
    size_t most = sum->ranks_by == NULL ? 0 : MIN(sum->config->top, max_rows);
    size_t size =
        3 * cells * sizeof(uint64_t) + 2 * most * sizeof(*input->candidates);
    input->rest = allocate(memory, size);
    if (input->rest == NULL)
      return false;
    input->bytes += size;
    input->rest_now = input->rest + cells;
    input->rest_next = input->rest_now + cells;
    input->candidates = (void *)(input->rest_next + cells);
    input->candidates_most = most;
    input->past.copies = sum->copies;
    input->past.width = sum->counters.len + sum->present.len;
  }
  if (input->past.copies > sum->copies)
    forget_cores(input);
  size_t left = region_allowance_left(memory) / size_of_row(input);
  size_t more = sum->single ? left : left / 8 * 7; /* leaves some for names */
  uint32_t rows = (uint32_t)MIN(in_use, input->past.rows + more);
  if (rows > input->past.rows && !remember(input, rows) && sum->single)
    return false;
  if (input->past.rows < in_use && !sum->single &&
      (sum->ranks_by != NULL || sum->chooses_rows))
    tell_memory(input, in_use - input->past.rows);
  return true;
}

/* ---------------------------------------------------------------------------
 * A row that is read
 */

struct row {
  struct region_input *input;
  uint32_t i, number, incarnation;
  bool is_live;
  bool is_same; /* the last scan read the same object */
  bool is_new;  /* no scan has counted the object yet, and none has missed it */
};

static const uint64_t *cells_of(const struct region_tile *tile, uint32_t copy,
                                uint32_t i) {
  size_t at = (size_t)i * tile->columns;
  return copy == 0 ? tile->totals + at
                   : tile->cores + at +
                         (size_t)(copy - 1) * tile->capacity * tile->columns;
}

/* Makes sure that the births have been read. Returns false if the row holds
 * another object by now. */
static bool need_births(const struct row *row) {
  struct region_input *input = row->input;
  return input->tile->want & REGION_WANT_BIRTHS ||
         region_tile_read_births(input->producer->reader, input->tile, row->i);
}

static uint32_t copies_of(const struct region_input *input) {
  return MIN(input->past.copies, input->sum->copies);
}

/* Adds what a copy has grown to a row, and notes the worst of all copies. */
static void count(struct region_input *input, struct region_sum_row *to,
                  uint32_t copy, uint64_t *last, const uint64_t *cells) {
  input->worst =
      MAX(input->worst, region_row_count(input->sum, to, copy, last, cells));
}

/* Adds what the tile's row i has grown. */
static void count_cells(struct region_input *input, struct region_sum_row *to,
                        uint32_t i) {
  for (uint32_t copy = 0; copy < copies_of(input); copy++)
    count(input, to, copy, last_of(input, input->tile->first_row + i, copy),
          cells_of(input->tile, copy, i));
}

/* Stops counting the row's object for a row of the sum. A row without objects
 * is hidden, with Top not until the next choice, because a successor may
 * continue it. */
static void release(struct region_input *input, uint32_t number) {
  struct region_sum_row *row = input->rows[number];
  input->rows[number] = NULL;
  input->assigned -= row != NULL;
  if (row != NULL && --row->objects == 0 && row != input->sum->other &&
      input->sum->ranks_by == NULL)
    region_sum_hide(input->sum, row);
}

void region_input_assign(struct region_input *input, uint32_t number,
                         struct region_sum_row *row) {
  input->rows[number] = row;
  input->assigned++;
  row->objects++;
}

/* Returns the counter of a row by which Top ranks. */
static uint64_t ranking(const struct region_input *input, uint32_t number) {
  const struct region_sum *sum = input->sum;
  return sum->ranks_by != NULL && sum->ranks_by->kind == PERCORE_COUNTER
             ? last_of(input, number, 0)[sum->rank_at]
             : 0;
}

/* Counts of a row that was not remembered are left out: they are in `other`, or
 * were made before the first scan. */
static void learn(struct region_input *input, uint32_t number, uint32_t i) {
  const struct region_columns *counters = &input->sum->counters;
  for (uint32_t copy = 0; copy < copies_of(input); copy++)
    for (uint32_t n = 0; n < counters->len; n++)
      last_of(input, number, copy)[n] =
          cells_of(input->tile, copy, i)[counters->list[n].column];
}

/* Begins the object that the row has now. Its births include the last counts of
 * the object before. If the row has held further objects meanwhile, these
 * counts belong to `other`, and so does all that single cores have counted:
 * births are sums over all cores, except those of a row's first object. */
static void begin_object(const struct row *row) {
  struct region_input *input = row->input;
  struct region_sum *sum = input->sum;
  struct region_sum_row *to = input->rows[row->number];
  uint64_t before = ranking(input, row->number);
  bool is_next = row->incarnation == input->past.incarnations[row->number] + 1;
  bool is_first = row->incarnation <= 1;
  if (to == NULL || !is_next)
    to = sum->other;
  for (uint32_t copy = 0; copy < copies_of(input); copy++) {
    uint64_t *last = last_of(input, row->number, copy);
    const uint64_t *cells = cells_of(input->tile, copy, row->i);
    const uint64_t *births =
        copy == 0 ? input->tile->births + (size_t)row->i * sum->columns : cells;
    if (copy == 0 || !is_first)
      (void)region_row_count(sum, copy == 0 ? to : sum->other, copy, last,
                             births);
    for (uint32_t n = 0; n < sum->present.len; n++) {
      const struct region_column *column = &sum->present.list[n];
      bool is_updown = sum->fields[column->field].kind == PERCORE_UPDOWN;
      last[sum->counters.len + n] =
          is_updown && (copy == 0 || !is_first) ? births[column->column] : 0;
    }
  }
  to->weight = region_weights_add(
      to->weight, (int64_t)(ranking(input, row->number) - before));
  release(input, row->number);
  input->past.incarnations[row->number] = row->incarnation;
}

/* Combines the present values of a row with those of others. */
static void combine(struct region_input *input, struct region_sum_row *to,
                    uint32_t i, const uint64_t *bases) {
  const struct region_sum *sum = input->sum;
  uint32_t copies = to == sum->other || bases == NULL ? 1 : copies_of(input);
  if (to->read_in != sum->pass)
    to->parts = to->singles = 0;
  to->read_in = sum->pass;
  const struct region_instance *name = input->producer->instance;
  uint64_t started_ns = region_producer_started_ns(input->producer);
  bool is_other =
      to->singles > 0 && to->newest_of == name && to->newest_ns != started_ns;
  bool is_older = is_other && started_ns < to->newest_ns;
  to->singles += !is_other;
  to->newest_of = name;
  to->newest_ns = is_older ? to->newest_ns : started_ns;
  for (uint32_t copy = 0; copy < copies; copy++)
    for (uint32_t n = 0; n < sum->present.len; n++) {
      const struct region_column *column = &sum->present.list[n];
      uint64_t base = 0;
      if (is_older && region_field_is_single(&sum->fields[column->field]))
        continue;
      if (bases != NULL)
        base = bases[(size_t)copy * input->past.width + sum->counters.len + n];
      else if (sum->fields[column->field].kind == PERCORE_UPDOWN)
        base = input->tile->births[(size_t)i * sum->columns + column->column];
      region_sum_combine(sum, column,
                         &to->now[(size_t)copy * sum->columns + column->column],
                         cells_of(input->tile, copy, i)[column->column] - base,
                         to->parts == 0);
    }
  to->parts++;
}

/* ---------------------------------------------------------------------------
 * For which row of the sum an object counts
 */

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
  bool looks = input->looks_names_up || sum->chooses_rows;
  char name[REGION_ROW_NAME_SIZE];
  if (ranks && ((sum->shown == 0 && !sum->chooses_rows) ||
                (row->is_same && !input->looks_names_up)))
    return NULL;
  bool full = is_full(sum);
  if (!ranks && full && (row->is_same || lacks_values(sum)) && !looks)
    return NULL;
  if (!region_reader_row_name(input->producer->reader, input->number,
                              row->number, input->tile->generations[row->i],
                              name) ||
      (sum->chooses_rows && !row->is_same &&
       !region_config_wants_row(sum->config, name)))
    return sum->other;
  struct region_sum_row *found = region_sum_find(sum, name, !ranks && !full);
  if (found == NULL && strcmp(name, sum->other->name) == 0)
    return sum->other;
  if (found == NULL || (ranks && !found->shown) ||
      (!ranks && !region_sum_show(sum, found)))
    return NULL;
  if (found->objects == 0)
    found->since_ns = !row->is_new ? input->producer->watch->now.stamp_ns
                      : input->scans > 0 || found->put != 0 ? sum->put_ns
                                                            : input->start_ns;
  return found;
}

static void offer(const struct row *row, int64_t weight) {
  struct region_input *input = row->input;
  if (input->candidates_most == 0 ||
      (input->candidates_len >= input->candidates_most &&
       weight <= input->least))
    return;
  input->candidates[input->candidates_len++] = (struct region_candidate){
      .number = row->number, .incarnation = row->incarnation, .weight = weight};
  if (input->candidates_len == 2 * input->candidates_most)
    region_candidates_cut(input);
}

/* Returns the weight by which Top ranks the row: the growth of a counter, or
 * the present value of an up-down counter or gauge; 0 without Top. */
static int64_t weigh(const struct row *row) {
  const struct region_input *input = row->input;
  const struct region_sum *sum = input->sum;
  if (sum->ranks_by == NULL)
    return 0;
  return (int64_t)(cells_of(input->tile, 0, row->i)[sum->ranks_by->column] -
                   last_of(input, row->number, 0)[sum->rank_at]);
}

/* ---------------------------------------------------------------------------
 * Rows
 */

/* Adds the cells of a row that is not remembered, or was not at the last scan.
 */
static void add_to_rest(struct region_input *input, uint32_t i, bool moves) {
  const struct region_sum *sum = input->sum;
  for (uint32_t copy = 0; copy < copies_of(input); copy++)
    for (uint32_t c = 0; c < sum->columns; c++) {
      uint64_t cell = cells_of(input->tile, copy, i)[c];
      input->rest_now[(size_t)copy * sum->columns + c] += cell;
      input->rest_next[(size_t)copy * sum->columns + c] += moves ? 0 : cell;
    }
}

/* Returns the row of the sum for which the row's object counts, as find_row
 * does. An object counts no longer for a row that has lost its place. */
static struct region_sum_row *choose_row(const struct row *row) {
  struct region_input *input = row->input;
  struct region_sum_row *to = input->rows[row->number];
  if (to != NULL && to != input->sum->other && !to->shown) {
    release(input, row->number);
    to = NULL;
  }
  if (to == NULL && (row->is_live || row->is_new)) {
    to = find_row(row);
    if (to != NULL && row->is_live)
      region_input_assign(input, row->number, to);
  }
  return to;
}

/* Reads a row that is remembered. */
static void count_row(const struct row *row) {
  struct region_input *input = row->input;
  struct region_sum *sum = input->sum;
  struct region_sum_row *to = choose_row(row);
  int64_t weight = weigh(row);
  if (to == NULL && sum->single)
    return; /* `other` is not reported: its counts wait */
  if (to == NULL && row->is_live && sum->ranks_by != NULL)
    offer(row, weight);
  if (to == NULL)
    to = sum->other;
  else
    to->weight = region_weights_add(to->weight, weight);
  count_cells(input, to, row->i);
  if (row->is_live && sum->present.len > 0 && !input->ended)
    combine(input, to, row->i, last_of(input, row->number, 0));
  if (!row->is_live && input->rows[row->number] != NULL)
    release(input, row->number);
}

static void read_row(struct region_input *input, uint32_t i) {
  struct region_sum *sum = input->sum;
  uint64_t generation = input->tile->generations[i];
  uint32_t number = input->tile->first_row + i;
  bool is_remembered = number < input->past.rows;
  bool moves = number >= input->kept && number < input->rows_read;
  bool is_known = (input->scans > 0 || input->from_zero) && !moves;
  struct row row = {.input = input,
                    .i = i,
                    .number = number,
                    .incarnation = region_incarnation(generation),
                    .is_live = region_state(generation) == REGION_LIVE};
  if (generation == 0)
    return;
  input->live += row.is_live;
  if (!is_remembered || moves)
    add_to_rest(input, i, is_remembered);
  if (is_remembered && !is_known)
    learn(input, number, i);
  if (!is_remembered) {
    if (row.is_live && sum->present.len > 0 && !input->ended &&
        need_births(&row))
      combine(input, sum->other, i, NULL);
  } else if (generation == REGION_CHANGING) {
    count_cells(input, sum->other, i);
  } else {
    row.is_same = input->past.incarnations[number] == row.incarnation;
    row.is_new = !row.is_same && is_known;
    if (!row.is_same && !need_births(&row))
      return; /* it is read again in the next scan */
    if (!row.is_same)
      begin_object(&row);
    count_row(&row);
  }
}

static bool is_as_before(uint64_t generation, uint32_t incarnation) {
  return region_state(generation) == REGION_LIVE &&
         region_incarnation(generation) == incarnation;
}

/* Reads light rows, from the tile's row i on, and returns the first row that is
 * not light. A row is light if it holds the same object as at the last scan,
 * and has counted either nothing, or something that belongs to `other` and
 * would not make Top choose the row. If a counter of the returned row has
 * fallen, those before it may have been counted. `dense`: all columns of the
 * table are reported counters. Most rows of large tables are light, and reading
 * them this way takes half of the time. */
static inline __attribute__((always_inline)) uint32_t
read_light(struct region_input *input, uint32_t i, bool dense) {
  const struct region_sum *sum = input->sum;
  const struct region_tile *tile = input->tile;
  const struct region_column *counters = sum->counters.list;
  const uint32_t first = tile->first_row, len = sum->counters.len;
  const uint32_t columns = dense ? len : tile->columns;
  const uint32_t stop = MIN(tile->rows, input->kept - first);
  const uint32_t rank_at = sum->ranks_by != NULL ? sum->rank_at : 0;
  const uint32_t rank_column = counters[rank_at].column;
  const int64_t least = sum->ranks_by != NULL ? input->least : INT64_MAX;
  const uint64_t *generations = tile->generations;
  const uint32_t *incarnations = input->past.incarnations + first;
  if (dense && i == 0 &&
      memcmp(tile->totals, last_of(input, first, 0),
             (size_t)stop * len * sizeof(*tile->totals)) == 0)
    while (i < stop && is_as_before(generations[i], incarnations[i]))
      i++;
  const uint64_t *cells = tile->totals + (size_t)i * columns;
  struct region_sum_row *const *rows = input->rows + first;
  uint64_t *last = last_of(input, first + i, 0), *now = sum->other->now;
  for (; i < stop; i++, cells += columns, last += len) {
    uint64_t weight = cells[rank_column] - last[rank_at], grown = weight;
    __builtin_prefetch(last + PREFETCHED, 1);
    if (!is_as_before(generations[i], incarnations[i]))
      break;
    for (uint32_t n = 0; n < len && grown == 0; n++)
      grown = cells[dense ? n : counters[n].column] - last[n];
    if (grown == 0)
      continue;
    if (rows[i] != NULL || (int64_t)weight > least)
      break;
    for (uint32_t n = 0; n < len; n++) {
      uint32_t c = dense ? n : counters[n].column;
      grown = cells[c] - last[n];
      if (grown >> 63 != 0)
        return i;
      now[c] += grown;
      last[n] = cells[c];
    }
  }
  return i;
}

/* Returns the first of the tile's rows, from i on, that is not light. */
static uint32_t skip_light(struct region_input *input, uint32_t i) {
  const struct region_sum *sum = input->sum;
  if (!input->skips || input->tile->first_row + i >= input->kept ||
      (sum->ranks_by != NULL ? input->candidates_len < input->candidates_most
                             : !is_full(sum)))
    return i;
  uint32_t next = sum->counters.len == input->tile->columns
                      ? read_light(input, i, true)
                      : read_light(input, i, false);
  input->live += next - i;
  return next;
}

/* ---------------------------------------------------------------------------
 * A scan
 */

/* Notes that the sum need not wait for the input, or must. */
static void set_new(struct region_input *input, bool is_new) {
  input->sum->unread += (uint32_t)input->is_new - (uint32_t)is_new;
  input->is_new = is_new;
}

void region_input_restart(struct region_input *input) {
  input->next_row = 0;
  if (input->sum != NULL)
    set_new(input, false);
}

void region_sum_begin_pass(struct region_sum *sum) {
  sum->pass++;
  for (struct region_input *input = sum->inputs; input != NULL;
       input = input->next_of_sum)
    region_input_restart(input);
}

/* Logs why the table is not read; the reason is in errno. */
static enum region_scan give_up(struct region_input *input) {
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
  set_new(input, true);
  return later ? REGION_SCAN_LATER : REGION_SCAN_DONE;
}

/* What a cut file seems to have lost is no fault of the producer's counting. */
static void tell_growth(const struct region_input *input) {
  const char *label = input->producer->instance->label;
  if (region_reader_is_cut(input->producer->reader))
    return;
  if (input->worst == REGION_FELL)
    region_warn(region_about(input->producer->instance, NULL),
                "region %s: counters of table %s decreased, which a producer "
                "must never do. They are reported again once they exceed their "
                "former values.",
                label, input->sum->table);
  else if (input->worst == REGION_LEAPT)
    region_warn(region_about(input->producer->instance, NULL),
                "region %s: counters of table %s grew by 2^63 or more at once. "
                "They are reported again once the producer is restarted.",
                label, input->sum->table);
}

/* Returns how many live rows count only in `other`. With Top, those are no
 * matter of room. */
static uint64_t left_out(const struct region_input *input) {
  return input->sum->ranks_by != NULL || input->live < input->assigned
             ? 0
             : input->live - input->assigned;
}

static void tell_left_out(const struct region_input *input) {
  struct region_sum *sum = input->sum;
  uint64_t rows = left_out(input);
  bool denies = is_full(sum) && !lacks_values(sum);
  if (denies)
    region_sum_deny(sum, rows);
  else
    input->producer->watch->rows_left_out += rows;
  if (rows > 0 && sum->single)
    region_warn(region_about_sum(sum),
                "region %s: table %s is not reported: MaxValues or MaxMemory "
                "leave too little for its row; raise them.",
                input->producer->instance->budget->name, sum->table);
  else if (rows > 0 && !denies)
    region_warn(region_about_sum(sum),
                "region %s: table %s: %" PRIu64
                " of its rows are counted only in `other`: a region may have "
                "half of MaxValues or MaxMemory that other regions leave; "
                "raise them, or choose rows with Row and Top.",
                input->producer->instance->budget->name, sum->table, rows);
}

/* Counts the rows that are not remembered in `other`. */
static void count_rest(struct region_input *input) {
  const struct region_sum *sum = input->sum;
  for (uint32_t copy = 0; copy < copies_of(input); copy++) {
    size_t at = (size_t)copy * sum->columns;
    uint64_t *last = input->rest + at;
    if (input->scans > 0 || input->from_zero)
      count(input, sum->other, copy, last, input->rest_now + at);
    for (uint32_t n = 0; n < sum->counters.len; n++) {
      size_t c = at + sum->counters.list[n].column;
      if (input->scans > 0 || input->from_zero)
        last[n] -= input->rest_now[c] - input->rest_next[c];
      else
        last[n] = input->rest_next[c];
    }
  }
}

static bool begin(struct region_input *input) {
  struct region_sum *sum = input->sum;
  errno = 0; /* MaxMemory is no error of the system */
  if (!make_room(input))
    return false;
  memset(input->rest_now, 0,
         2 * (size_t)(input->rest_now - input->rest) * sizeof(uint64_t));
  bool several = sum->inputs != input || input->next_of_sum != NULL;
  input->looks_names_up =
      several && (sum->ranks_by == NULL || input->scans == 0 ||
                  input->names_seen != sum->names_shown);
  input->skips = sum->present.len == 0 && copies_of(input) == 1 &&
                 !input->looks_names_up && !sum->single;
  input->names_seen = sum->names_shown;
  input->least = INT64_MIN;
  input->candidates_len = 0;
  input->live = 0;
  input->worst = REGION_GREW;
  if (sum->other->since_ns == 0)
    sum->other->since_ns = input->from_zero
                               ? input->start_ns
                               : input->producer->watch->now.stamp_ns;
  return true;
}

static void read_tile(struct region_input *input) {
  struct region_sum *sum = input->sum;
  struct region_tile *tile = input->tile;
  region_tile_read(input->producer->reader, tile, input->next_row);
  for (uint32_t core = 0; core < sum->core_count; core++)
    sum->core_used[core] |= tile->core_used[core];
  for (uint32_t i = skip_light(input, 0); i < tile->rows;
       i = skip_light(input, i + 1))
    read_row(input, i);
  input->next_row += tile->rows;
}

static void finish(struct region_input *input) {
  struct region_sum *sum = input->sum;
  input->rows_read = MAX(input->rows_read, input->next_row);
  input->kept = input->past.rows;
  input->next_row = 0;
  count_rest(input);
  tell_growth(input);
  if (sum->single && left_out(input) > 0 && errno == ENOMEM)
    (void)give_up(input);
  else
    tell_left_out(input);
  if (input->scans++ == 0) /* names and births are not read again */
    region_reader_give_back(input->producer->reader);
  set_new(input, true);
  sum->is_new = true;
  sum->read_ns = input->producer->watch->now.monotonic_ns;
}

/* If few rows or none need births, those are read row by row. */
static bool prepare_tile(struct region_input *input) {
  struct region_sum *sum = input->sum;
  bool many = sum->present.len > 0 || input->scans == 0;
  uint32_t want = (many ? REGION_WANT_BIRTHS : 0) |
                  (copies_of(input) > 1 ? REGION_WANT_CORES : 0);
  const struct region_reader *reader = input->producer->reader;
  uint32_t rows = region_tile_rows(reader, input->number, sum->copies);
  input->tile = &input->producer->watch->tile;
  return region_tile_reuse(input->tile, reader, input->number, rows, want) == 0;
}

enum region_scan region_input_scan(struct region_input *input, bool ended,
                                   uint64_t until_ns) {
  const struct region_watch *watch = input->producer->watch;
  input->ended = ended;
  if ((input->next_row == 0 && !begin(input)) || !prepare_tile(input))
    return give_up(input);
  errno = 0;
  for (;;) {
    read_tile(input);
    if (input->tile->rows < input->tile->capacity)
      break;
    if (region_watch_now_ns(watch) > until_ns || !region_watch_is_wanted(watch))
      return REGION_SCAN_STOPPED;
  }
  finish(input);
  if (input->tile->size > TILE_KEPT_BYTES)
    region_tile_free(input->tile);
  return REGION_SCAN_DONE;
}

void region_input_leave(struct region_input *input) {
  struct region_sum *sum = input->sum;
  if (sum == NULL)
    return;
  for (uint32_t row = 0; row < input->past.rows; row++)
    if (input->rows[row] != NULL)
      input->rows[row]->objects--; /* the next put hides it */
  struct region_input **link = &sum->inputs;
  while (*link != input)
    link = &(*link)->next_of_sum;
  *link = input->next_of_sum;
  sum->unread -= !input->is_new;
  region_sum_rest(sum);
  region_allowance_give(&sum->budget->memory, input->bytes);
  region_growth_free(&input->past);
  free(input->rows);
  free(input->rest);
  *input = (struct region_input){.producer = input->producer,
                                 .number = input->number};
}
