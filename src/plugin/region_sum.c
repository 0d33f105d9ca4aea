#include "region_sum.h"

#include "utils/common/common.h"

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

static void describe_field(struct region_sum *sum,
                           const struct region_directory *directory, uint32_t t,
                           uint32_t f) {
  const struct percore_table *table = &directory->described[t];
  const struct percore_field *described = &table->fields[f];
  const struct region_field *record =
      &directory->fields[directory->tables[t].first_field + f];
  struct region_sum_field *field = &sum->fields[f];
  *field = (struct region_sum_field){
      .kind = record->kind,
      .aggregation = record->aggregation,
      .column = record->column,
      .cells = record->cells,
      .sub_bits = record->sub_bits,
      .wanted = region_config_wants_field(sum->config, described->name),
      .cycles = is_in_cycles(described),
  };
  sstrncpy(field->name, described->name, sizeof(field->name));
  name_field(field->label, sum, table, described);
}

void region_sum_count_live(struct region_sum *sum, uint64_t rows) {
  if (rows > REGION_PER_CORE_ROWS &&
      sum->budget->config->report_per_core == REGION_PER_CORE_FEW)
    sum->copies = 1;
}

/* Returns the field by which Top ranks rows, or NULL if Top is not configured
 * or the table has no counter or gauge with that name. */
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
              "field, or rows cannot be ranked by it; name a counter or gauge.",
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
    if (!field->wanted && field != sum->ranks_by && !sum->is_core)
      continue;
    for (uint32_t c = 0; c < field->cells; c++)
      columns->list[columns->len++] =
          (struct region_column){.column = field->column + c, .field = f};
  }
}

static void warn_of_unknown_fields(const struct region_sum *sum) {
  for (size_t i = 0; sum->config != NULL && i < sum->config->fields.len; i++) {
    uint32_t f = 0;
    while (f < sum->field_count &&
           strcmp(sum->fields[f].name, sum->config->fields.list[i]) != 0)
      f++;
    if (f == sum->field_count)
      region_warn(region_about_sum(sum),
                  "Field \"%s\" is ignored: table %s of region %s has no such "
                  "field.",
                  sum->config->fields.list[i], sum->table, sum->budget->name);
  }
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
  sum->chooses_rows =
      !sum->single && sum->config != NULL && sum->config->rows_len > 0;
  bool cores = sum->per_core &&
               sum->budget->config->report_per_core != REGION_PER_CORE_NONE;
  sum->copies = sum->copies_made = cores ? 1 + sum->core_count : 1;
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
  for (uint32_t f = 0; f < sum->field_count; f++)
    describe_field(sum, directory, t, f);
  sum->ranks_by = find_top_field(sum);
  warn_of_unknown_fields(sum);
  choose_columns(sum);
  sum->other = region_sum_make_row(sum, "other");
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
  set_structure(sum, directory, t);
  if (!region_allowance_take(&budget->memory, size_of_sum(sum))) {
    free(sum);
    return NULL;
  }
  if (describe(sum, directory, t, instance) && region_sum_charge_other(sum))
    return sum;
  region_sum_free(sum);
  return NULL;
}

void region_sum_free(struct region_sum *sum) {
  if (sum == NULL)
    return;
  region_allowance_give(&sum->budget->values, sum->charged);
  region_sum_forget(sum, true);
  if (sum->other != NULL)
    region_allowance_give(&sum->budget->memory,
                          region_sum_row_size(sum, sum->other));
  region_allowance_give(&sum->budget->memory, size_of_sum(sum));
  free(sum->other);
  free(sum->fields);
  free(sum->counters.list);
  free(sum->present.list);
  free(sum->core_used);
  free(sum->core_put);
  free(sum->rows);
  free(sum->chains);
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
    const struct region_sum_field *field = &sum->fields[f];
    const struct region_field *record =
        &directory->fields[table->first_field + f];
    const struct percore_field *described = &directory->described[t].fields[f];
    if (strcmp(field->name, described->name) != 0 ||
        field->kind != record->kind || field->column != record->column ||
        field->cells != record->cells || field->sub_bits != record->sub_bits ||
        field->aggregation != record->aggregation ||
        field->cycles != is_in_cycles(described))
      return false;
  }
  return true;
}
