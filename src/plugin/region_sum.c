/* A region_sum and its rows. */
#include "regions.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/utf8.h"

#include "utils/common/common.h"

/* ---------------------------------------------------------------------------
 * Rows by name
 */

void region_name_clean(char *clean, size_t size, const char *name) {
  if (name[0] == '\0')
    name = "_";
  utf8_clean(clean, size, name, strlen(name), "_", " /;=\"");
}

static size_t size_of_row(const struct region_sum *sum,
                          const struct region_sum_row *row) {
  return sizeof(*row) + strlen(row->name) + 1 + 5 * sizeof(void *) +
         2 * (size_t)row->copies * sum->columns * sizeof(uint64_t);
}

static struct region_sum_row *make_row(struct region_sum *sum,
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
  if (region_allowance_take(&sum->budget->memory, size_of_row(sum, row)))
    return row;
  free(row);
  return NULL;
}

static const char *name_of(const void *sum, uint32_t i) {
  return ((const struct region_sum *)sum)->rows[i]->name;
}

/* Returns the row with this clean name. Adds it if `make` is set. */
static struct region_sum_row *find_clean(struct region_sum *sum,
                                         const char *clean, bool make) {
  uint32_t found;
  if (strcmp(clean, sum->other->name) == 0)
    return NULL;
  if (key_index_find(&sum->names, clean, &found))
    return sum->rows[found];
  if (!make || !key_index_reserve(&sum->names) ||
      !array_reserve(&sum->rows, sum->len, &sum->capacity,
                     2 * sizeof(*sum->rows)))
    return NULL;
  struct region_sum_row *row = make_row(sum, clean);
  if (row == NULL)
    return NULL;
  sum->rows[sum->len] = row;
  key_index_add(&sum->names, (uint32_t)sum->len++);
  return row;
}

