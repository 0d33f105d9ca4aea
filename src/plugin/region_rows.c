/* The rows of a region_sum: their names, their values, and when they are freed.
 */
#include "region_sum.h"

#include "base/utf8.h"

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

/* Returns how many bytes to charge to the allowance for a row, which are
 * slightly more than are allocated. */
static size_t size_of_row(const struct region_sum *sum, uint32_t copies,
                          const char *name, const char *clean) {
  return sizeof(struct region_sum_row) + strlen(name) + strlen(clean) + 2 +
         2 * (size_t)copies * sum->shape.columns * sizeof(uint64_t) +
         (size_t)copies * sum->shape.field_count * sizeof(struct region_first) +
         4 * sizeof(void *); /* pointers in the list and the hash tables */
}

size_t region_sum_row_size(const struct region_sum *sum) {
  return size_of_row(sum, sum->copies, "", "") + REGION_ROW_NAME_SIZE;
}

void region_name_clean(char *clean, size_t size, const char *name) {
  if (name[0] == '\0')
    name = "_";
  utf8_clean(clean, size, name, strlen(name), "_", " /;=\"");
}

struct region_sum_row *region_sum_make_row(struct region_sum *sum,
                                           const char *name) {
  char clean[DATA_MAX_NAME_LEN - 8]; /* leaves room for `_p50` */
  region_name_clean(clean, sizeof(clean), sum->shape.single ? "all" : name);
  size_t size = size_of_row(sum, sum->copies, name, clean);
  size_t cells = (size_t)sum->copies * sum->shape.columns;
  struct region_sum_row *row = region_claim(&sum->region->region, size);
  if (row == NULL)
    return NULL;
  row->now = (void *)(row + 1);
  row->before = row->now + cells;
  row->first = (void *)(row->before + cells);
  row->name[0] =
      (void *)(row->first + (size_t)sum->copies * sum->shape.field_count);
  row->name[1] = strcpy(row->name[0], name) + strlen(name) + 1;
  strcpy(row->name[1], clean);
  row->copies = sum->copies;
  return row;
}

void region_sum_free_row(struct region_sum *sum, struct region_sum_row *row) {
  if (row != NULL)
    region_allowance_give(
        &sum->region->region,
        size_of_row(sum, row->copies, row->name[0], row->name[1]));
  free(row);
}

/* ---------------------------------------------------------------------------
 * Rows by name
 */

/* Returns the chain of a name in hash table `by`. The hash includes an address,
 * because names come from producers, which could otherwise choose names that
 * share a chain. */
static struct region_sum_row **chain_of(const struct region_sum *sum, int by,
                                        const char *name) {
  uint64_t h = 0xcbf29ce484222325u ^ (uintptr_t)sum;
  for (; *name != '\0'; name++)
    h = (h ^ (unsigned char)*name) * 0x100000001b3u;
  return &sum->rows.chains[by][(h ^ h >> 32) & (sum->rows.capacity - 1)];
}

/* Marks rows with equal clean names, which are not reported: names that differ
 * only in bytes that identifiers cannot contain would become the same
 * identifier. Also marks a row named `other`. `same` is the list of rows whose
 * clean names have the same hash. */
static void mark_clashes(struct region_sum *sum, struct region_sum_row *row,
                         struct region_sum_row *same) {
  row->clashes = !sum->shape.single && strcmp(row->name[1], "other") == 0;
  while (same != NULL && strcmp(same->name[1], row->name[1]) != 0)
    same = same->next[1];
  if (same == NULL)
    return;
  row->clashes = same->clashes =
      true; /* other rows with this name are already marked */
  WARN_ONCE(sum->clash_told,
            "percore: two rows of table %s are not reported: both would be "
            "called \"%s\"; rename one of them. Further clashes are not "
            "logged.",
            sum->table, row->name[1]);
}

static void link_row(struct region_sum *sum, struct region_sum_row *row) {
  for (int by = 0; by < 2; by++) {
    struct region_sum_row **chain = chain_of(sum, by, row->name[by]);
    row->next[by] = *chain;
    *chain = row;
  }
  mark_clashes(sum, row, row->next[1]);
}

static void link_all(struct region_sum *sum) {
  for (int by = 0; by < 2; by++)
    memset(sum->rows.chains[by], 0,
           sum->rows.capacity * sizeof(*sum->rows.chains[by]));
  for (size_t i = 0; i < sum->rows.len; i++)
    link_row(sum, sum->rows.list[i]);
}

/* Makes room for another row. Returns false if out of memory. */
bool region_sum_make_room(struct region_sum *sum) {
  struct region_sum_rows *rows = &sum->rows;
  size_t capacity = rows->capacity > 0 ? 2 * rows->capacity : 64;
  if (rows->len < rows->capacity)
    return true;
  struct region_sum_row ***arrays[] = {&rows->list, &rows->chains[0],
                                       &rows->chains[1]};
  for (size_t i = 0; i < STATIC_ARRAY_SIZE(arrays); i++) {
    void *array = realloc(*arrays[i], capacity * sizeof(**arrays[i]));
    if (array == NULL)
      return false;
    *arrays[i] = array;
  }
  rows->capacity = capacity;
  link_all(sum);
  return true;
}

