/* The rows of a region_sum: their names, their values, and when they are freed.
 */
#include "region_sum.h"

#include "region_name.h"

#include "utils/common/common.h"

/* ---------------------------------------------------------------------------
 * One row
 */

void *region_claim(struct region_allowance *allowance, size_t size) {
  if (!region_allowance_take(allowance, size))
    return NULL;
  void *memory = calloc(1, size);
  if (memory == NULL)
    region_allowance_give(allowance, size);
  return memory;
}

/* Bytes charged to the allowance; slightly more than are allocated. */
static size_t size_of_row(const struct region_sum *sum, uint32_t copies,
                          const char *name, const char *clean) {
  return sizeof(struct region_sum_row) + strlen(name) + strlen(clean) + 2 +
         2 * (size_t)copies * sum->shape.columns * sizeof(uint64_t) +
         (size_t)copies * sum->shape.field_count * sizeof(struct region_first) +
         4 * sizeof(void *); /* in the list and the hash chains */
}

size_t region_sum_row_size(const struct region_sum *sum) {
  return size_of_row(sum, sum->copies, "", "") + REGION_ROW_NAME_SIZE;
}

struct region_sum_row *region_sum_make_row(struct region_sum *sum,
                                           const char *name) {
  char clean[DATA_MAX_NAME_LEN - 8]; /* leaves room for `_p50` */
  region_name_clean(clean, sizeof(clean), sum->shape.single ? "all" : name);
  size_t size = size_of_row(sum, sum->copies, name, clean);
  size_t cells = (size_t)sum->copies * sum->shape.columns;
  struct region_sum_row *row = region_claim(sum->allowance, size);
  if (row == NULL)
    return NULL;
  row->now = (void *)(row + 1);
  row->delta = row->now + cells;
  row->first = (void *)(row->delta + cells);
  row->name =
      (void *)(row->first + (size_t)sum->copies * sum->shape.field_count);
  row->copies = sum->copies;
  row->clean = strcpy(row->name, name) + strlen(name) + 1;
  strcpy(row->clean, clean);
  row->used = sum->round;
  return row;
}

void region_sum_free_row(struct region_sum *sum, struct region_sum_row *row) {
  if (row != NULL)
    region_allowance_give(sum->allowance,
                          size_of_row(sum, row->copies, row->name, row->clean));
  free(row);
}

/* ---------------------------------------------------------------------------
 * Rows by name
 */

/* Names come from producers: hashing includes an address, so that a producer
 * cannot choose names that share a chain. */
static size_t hash(const struct region_sum *sum, const char *name) {
  uint64_t h = 0xcbf29ce484222325u ^ (uintptr_t)sum;
  for (; *name != '\0'; name++)
    h = (h ^ (unsigned char)*name) * 0x100000001b3u;
  return (size_t)(h ^ h >> 32);
}

static void link_row(struct region_sum *sum, struct region_sum_row *row) {
  struct region_sum_row **chain =
      &sum->rows.by_name[hash(sum, row->name) & (sum->rows.chains - 1)];
  row->next_by_name = *chain;
  *chain = row;
  chain = &sum->rows.by_clean[hash(sum, row->clean) & (sum->rows.chains - 1)];
  row->next_by_clean = *chain;
  *chain = row;
}

/* Two names that differ only in bytes that identifiers cannot contain become
 * the same identifier. Then neither row is reported. */
static void mark_clashes(struct region_sum *sum, struct region_sum_row *row) {
  struct region_sum_row *other =
      sum->rows.by_clean[hash(sum, row->clean) & (sum->rows.chains - 1)];
  row->clashes = !sum->shape.single && strcmp(row->clean, "other") == 0;
  while (other != NULL &&
         (other == row || strcmp(other->clean, row->clean) != 0))
    other = other->next_by_clean;
  if (other == NULL)
    return;
  row->clashes = other->clashes =
      true; /* other rows with this name are marked already */
  if (!sum->clash_told)
    WARNING("percore: two rows of table %s are not reported: both would be "
            "called \"%s\"; rename one of them. Further clashes are not "
            "logged.",
            sum->table, row->clean);
  sum->clash_told = true;
}