struct region_sum_row *region_sum_find(struct region_sum *sum, const char *name,
                                       bool make) {
  char clean[DATA_MAX_NAME_LEN];
  region_name_clean(clean, sum->name_size, sum->single ? "all" : name);
  return find_clean(sum, clean, make);
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

bool region_sum_begin(struct region_sum *sum) {
  size_t values =
      sum->single ? 0 : sum->budget->config->report_host * sum->values;
  if (sum->inputs != NULL)
    return true;
  if (!region_allowance_take(&sum->budget->values, values))
    return false;
  sum->charged = values;
  return true;
}

size_t region_sum_new_rows(const struct region_sum *sum, size_t rows) {
  const struct region_budget *budget = sum->budget;
  uint64_t now_ns = budget->log->now_ns;
  uint64_t used_ns = MAX(budget->used_ns, now_ns) - now_ns;
  size_t all = budget->rows - sum->shown + rows;
  return MAX(all, budget->rows_most) - budget->rows_most +
         (HOUR_NS - MIN(used_ns, HOUR_NS)) / budget->new_row_ns;
}

void region_sum_rest(struct region_sum *sum) {
  if (sum->inputs != NULL)
    return;
  region_allowance_give(&sum->budget->values, sum->charged);
  sum->charged = 0;
}

void region_sum_deny(struct region_sum *sum, uint64_t rows) {
  struct region_budget *budget = sum->budget;
  if (rows == 0)
    return;
  sum->inputs->producer->watch->new_rows_left_out += rows;
  budget->denied_ns = budget->log->now_ns;
  sstrncpy(budget->denied_in, sum->table, sizeof(budget->denied_in));
}

bool region_sum_show(struct region_sum *sum, struct region_sum_row *row) {
  struct region_budget *budget = sum->budget;
  size_t values = region_sum_row_values(sum);
  bool is_new = row->put == 0 && !sum->single;
  if (row->shown)
    return true;
  if (!sum->single && sum->charged <= sum->values)
    values += values - sum->charged; /* the cores of `other` */
  if ((is_new && region_sum_new_rows(sum, sum->shown + 1) == 0) ||
      !region_allowance_take(&budget->values, values))
    return false;
  if (is_new && budget->rows < budget->rows_most)
    budget->used_ns =
        MAX(budget->used_ns, budget->log->now_ns) + budget->new_row_ns;
  sum->charged += values;
  sum->shown++;
  budget->rows_most = MAX(budget->rows_most, ++budget->rows);
  return row->shown = true;
}

void region_sum_hide(struct region_sum *sum, struct region_sum_row *row) {
  size_t values = MIN(sum->charged, region_sum_row_values(sum));
  if (!row->shown)
    return;
  region_allowance_give(&sum->budget->values, values);
  sum->charged -= values;
  sum->shown--;
  sum->budget->rows--;
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
      const struct region_column *column = &sum->counters.list[n];
      size_t at = (size_t)copy * sum->columns + column->column;
      if (sum->fields[column->field].wanted &&
          (int64_t)(row->now[at] - row->sent[at]) > 0)
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

enum region_grown region_row_count(const struct region_sum *sum,
                                   struct region_sum_row *row, uint32_t copy,
                                   uint64_t *last, const uint64_t *cells) {
  size_t at = (size_t)copy * sum->columns;
  enum region_grown worst = REGION_GREW;
  for (uint32_t n = 0; n < sum->counters.len; n++) {
    uint32_t c = sum->counters.list[n].column;
    enum region_grown grown = region_grown(cells[c], last[n]);
    worst = MAX(worst, grown);
    if (grown != REGION_GREW)
      continue;
    row->now[at + c] += cells[c] - last[n];
    last[n] = cells[c];
  }
  return worst;
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

static void free_row(struct region_sum *sum, struct region_sum_row *row) {
  region_allowance_give(&sum->budget->memory, size_of_row(sum, row));
  free(row);
}

void region_sum_forget(struct region_sum *sum) {
  size_t most = MAX(REMEMBERED_TIMES * sum->shown, REMEMBERED_LEAST), kept = 0;
  if (sum->len <= most + most / 4)
    return;
  qsort(sum->rows, sum->len, sizeof(*sum->rows), compare_puts);
  for (size_t i = 0; i < sum->len; i++) {
    struct region_sum_row *row = sum->rows[i];
    if (kept >= most && !row->shown && row->objects == 0 &&
        (row->contended == 0 || row->contended + 2 < sum->puts) &&
        !region_sum_row_owes(sum, row))
      free_row(sum, row);
    else
      sum->rows[kept++] = row;
  }
  sum->len = kept;
  key_index_renumber(&sum->names, (uint32_t)kept);
}

/* ---------------------------------------------------------------------------
 * A table
 */

static bool is_in_cycles(const struct percore_field *field) {
  return field->unit != NULL && strcmp(field->unit, "cycles") == 0;
}

/* True if the field's values are cycles and its name ends in `cycles`. The
 * values are dispatched in nanoseconds, so the name must then be changed. */
static bool is_named_cycles(const struct percore_field *field) {
  static const char suffix[] = "cycles";
  size_t length = strlen(field->name), end = strlen(suffix);
  return is_in_cycles(field) && length >= end &&
         strcmp(field->name + length - end, suffix) == 0 &&
         (length == end || field->name[length - end - 1] == '_');
}

/* Writes the name of a field for identifiers: busy_cycles becomes busy_ns,
 * unless the table already has a field with that name. */
static void name_field(char name[REGION_SUM_NAME_SIZE],
                       const struct region_sum *sum,
                       const struct percore_table *table,
                       const struct percore_field *field) {
  sstrncpy(name, field->name, REGION_SUM_NAME_SIZE);
  if (sum->tsc_hz == 0 || !is_named_cycles(field))
    return;
  snprintf(name + strlen(name) - strlen("cycles"), sizeof("ns"), "ns");
  for (uint32_t f = 0; f < table->field_count; f++)
    if (strcmp(table->fields[f].name, name) == 0) {
      region_warn(region_about_sum(sum),
                  "region %s: table %s: field %s keeps its name, although its "
                  "values are nanoseconds, because there is a field %s; rename "
                  "one of them in the producer.",
                  sum->budget->name, table->name, field->name, name);
      sstrncpy(name, field->name, REGION_SUM_NAME_SIZE);
      return;
    }
}

/* Moves each bound to the nearest edge between two buckets. */
static void set_bounds(struct region_sum *sum, struct region_sum_field *field,
                       const struct region_bounds *bounds) {
  double unit =
      field->cycles && sum->tsc_hz != 0 ? (double)sum->tsc_hz / 1e9 : 1;
  uint32_t c = 1;
  for (uint32_t i = 0; i < bounds->len; i++) {
    double twice = 2 * unit * (double)bounds->at[i];
    while (c + 1 < field->cells &&
           (double)region_bucket_least(field->sub_bits, c) - 1 +
                   (double)region_bucket_least(field->sub_bits, c + 1) - 1 <
               twice)
      c++;
    field->ends[i] = c;
  }
  field->bounds = bounds;
  sum->name_size = DATA_MAX_NAME_LEN - strlen("_le_9007199254740992");
}

static struct region_sum_field
read_field(const struct region_directory *directory, uint32_t t, uint32_t f) {
  const struct percore_field *described = &directory->described[t].fields[f];
  const struct region_field *record =
      &directory->fields[directory->tables[t].first_field + f];
  struct region_sum_field field = {
      .kind = record->kind,
      .aggregation = record->aggregation,
      .column = record->column,
      .cells = record->cells,
      .sub_bits = record->sub_bits,
      .cycles = is_in_cycles(described),
  };
  sstrncpy(field.name, described->name, sizeof(field.name));
  return field;
}

/* True if the counts of a field continue those of another table's field. */
static bool continues(const struct region_sum_field *field,
                      const struct region_sum_field *before) {
  return strcmp(field->name, before->name) == 0 &&
         field->kind == before->kind && field->cells == before->cells &&
         field->sub_bits == before->sub_bits && field->cycles == before->cycles;
}

/* Returns the field by which Top ranks rows, or NULL if Top is not configured
 * or the table has no field with that name by which rows can be ranked. */
static const struct region_sum_field *
find_top_field(const struct region_sum *sum) {
  if (sum->config == NULL || sum->config->top == 0 || sum->single)
    return NULL;
  for (uint32_t f = 0; f < sum->field_count; f++)
    if (strcmp(sum->fields[f].name, sum->config->top_field) == 0 &&
        sum->fields[f].kind != PERCORE_HISTOGRAM &&
        sum->fields[f].kind != PERCORE_STATE)
      return &sum->fields[f];
  region_warn(region_about_sum(sum),
              "Top %u \"%s\" is ignored: table %s of region %s has no such "
              "field, or rows cannot be ranked by it; name a counter, up-down "
              "counter or gauge.",
              sum->config->top, sum->config->top_field, sum->table,
              sum->budget->name);
  return NULL;
}

/* Chooses the columns to read: those of reported fields, of the field that Top
 * ranks by and, in the table `core`, of all fields, because one of them shows
 * whether the table is used. */
static void choose_columns(struct region_sum *sum) {
  for (uint32_t f = 0; f < sum->field_count; f++) {
    const struct region_sum_field *field = &sum->fields[f];
    bool counts =
        field->kind == PERCORE_COUNTER || field->kind == PERCORE_HISTOGRAM;
    struct region_columns *columns = counts ? &sum->counters : &sum->present;
    sum->values += !field->wanted                     ? 0
                   : field->kind == PERCORE_HISTOGRAM ? 4
                                                      : 1;
    if (field->wanted && field->bounds != NULL)
      sum->values += field->bounds->len + 1;
    if (!field->wanted && field != sum->ranks_by && !sum->is_core)
      continue;
    if (field == sum->ranks_by)
      sum->rank_at = columns->len;
    for (uint32_t c = 0; c < field->cells; c++)
      columns->list[columns->len++] =
          (struct region_column){.column = field->column + c, .field = f};
  }
  if (sum->ranks_by != NULL && sum->ranks_by->kind != PERCORE_COUNTER)
    sum->rank_at += sum->counters.len;
}

static void expect_field(const struct region_sum *sum, const char *option,
                         const char *name, bool histogram) {
  for (uint32_t f = 0; f < sum->field_count; f++)
    if (strcmp(sum->fields[f].name, name) == 0 &&
        (!histogram || sum->fields[f].kind == PERCORE_HISTOGRAM))
      return;
  region_warn(region_about_sum(sum),
              "%s \"%s\" is ignored: table %s of region %s has no such %s.",
              option, name, sum->table, sum->budget->name,
              histogram ? "histogram" : "field");
}

static void warn_of_unknown_fields(const struct region_sum *sum) {
  const struct region_table_config *config = sum->config;
  for (size_t i = 0; config != NULL && i < config->fields.len; i++)
    expect_field(sum, "Field", config->fields.list[i], false);
  for (size_t i = 0; config != NULL && i < config->buckets_len; i++)
    expect_field(sum, "Buckets", config->buckets[i].field, true);
}

/* Returns the estimated size, in bytes, of the sum without its rows. Includes
 * the arrays with an element per core, because a producer can claim to have
 * thousands of cores. */
static size_t size_of_sum(const struct region_sum *sum) {
  return sizeof(*sum) + sum->field_count * sizeof(*sum->fields) +
         sum->columns * 2 * sizeof(struct region_column) +
         sum->core_count * (1 + sizeof(*sum->core_put));
}

static void set_structure(struct region_sum *sum,
                          const struct region_directory *directory,
                          uint32_t t) {
  const struct region_table *table = &directory->tables[t];
  sum->field_count = table->field_count;
  sum->columns = table->columns;
  sum->core_count = directory->header.core_count;
  sum->single = (table->flags & REGION_TABLE_SINGLE) != 0;
  sum->per_core = table->storage == PERCORE_PER_CORE;
  sum->is_core = t == 0;
  sum->name_size = DATA_MAX_NAME_LEN - 8; /* leaves room for `_p50` */
  sum->chooses_rows =
      !sum->single && sum->config != NULL && sum->config->rows_len > 0;
  bool cores = sum->per_core &&
               sum->budget->config->report_per_core != REGION_PER_CORE_NONE;
  sum->copies = cores ? 1 + sum->core_count : 1;
}

static bool make_arrays(struct region_sum *sum) {
  sum->fields = calloc(sum->field_count, sizeof(*sum->fields));
  sum->counters.list = calloc(sum->columns, sizeof(*sum->counters.list));
  sum->present.list = calloc(sum->columns, sizeof(*sum->present.list));
  sum->core_used = calloc(sum->core_count, 1);
  sum->core_put = calloc(sum->core_count, sizeof(*sum->core_put));
  return sum->fields && sum->counters.list && sum->present.list &&
         sum->core_used && sum->core_put;
}

/* Sets the names, fields and columns of the sum from table t, and creates
 * `other`. Returns false if out of memory. */
static bool describe(struct region_sum *sum,
                     const struct region_directory *directory, uint32_t t,
                     const char *instance) {
  sstrncpy(sum->table, directory->described[t].name, sizeof(sum->table));
  sstrncpy(sum->instance, instance, sizeof(sum->instance));
  if (!make_arrays(sum))
    return false;
  for (uint32_t f = 0; f < sum->field_count; f++) {
    const struct percore_table *table = &directory->described[t];
    sum->fields[f] = read_field(directory, t, f);
    sum->fields[f].wanted =
        sum->is_core && sum->config == NULL
            ? f == REGION_CORE_ITEMS
            : region_config_wants_field(sum->config, sum->fields[f].name);
    const struct region_bounds *bounds =
        region_config_bounds(sum->config, sum->fields[f].name);
    if (bounds != NULL && sum->fields[f].kind == PERCORE_HISTOGRAM)
      set_bounds(sum, &sum->fields[f], bounds);
    name_field(sum->fields[f].label, sum, table, &table->fields[f]);
  }
  sum->ranks_by = find_top_field(sum);
  warn_of_unknown_fields(sum);
  choose_columns(sum);
  sum->other = make_row(sum, "other");
  if (sum->other == NULL)
    return false;
  sum->other->shown = sum->ranks_by != NULL;
  return true;
}

struct region_sum *region_sum_new(const struct region_directory *directory,
                                  uint32_t t, const char *instance,
                                  uint64_t tsc_hz,
                                  struct region_budget *budget) {
  struct region_sum *sum = calloc(1, sizeof(*sum));
  if (sum == NULL)
    return NULL;
  sum->config =
      region_config_table(budget->config, directory->described[t].name);
  sum->budget = budget;
  sum->tsc_hz = tsc_hz;
  key_index_init_names(&sum->names, sum, name_of);
  set_structure(sum, directory, t);
  if (!region_allowance_take(&budget->memory, size_of_sum(sum))) {
    free(sum);
    return NULL;
  }
  if (describe(sum, directory, t, instance))
    return sum;
  region_sum_free(sum);
  return NULL;
}

void region_sum_free(struct region_sum *sum) {
  if (sum == NULL)
    return;
  region_allowance_give(&sum->budget->values, sum->charged);
  sum->budget->rows -= sum->shown;
  for (size_t i = 0; i < sum->len; i++)
    free_row(sum, sum->rows[i]);
  if (sum->other != NULL)
    free_row(sum, sum->other);
  region_allowance_give(&sum->budget->memory, size_of_sum(sum));
  free(sum->fields);
  free(sum->counters.list);
  free(sum->present.list);
  free(sum->core_used);
  free(sum->core_put);
  free(sum->rows);
  key_index_free(&sum->names);
  free(sum);
}

bool region_sum_fits(const struct region_sum *sum,
                     const struct region_directory *directory, uint32_t t) {
  const struct region_table *table = &directory->tables[t];
  bool single = (table->flags & REGION_TABLE_SINGLE) != 0;
  bool per_core = table->storage == PERCORE_PER_CORE;
  if (table->field_count != sum->field_count ||
      table->columns != sum->columns || single != sum->single ||
      per_core != sum->per_core ||
      directory->header.core_count != sum->core_count)
    return false;
  for (uint32_t f = 0; f < sum->field_count; f++) {
    struct region_sum_field field = read_field(directory, t, f);
    if (!continues(&field, &sum->fields[f]) ||
        field.column != sum->fields[f].column ||
        field.aggregation != sum->fields[f].aggregation)
      return false;
  }
  return true;
}

/* ---------------------------------------------------------------------------
 * Another schema
 */

static const struct region_sum_field *
same_field(const struct region_sum *sum, const struct region_sum_field *other) {
  for (uint32_t f = 0; f < sum->field_count; f++)
    if (continues(other, &sum->fields[f]))
      return &sum->fields[f];
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
  if (from->per_core && from->copies == 1)
    sum->copies = 1;
  sum->puts = from->puts;
  memcpy(sum->core_put, from->core_put,
         MIN(sum->core_count, from->core_count) * sizeof(*sum->core_put));
  sum->put_ns = from->put_ns;
  sum->read_ns = from->read_ns;
  sum->other->shown |= from->other->shown;
  inherit_row(sum, sum->other, from, from->other);
  for (size_t i = 0; i < from->len; i++) {
    struct region_sum_row *row = find_clean(sum, from->rows[i]->name, true);
    if (row != NULL)
      inherit_row(sum, row, from, from->rows[i]);
  }
}