struct region_sum_row *region_sum_find(const struct region_sum *sum,
                                       const char *name) {
  struct region_sum_row *row = *chain_of(sum, 0, name);
  while (row != NULL && strcmp(row->name[0], name) != 0)
    row = row->next[0];
  return row;
}

struct region_sum_row *region_sum_name(struct region_sum *sum,
                                       const char *name) {
  struct region_sum_row *row = region_sum_find(sum, name);
  if (row != NULL)
    return row;
  if (!region_sum_make_room(sum) ||
      (row = region_sum_make_row(sum, name)) == NULL) {
    sum->memory_short = true;
    return NULL;
  }
  sum->rows.list[sum->rows.len++] = row;
  link_row(sum, row);
  return row;
}

/* ---------------------------------------------------------------------------
 * A round
 */

void region_sum_note(struct region_sum *sum,
                     const struct region_outlet *outlet) {
  sum->past.decided = outlet->dispatched;
  for (size_t i = 0; i < REGION_SUM_SNAPSHOTS; i++)
    if (sum->past.snapshots[i] > sum->past.dispatched &&
        region_outlet_dispatched(outlet, sum->past.snapshots[i]))
      sum->past.dispatched = sum->past.snapshots[i];
}

bool region_sum_has_due(const struct region_sum *sum) {
  bool any = region_sum_is_due(sum, sum->other);
  for (size_t i = 0; !any && i < sum->rows.len; i++)
    any = region_sum_is_due(sum, sum->rows.list[i]);
  return any && sum->room.rows > 0;
}

static void begin_row(const struct region_sum *sum,
                      struct region_sum_row *row) {
  for (uint32_t copy = 0; copy < sum->copies; copy++)
    for (uint32_t n = 0; n < sum->shape.counters.len; n++) {
      size_t at = (size_t)copy * sum->shape.columns +
                  sum->shape.counters.list[n].column;
      if ((int64_t)(row->now[at] - row->before[at]) > 0)
        row->before[at] = row->now[at];
    }
  row->owner = NULL;
  row->weight = 0;
}

/* Counts the places that rows take, and decides which rows are shown. A hidden
 * row keeps its place until its last counts are dispatched. If MaxValues leaves
 * less room than before, the rows at the end of the list are hidden. */
static void share_places(struct region_sum *sum) {
  struct region_sum_rows *rows = &sum->rows;
  bool ranks = sum->shape.top_field >= 0;
  rows->places = 0;
  for (size_t i = 0; i < rows->len; i++) {
    struct region_sum_row *row = rows->list[i];
    row->shown = ranks ? row->shown : row->objects > 0;
    rows->places += !row->shown && region_sum_is_due(sum, row);
  }
  for (size_t i = 0; i < rows->len; i++) {
    struct region_sum_row *row = rows->list[i];
    row->shown = row->shown && (ranks || !region_sum_is_full(sum));
    rows->places += row->shown;
  }
}

/* The cores in use are forgotten only after all counts have been dispatched, so
 * that the last counts of a core are reported. */
void region_sum_begin(struct region_sum *sum, uint64_t round) {
  if (sum->round == round || sum->open > 0 || sum->round != sum->round_put)
    return;
  if (!region_sum_has_due(sum))
    memset(sum->core_used, 0, sum->shape.core_count);
  sum->round = round;
  sum->room.left_out = sum->room.live = 0;
  sum->memory_short = false;
  begin_row(sum, sum->other);
  for (size_t i = 0; i < sum->rows.len; i++)
    begin_row(sum, sum->rows.list[i]);
  share_places(sum);
}

void region_sum_use_cores(struct region_sum *sum, const uint8_t *core_used) {
  for (uint32_t core = 0; core < sum->shape.core_count; core++)
    sum->core_used[core] |= core_used[core];
}

void region_sum_add_present(const struct region_sum *sum, uint64_t *now,
                            const uint64_t *cells, const uint64_t *bases,
                            bool replace) {
  for (uint32_t n = 0; n < sum->shape.present.len; n++) {
    const struct region_column *column = &sum->shape.present.list[n];
    const struct region_sum_field *field = &sum->shape.fields[column->field];
    uint32_t c = column->column;
    bool is_gauge = field->kind == PERCORE_GAUGE;
    uint64_t value = cells[c] - (is_gauge && bases != NULL ? bases[c] : 0);
    if (replace || field->kind == PERCORE_STATE)
      now[c] = value;
    else
      now[c] = region_combine_levels(
          is_gauge ? PERCORE_SUM : field->aggregation, now[c], value);
  }
}