static void relink(struct region_sum *sum) {
  memset(sum->rows.by_name, 0, sum->rows.chains * sizeof(*sum->rows.by_name));
  memset(sum->rows.by_clean, 0, sum->rows.chains * sizeof(*sum->rows.by_clean));
  for (size_t i = 0; i < sum->rows.len; i++)
    link_row(sum, sum->rows.list[i]);
}

static bool make_room(struct region_sum *sum) {
  if (sum->rows.len < sum->rows.capacity)
    return true;
  size_t capacity = sum->rows.capacity > 0 ? 2 * sum->rows.capacity : 64;
  void *rows = realloc(sum->rows.list, capacity * sizeof(*sum->rows.list));
  if (rows == NULL)
    return false;
  sum->rows.list = rows;
  sum->rows.capacity = capacity;
  void *by_name = calloc(capacity, sizeof(*sum->rows.by_name));
  void *by_clean = calloc(capacity, sizeof(*sum->rows.by_clean));
  if (by_name == NULL || by_clean == NULL) {
    free(by_name);
    free(by_clean);
    return true; /* chains get longer, and still work */
  }
  free(sum->rows.by_name);
  free(sum->rows.by_clean);
  sum->rows.by_name = by_name;
  sum->rows.by_clean = by_clean;
  sum->rows.chains = capacity;
  relink(sum);
  return true;
}

struct region_sum_row *region_sum_find(const struct region_sum *sum,
                                       const char *name) {
  struct region_sum_row *row =
      sum->rows.by_name[hash(sum, name) & (sum->rows.chains - 1)];
  while (row != NULL && strcmp(row->name, name) != 0)
    row = row->next_by_name;
  return row;
}

struct region_sum_row *region_sum_name(struct region_sum *sum,
                                       const char *name) {
  struct region_sum_row *row = region_sum_find(sum, name);
  if (row != NULL)
    return row;
  if (!make_room(sum) || (row = region_sum_make_row(sum, name)) == NULL) {
    sum->memory_short = true;
    return NULL;
  }
  sum->rows.list[sum->rows.len++] = row;
  link_row(sum, row);
  mark_clashes(sum, row);
  return row;
}

/* ---------------------------------------------------------------------------
 * Values
 */

static uint64_t combine(uint32_t kind, uint32_t aggregation, uint64_t so_far,
                        uint64_t value) {
  if (kind == PERCORE_STATE)
    return value;
  return region_combine_levels(
      kind == PERCORE_GAUGE ? PERCORE_SUM : aggregation, so_far, value);
}

static void clear_delta(const struct region_sum *sum,
                        struct region_sum_row *row) {
  memset(row->delta, 0,
         (size_t)row->copies * sum->shape.columns * sizeof(*row->delta));
}

uint64_t *region_sum_grow(struct region_sum *sum, struct region_sum_row *row) {
  if (row->grown != sum->round) {
    clear_delta(sum, row);
    row->weight = 0;
  }
  row->grown = sum->round;
  return row->delta;
}

void region_sum_begin_again(struct region_sum *sum) {
  sum->other.begun = false;
  for (uint32_t s = 0; sum->other.row != NULL && s < sum->shape.present_len;
       s++)
    sum->other.row->now[sum->shape.present[s]] = 0;
}

/* `other` is live in every round. As a sum of many rows it has no state. */
static void begin_other(struct region_sum *sum) {
  region_sum_grow(sum, sum->other.row);
  sum->other.row->several = true;
  sum->other.twice = false;
  region_sum_begin_again(sum);
}

void region_sum_note(struct region_sum *sum,
                     const struct region_outlet *outlet) {
  sum->decided = outlet->dispatched;
  for (size_t i = 0; i < REGION_SUM_SNAPSHOTS; i++)
    if (sum->snapshots[i] > sum->dispatched &&
        region_outlet_dispatched(outlet, sum->snapshots[i]))
      sum->dispatched = sum->snapshots[i];
}

