/* The rows of a region_sum. */
#include "region_sum.h"

#include "base/utf8.h"

#include "utils/common/common.h"

void *region_claim(struct region_allowance *allowance, size_t size) {
  if (!region_allowance_take(allowance, size))
    return NULL;
  void *memory = calloc(1, size);
  if (memory == NULL)
    region_allowance_give(allowance, size);
  return memory;
}

/* ---------------------------------------------------------------------------
 * Rows by name
 */

void region_name_clean(char *clean, size_t size, const char *name) {
  if (name[0] == '\0')
    name = "_";
  utf8_clean(clean, size, name, strlen(name), "_", " /;=\"");
}

size_t region_sum_row_size(const struct region_sum *sum,
                           const struct region_sum_row *row) {
  return sizeof(*row) + strlen(row->name) + 1 + 4 * sizeof(void *) +
         2 * (size_t)row->copies * sum->columns * sizeof(uint64_t);
}

struct region_sum_row *region_sum_make_row(struct region_sum *sum,
                                           const char *name) {
  size_t cells = (size_t)sum->copies * sum->columns;
  size_t head = sizeof(struct region_sum_row) + strlen(name) + 1;
  head = (head + 7) / 8 * 8;
  struct region_sum_row *row = calloc(1, head + 2 * cells * sizeof(uint64_t));
  if (row == NULL)
    return NULL;
  row->copies = sum->copies;
  row->now = (void *)((char *)row + head);
  row->sent = row->now + cells;
  strcpy(row->name, name);
  if (region_allowance_take(&sum->budget->memory,
                            region_sum_row_size(sum, row)))
    return row;
  free(row);
  return NULL;
}

/* Returns the chain of a name in the hash table. The hash includes an address,
 * because names come from producers, which could otherwise choose names that
 * share a chain. */
static struct region_sum_row **chain_of(const struct region_sum *sum,
                                        const char *name) {
  uint64_t h = 0xcbf29ce484222325u ^ (uintptr_t)sum;
  for (; *name != '\0'; name++)
    h = (h ^ (unsigned char)*name) * 0x100000001b3u;
  return &sum->chains[(h ^ h >> 32) & (sum->capacity - 1)];
}

static void link_all(struct region_sum *sum) {
  memset(sum->chains, 0, sum->capacity * sizeof(*sum->chains));
  for (size_t i = 0; i < sum->len; i++) {
    struct region_sum_row **chain = chain_of(sum, sum->rows[i]->name);
    sum->rows[i]->next = *chain;
    *chain = sum->rows[i];
  }
}

static bool make_room(struct region_sum *sum) {
  size_t capacity = sum->capacity > 0 ? 2 * sum->capacity : 64;
  if (sum->len < sum->capacity)
    return true;
  void *rows = realloc(sum->rows, capacity * sizeof(*sum->rows));
  sum->rows = rows != NULL ? rows : sum->rows;
  void *chains = realloc(sum->chains, capacity * sizeof(*sum->chains));
  sum->chains = chains != NULL ? chains : sum->chains;
  if (rows == NULL || chains == NULL)
    return false;
  sum->capacity = capacity;
  link_all(sum);
  return true;
}

struct region_sum_row *region_sum_find(struct region_sum *sum, const char *name,
                                       bool make) {
  char clean[DATA_MAX_NAME_LEN - 8]; /* leaves room for `_p50` */
  region_name_clean(clean, sizeof(clean), sum->single ? "all" : name);
  if (strcmp(clean, sum->other->name) == 0)
    return NULL;
  struct region_sum_row *row = sum->capacity > 0 ? *chain_of(sum, clean) : NULL;
  while (row != NULL && strcmp(row->name, clean) != 0)
    row = row->next;
  if (row != NULL || !make || !make_room(sum))
    return row;
  row = region_sum_make_row(sum, clean);
  if (row == NULL)
    return NULL;
  struct region_sum_row **chain = chain_of(sum, clean);
  row->next = *chain;
  return sum->rows[sum->len++] = *chain = row;
}

/* ---------------------------------------------------------------------------
 * Showing
 */

size_t region_sum_row_values(const struct region_sum *sum) {
  size_t copies = sum->budget->config->report_host;
  for (uint32_t copy = 1; copy < sum->copies; copy++)
    copies += sum->core_used[copy - 1];
  return copies * sum->values;
}

bool region_sum_charge_other(struct region_sum *sum) {
  size_t values =
      sum->single ? 0 : sum->budget->config->report_host * sum->values;
  if (!region_allowance_take(&sum->budget->values, values))
    return false;
  sum->charged = values;
  return true;
}

bool region_sum_show(struct region_sum *sum, struct region_sum_row *row) {
  size_t values = region_sum_row_values(sum);
  if (row->shown)
    return true;
  if (!sum->single && sum->charged <= sum->values)
    values += values - sum->charged; /* the cores of `other` */
  if (!region_allowance_take(&sum->budget->values, values))
    return false;
  sum->charged += values;
  sum->shown++;
  return row->shown = true;
}

void region_sum_hide(struct region_sum *sum, struct region_sum_row *row) {
  size_t values = MIN(sum->charged, region_sum_row_values(sum));
  if (!row->shown)
    return;
  region_allowance_give(&sum->budget->values, values);
  sum->charged -= values;
  sum->shown--;
  row->shown = false;
}

/* ---------------------------------------------------------------------------
 * Values
 */