/* True if the growth of this cell belongs to the row and not to `other`. With
 * the option Top, a row counts only after the first point of its series has
 * been dispatched. */
static bool counts(const struct region_sum *sum,
                   const struct region_sum_row *row, uint32_t copy,
                   uint32_t field) {
  uint64_t first = row->first[copy * sum->shape.field_count + field].snapshot;
  return sum->shape.top_field < 0 ||
         (first != 0 && first <= sum->past.dispatched);
}

uint32_t region_sum_count(const struct region_sum *sum, uint32_t copy,
                          uint64_t *last, const uint64_t *cells,
                          struct region_sum_row *row, bool in_other) {
  size_t at = (size_t)copy * sum->shape.columns;
  uint64_t *other = sum->other->now + at;
  uint32_t back = 0;
  for (uint32_t n = 0; n < sum->shape.counters.len; n++) {
    const struct region_column *column = &sum->shape.counters.list[n];
    uint32_t c = column->column;
    uint64_t grown = cells[c] - last[c];
    if ((int64_t)grown < 0) {
      back++;
      continue;
    }
    last[c] = cells[c];
    if (in_other)
      other[c] += grown;
    if (row != NULL && counts(sum, row, copy, column->field)) {
      row->now[at + c] += grown;
      other[c] -= grown;
    }
  }
  return back;
}

/* ---------------------------------------------------------------------------
 * Forgetting
 */

void region_sum_forget(struct region_sum *sum, uint64_t round) {
  size_t kept = 0;
  for (size_t i = 0; i < sum->rows.len; i++) {
    struct region_sum_row *row = sum->rows.list[i];
    if (row->round >= MIN(round, sum->round_put) || sum->open > 0 ||
        row->objects > 0 || region_sum_is_due(sum, row))
      sum->rows.list[kept++] = row;
    else
      region_sum_free_row(sum, row);
  }
  if (kept == sum->rows.len)
    return;
  sum->rows.len = kept;
  link_all(sum);
}

/* A row that is shown again continues from its former count, so hidden rows are
 * kept. If there are more rows than REMEMBERED_TIMES times the number of shown
 * rows, and more than REMEMBERED_LEAST, those that have been hidden longest are
 * freed. */
#define REMEMBERED_TIMES 10
#define REMEMBERED_LEAST 100

static int compare_rounds(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

void region_sum_forget_most(struct region_sum *sum) {
  size_t most = sum->shape.top_field >= 0 ? sum->config->top : sum->rows.places;
  most = MAX(REMEMBERED_TIMES * most, REMEMBERED_LEAST);
  if (sum->open > 0 || sum->rows.len <= most + most / 4)
    return;
  uint64_t *rounds = malloc(sum->rows.len * sizeof(*rounds));
  if (rounds == NULL)
    return;
  for (size_t i = 0; i < sum->rows.len; i++)
    rounds[i] = sum->rows.list[i]->round;
  qsort(rounds, sum->rows.len, sizeof(*rounds), compare_rounds);
  region_sum_forget(sum, rounds[sum->rows.len - most]);
  free(rounds);
}

/* ---------------------------------------------------------------------------
 * Another schema
 */

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

static void inherit_row(const struct region_sum *sum,
                        struct region_sum_row *row,
                        const struct region_sum *from,
                        const struct region_sum_row *old) {
  const struct region_shape *shape = &sum->shape, *before = &from->shape;
  row->round = old->round;
  row->due = old->due;
  for (uint32_t f = 0; f < shape->field_count; f++) {
    const struct region_sum_field *field = &shape->fields[f];
    const struct region_sum_field *same = same_field(from, field);
    for (uint32_t copy = 0;
         same != NULL && copy < MIN(row->copies, old->copies); copy++) {
      size_t at = (size_t)copy * shape->columns + field->column;
      size_t was_at = (size_t)copy * before->columns + same->column;
      size_t size = field->cells * sizeof(*row->now);
      memcpy(&row->now[at], &old->now[was_at], size);
      memcpy(&row->before[at], &old->before[was_at], size);
      row->first[copy * shape->field_count + f] =
          old->first[copy * before->field_count + (same - before->fields)];
    }
  }
}

void region_sum_inherit(struct region_sum *sum, const struct region_sum *from) {
  if (from->copies < from->shape.copies_made)
    sum->copies = 1;
  sum->room = from->room;
  sum->round = sum->round_put = from->round_put;
  sum->past = from->past;
  sum->other_shown |= from->other_shown;
  inherit_row(sum, sum->other, from, from->other);
  for (size_t i = 0; i < from->rows.len; i++) {
    const struct region_sum_row *old = from->rows.list[i];
    struct region_sum_row *row = region_sum_name(sum, old->name[0]);
    if (row != NULL)
      inherit_row(sum, row, from, old);
  }
}