bool region_sum_has_due(const struct region_sum *sum) {
  bool any = sum->other.row != NULL && region_sum_is_due(sum, sum->other.row);
  for (size_t i = 0; !any && i < sum->rows.len; i++)
    any = region_sum_is_due(sum, sum->rows.list[i]);
  return any && sum->room.any;
}

/* Counts the rows that keep their places until their last counts are
 * dispatched. */
static void count_waiting(struct region_sum *sum) {
  sum->rows.waiting = 0;
  for (size_t i = 0; i < sum->rows.len; i++) {
    struct region_sum_row *row = sum->rows.list[i];
    row->waits = row->objects == 0 && region_sum_is_due(sum, row);
    sum->rows.waiting += row->waits;
  }
}

/* A core stays in use until its last counts are dispatched. */
void region_sum_begin(struct region_sum *sum, uint64_t round) {
  if (sum->round == round || sum->open > 0 || sum->round != sum->round_put)
    return;
  if (!region_sum_has_due(sum))
    memset(sum->core_used, 0, sum->shape.core_count);
  count_waiting(sum);
  sum->round = round;
  sum->room.left_out = sum->room.live = 0;
  sum->memory_short = false;
  if (sum->other.row != NULL)
    begin_other(sum);
}

void region_sum_use_cores(struct region_sum *sum, const uint8_t *core_used) {
  for (uint32_t core = 0; core < sum->shape.core_count; core++)
    sum->core_used[core] |= core_used[core];
}

static void add_present(const struct region_sum *sum, uint64_t *now,
                        const uint64_t *present, bool replace) {
  for (uint32_t s = 0; s < sum->shape.present_len; s++) {
    uint32_t c = sum->shape.present[s];
    now[c] = replace ? present[s]
                     : combine(sum->shape.kinds[c], sum->shape.aggregations[c],
                               now[c], present[s]);
  }
}

bool region_sum_add(struct region_sum *sum, struct region_sum_row *row,
                    const void *owner, const uint64_t *present) {
  row->round = sum->round;
  if (present == NULL)
    return false;
  bool first = row->present_round != sum->round;
  bool again =
      !first && row->owner == owner; /* the row now holds a later object */
  row->several = !first && (row->several || !again);
  row->present_round = sum->round;
  row->owner = owner;
  add_present(sum, row->now, present, first || again);
  return first || again;
}

void region_sum_add_core(struct region_sum *sum, struct region_sum_row *row,
                         uint32_t core, const uint64_t *present, bool replace) {
  add_present(sum, row->now + (size_t)(core + 1) * sum->shape.columns, present,
              replace);
}

void region_sum_add_to_other(struct region_sum *sum, const uint64_t *present) {
  if (sum->other.row == NULL || sum->shape.present_len == 0)
    return;
  add_present(sum, sum->other.row->now, present, !sum->other.begun);
  sum->other.begun = true;
}

void region_sum_settle(struct region_sum *sum, const uint64_t *remainder) {
  for (uint32_t copy = 0; copy < sum->copies; copy++)
    for (uint32_t g = 0; g < sum->shape.counters_len; g++) {
      size_t at =
          (size_t)copy * sum->shape.columns + sum->shape.counters[g].column;
      sum->other.balance[at] += remainder[at];
    }
}

void region_sum_move_to_other(struct region_sum *sum,
                              struct region_sum_row *row) {
  region_sum_settle(sum, region_sum_grow(sum, row));
  clear_delta(sum, row);
  for (uint32_t s = 0; s < sum->shape.present_len; s++)
    sum->scratch[s] = row->now[sum->shape.present[s]];
  if (row->present_round == sum->round)
    region_sum_add_to_other(sum, sum->scratch);
  row->present_round = 0;
}

/* ---------------------------------------------------------------------------
 * Forgetting
 */

void region_sum_forget(struct region_sum *sum, uint64_t round) {
  size_t kept = 0;
  for (size_t i = 0; i < sum->rows.len; i++) {
    struct region_sum_row *row = sum->rows.list[i];
    if (row->used >= round || row->objects > 0)
      sum->rows.list[kept++] = row;
    else
      region_sum_free_row(sum, row);
  }
  if (kept == sum->rows.len)
    return;
  sum->rows.len = kept;
  relink(sum);
  for (size_t i = 0; i < kept; i++)
    mark_clashes(sum, sum->rows.list[i]);
}