static bool is_reported(const struct region_sum *sum, uint32_t copy) {
  return copy == 0 ? sum->budget->config->report_host
                   : sum->core_put[copy - 1] != 0;
}

bool region_sum_row_owes(const struct region_sum *sum,
                         const struct region_sum_row *row) {
  for (uint32_t copy = 0; copy < sum->copies; copy++)
    for (uint32_t n = 0; is_reported(sum, copy) && n < sum->counters.len; n++) {
      size_t at = (size_t)copy * sum->columns + sum->counters.list[n].column;
      if ((int64_t)(row->now[at] - row->sent[at]) > 0)
        return true;
    }
  return false;
}

bool region_sum_owes(const struct region_sum *sum) {
  bool any = !sum->single && region_sum_row_owes(sum, sum->other);
  for (size_t i = 0; !any && i < sum->len; i++)
    any = region_sum_row_owes(sum, sum->rows[i]);
  return any;
}

void region_sum_combine(const struct region_sum *sum,
                        const struct region_column *column, uint64_t *now,
                        uint64_t value, bool replace) {
  const struct region_sum_field *field = &sum->fields[column->field];
  if (replace || field->kind == PERCORE_STATE)
    *now = value;
  else
    *now = region_combine_gauges(
        field->kind == PERCORE_UPDOWN ? PERCORE_SUM : field->aggregation, *now,
        value);
}

uint32_t region_row_count(const struct region_sum *sum,
                          struct region_sum_row *row, uint32_t copy,
                          uint64_t *last, const uint64_t *cells) {
  size_t at = (size_t)copy * sum->columns;
  uint32_t back = 0;
  for (uint32_t n = 0; n < sum->counters.len; n++) {
    uint32_t c = sum->counters.list[n].column;
    uint64_t grown = cells[c] - last[c];
    if ((int64_t)grown < 0) {
      back++;
      continue;
    }
    last[c] = cells[c];
    row->now[at + c] += grown;
    if (row != sum->other)
      sum->other->now[at + c] -= grown;
  }
  return back;
}

/* ---------------------------------------------------------------------------
 * Forgetting
 */

/* A row that is shown again continues from its former count, so hidden rows are
 * kept. If there are more of them than REMEMBERED_TIMES times the number of
 * shown rows, and more than REMEMBERED_LEAST, those that have been hidden
 * longest are freed. */
#define REMEMBERED_TIMES 10
#define REMEMBERED_LEAST 100

static int compare_puts(const void *a, const void *b) {
  const struct region_sum_row *x = *(struct region_sum_row *const *)a;
  const struct region_sum_row *y = *(struct region_sum_row *const *)b;
  return x->put != y->put ? (x->put < y->put ? 1 : -1) : 0;
}

void region_sum_forget(struct region_sum *sum, bool all) {
  size_t most = MAX(REMEMBERED_TIMES * sum->shown, REMEMBERED_LEAST), kept = 0;
  if (!all && sum->len <= most + most / 4)
    return;
  if (sum->len > 0)
    qsort(sum->rows, sum->len, sizeof(*sum->rows), compare_puts);
  for (size_t i = 0; i < sum->len; i++) {
    struct region_sum_row *row = sum->rows[i];
    bool unused = !row->shown && row->objects == 0 &&
                  !region_sum_row_owes(sum, row) && (all || kept >= most);
    if (!unused && (!all || sum->inputs != NULL)) {
      sum->rows[kept++] = row;
      continue;
    }
    region_allowance_give(&sum->budget->memory, region_sum_row_size(sum, row));
    free(row);
  }
  sum->len = kept;
  if (sum->capacity > 0)
    link_all(sum);
}

/* ---------------------------------------------------------------------------
 * Another schema
 */

static const struct region_sum_field *
same_field(const struct region_sum *sum, const struct region_sum_field *other) {
  for (uint32_t f = 0; f < sum->field_count; f++) {
    const struct region_sum_field *field = &sum->fields[f];
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
  row->put = old->put;
  row->since_ns = old->since_ns;
  for (uint32_t f = 0; f < sum->field_count; f++) {
    const struct region_sum_field *field = &sum->fields[f];
    const struct region_sum_field *same = same_field(from, field);
    sum->fields[f].put = same != NULL ? same->put : 0;
    for (uint32_t copy = 0;
         same != NULL && copy < MIN(row->copies, old->copies); copy++) {
      size_t at = (size_t)copy * sum->columns + field->column;
      size_t was_at = (size_t)copy * from->columns + same->column;
      size_t size = field->cells * sizeof(*row->now);
      memcpy(&row->now[at], &old->now[was_at], size);
      memcpy(&row->sent[at], &old->sent[was_at], size);
    }
  }
}

void region_sum_inherit(struct region_sum *sum, const struct region_sum *from) {
  if (from->copies < from->copies_made)
    sum->copies = 1;
  sum->puts = from->puts;
  memcpy(sum->core_put, from->core_put,
         MIN(sum->core_count, from->core_count) * sizeof(*sum->core_put));
  sum->put_ns = from->put_ns;
  sum->other->shown |= from->other->shown;
  inherit_row(sum, sum->other, from, from->other);
  for (size_t i = 0; i < from->len; i++) {
    struct region_sum_row *row =
        region_sum_find(sum, from->rows[i]->name, true);
    if (row != NULL)
      inherit_row(sum, row, from, from->rows[i]);
  }
}