/* A row that is shown again continues from its former count, so names are kept.
 * If there are more than this multiple of the number of shown rows, the oldest
 * are freed. */
#define REMEMBERED_TIMES 10
#define REMEMBERED_LEAST 100

static int compare_rounds(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

void region_sum_forget_most(struct region_sum *sum) {
  size_t most =
      sum->shape.top_field >= 0 ? sum->config->top : sum->rows.tracked;
  most = MAX(REMEMBERED_TIMES * most, REMEMBERED_LEAST);
  if (sum->open > 0 || sum->rows.len <= most + most / 4)
    return;
  uint64_t *used = malloc(sum->rows.len * sizeof(*used));
  if (used == NULL)
    return;
  for (size_t i = 0; i < sum->rows.len; i++)
    used[i] = sum->rows.list[i]->used;
  qsort(used, sum->rows.len, sizeof(*used), compare_rounds);
  region_sum_forget(sum, used[sum->rows.len - most]);
  free(used);
}

static const struct region_sum_field *
same_field(const struct region_sum *sum, const struct region_sum_field *other) {
  for (uint32_t f = 0; f < sum->shape.field_count; f++) {
    const struct region_sum_field *field = &sum->shape.fields[f];
    if (strcmp(field->name, other->name) == 0 && field->kind == other->kind &&
        field->cells == other->cells && field->sub_bits == other->sub_bits)
      return field;
  }
  return NULL;
}

static void inherit_cells(const struct region_sum *sum, uint64_t *cells,
                          const struct region_sum *from, const uint64_t *old,
                          uint32_t copies) {
  for (uint32_t f = 0; f < sum->shape.field_count; f++) {
    const struct region_sum_field *field = &sum->shape.fields[f];
    const struct region_sum_field *before = same_field(from, field);
    for (uint32_t copy = 0; before != NULL && copy < copies; copy++)
      memcpy(cells + (size_t)copy * sum->shape.columns + field->column,
             old + (size_t)copy * from->shape.columns + before->column,
             field->cells * sizeof(*cells));
  }
}

static void inherit_row(const struct region_sum *sum,
                        struct region_sum_row *row,
                        const struct region_sum *from,
                        const struct region_sum_row *old) {
  uint32_t copies = MIN(row->copies, old->copies);
  row->round = old->round;
  row->used = old->used;
  row->due = old->due;
  inherit_cells(sum, row->now, from, old->now, copies);
  for (uint32_t f = 0; f < sum->shape.field_count; f++) {
    const struct region_sum_field *before =
        same_field(from, &sum->shape.fields[f]);
    for (uint32_t copy = 0; before != NULL && copy < copies; copy++)
      row->first[copy * sum->shape.field_count + f] =
          old->first[copy * from->shape.field_count +
                     (before - from->shape.fields)];
  }
}

void region_sum_inherit(struct region_sum *sum, const struct region_sum *from) {
  if (from->copies < from->shape.copies_made)
    sum->copies = 1;
  sum->room = from->room;
  sum->round = sum->round_put = from->round_put;
  sum->put_ns = from->put_ns;
  memcpy(sum->snapshots, from->snapshots, sizeof(sum->snapshots));
  sum->dispatched = from->dispatched;
  sum->decided = from->decided;
  for (size_t i = 0; i < from->rows.len; i++) {
    struct region_sum_row *row = region_sum_name(sum, from->rows.list[i]->name);
    if (row != NULL)
      inherit_row(sum, row, from, from->rows.list[i]);
  }
  if (sum->other.row == NULL || from->other.row == NULL)
    return;
  inherit_row(sum, sum->other.row, from, from->other.row);
  sum->other.shown |= from->other.shown;
  inherit_cells(sum, sum->other.balance, from, from->other.balance,
                MIN(sum->copies, from->copies));
}
