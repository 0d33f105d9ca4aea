/* schema.c: checks descriptions of tables. percore_create checks the
 * description of an application, and a reader checks that of a producer. */
#include "percore_config.h"

#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "layout.h"

static bool text_is_valid(const char *what, const char *text,
                          struct region_fault *fault) {
  return region_text_is_valid(text) ||
         region_breaks(fault, REGION_RULE_TEXT,
                       "its %s must be UTF-8 without control characters", what);
}

static bool states_are_valid(const struct percore_field *field,
                             struct region_fault *fault) {
  if (field->state_count > 0 && field->states == NULL)
    return region_breaks(fault, REGION_RULE_STATES, "its states are NULL");
  for (uint32_t i = 0; i < field->state_count; i++) {
    if (field->states[i] == NULL || field->states[i][0] == '\0')
      return region_breaks(fault, REGION_RULE_STATES, "state %u has no name",
                           i);
    if (!text_is_valid("states' names", field->states[i], fault))
      return false;
  }
  return true;
}

static bool field_is_valid(const struct percore_field *field,
                           struct region_fault *fault) {
  bool gauge = field->kind == PERCORE_GAUGE,
       histogram = field->kind == PERCORE_HISTOGRAM,
       state = field->kind == PERCORE_STATE;
  const struct region_limit limits[] = {
      REGION_LIMIT(KIND, "kind", field->kind, 0, PERCORE_HISTOGRAM),
      {REGION_RULE_AGGREGATION, "aggregation", field->aggregation, 0,
       gauge ? PERCORE_NONE : PERCORE_SUM, 0,
       gauge ? NULL : "0 (sum) unless the field is a gauge"},
      REGION_LIMIT(HISTOGRAM, "sub_bits", field->sub_bits, 0,
                   histogram ? 8 : 0),
      REGION_LIMIT(HISTOGRAM, "max_bits", field->max_bits,
                   histogram ? field->sub_bits + 1 : 0, histogram ? 64 : 0),
      REGION_LIMIT(STATES, "number of states", field->state_count, state,
                   state ? REGION_MAX_STATES : 0),
      REGION_LIMITS_END};
  if (!region_name_is_valid(field->name, true))
    return region_breaks(fault, REGION_RULE_FIELD_NAME,
                         "its name must be [a-z][a-z0-9_]* and at most 120 "
                         "bytes");
  return text_is_valid("unit", field->unit, fault) &&
         text_is_valid("help", field->help, fault) &&
         region_within(limits, fault) && states_are_valid(field, fault);
}

static int by_name(const void *left, const void *right) {
  const struct percore_field *const *a = left, *const *b = right;
  return strcmp((*a)->name, (*b)->name);
}

/* Sorts the names, because comparing all pairs of a hostile region's names, in
 * 16 tables of 1024 fields each, would keep a reader busy. */
static bool field_names_differ(const struct percore_table *table,
                               struct region_fault *fault) {
  uint32_t count = table->field_count;
  const struct percore_field **sorted = calloc(count + 1, sizeof(*sorted));
  bool differ = sorted != NULL || region_fails(fault, ENOMEM, "");
  for (uint32_t f = 0; f < count && differ; f++)
    sorted[f] = &table->fields[f];
  if (differ)
    qsort(sorted, count, sizeof(*sorted), by_name);
  for (uint32_t f = 1; f < count && differ; f++)
    if (by_name(&sorted[f - 1], &sorted[f]) == 0) {
      region_breaks(fault, REGION_RULE_FIELD_NAME, "two fields have this name");
      differ = region_blame(fault->field, sorted[f]->name, f);
    }
  free(sorted);
  return differ;
}

bool region_fields_are_valid(const struct percore_table *table,
                             struct region_fault *fault) {
  if (table->fields == NULL && table->field_count > 0)
    return region_breaks(fault, REGION_RULE_TABLE_FIELDS,
                         "its fields are NULL, but field_count is %u",
                         table->field_count);
  if (!text_is_valid("help", table->help, fault))
    return false;
  uint64_t columns = 0;
  for (uint32_t f = 0; f < table->field_count; f++) {
    const struct percore_field *field = &table->fields[f];
    if (!field_is_valid(field, fault))
      return region_blame(fault->field, field->name, f);
    if (f > 0 && table->fields[f - 1].kind == PERCORE_HISTOGRAM &&
        field->kind != PERCORE_HISTOGRAM) {
      region_breaks(fault, REGION_RULE_HISTOGRAM,
                    "it follows a histogram; histograms must come last");
      return region_blame(fault->field, field->name, f);
    }
    columns +=
        region_field_cells(field->kind, field->sub_bits, field->max_bits);
  }
  const struct region_limit limits[] = {
      REGION_LIMIT(COLUMNS, "number of columns", columns, 1,
                   PERCORE_MAX_COLUMNS),
      REGION_LIMITS_END};
  return region_within(limits, fault) && field_names_differ(table, fault);
}

static bool shape_is_valid(const struct percore_table *table,
                           struct region_fault *fault) {
  static const uint32_t known = PERCORE_CONSISTENT | PERCORE_NO_RESET;
  uint32_t align = table->row_align, size = table->row_name_size;
  bool owned = table->storage == PERCORE_OWNED;
  bool single = table->max_rows == 0;
  bool named = !single && (size == 24 || size == 56 || size == 120);
  const struct region_limit limits[] = {
      REGION_LIMIT(STORAGE, "storage", table->storage, 0, PERCORE_SHARED),
      REGION_LIMIT(KEY, "key format", table->key, 0, PERCORE_KEY_MAC),
      REGION_LIMIT(CONSISTENT, "sum of unknown flags", table->flags & ~known, 0,
                   0),
      {REGION_RULE_CONSISTENT, "flag PERCORE_CONSISTENT",
       (table->flags & PERCORE_CONSISTENT) != 0, 0, owned, 0,
       "0 unless the table is OWNED"},
      {REGION_RULE_ROW_STRIDE, "row alignment", align, 0,
       (align & (align - 1)) == 0 ? 4096 : 0, 0,
       "0 or a power of two up to 4096"},
      REGION_LIMIT(MAX_ROWS, "max_rows", table->max_rows, 0, REGION_MAX_ROWS),
      {REGION_RULE_ROW_NAME_SIZE, "row name size", size, 0, named ? 120 : 0, 0,
       single ? "0: its rows have names, but max_rows is 0"
              : "24, 56 or 120, or 0 for rows with a key"},
      REGION_LIMIT(TABLE_FIELDS, "number of fields", table->field_count, 1,
                   REGION_MAX_TABLE_FIELDS),
      REGION_LIMITS_END};
  return region_within(limits, fault);
}

static bool table_is_valid(const struct percore_table *table,
                           struct region_fault *fault) {
  if (!region_table_name_is_valid(table->name))
    return region_breaks(fault, REGION_RULE_TABLE_NAME,
                         "its name must be [a-z][a-z0-9]*, at most 120 bytes, "
                         "and neither 'host' nor 'core'");
  return shape_is_valid(table, fault) && region_fields_are_valid(table, fault);
}

static bool identifiers_fit(const char *region,
                            const struct percore_table *table,
                            struct region_fault *fault) {
  for (uint32_t f = 0; f < table->field_count; f++)
    if (strlen("percore_host___") + strlen(region) + strlen(table->name) +
            strlen(table->fields[f].name) >
        REGION_MAX_PLUGIN_NAME) {
      region_breaks(fault, REGION_RULE_IDENTIFIER,
                    "percore_host_<region>_<table>_<field> is longer than %u "
                    "bytes",
                    REGION_MAX_PLUGIN_NAME);
      return region_blame(fault->field, table->fields[f].name, f);
    }
  return true;
}

static bool table_is_unique(const struct percore_table *tables, uint32_t t,
                            struct region_fault *fault) {
  for (uint32_t u = 0; u < t; u++)
    if (strcmp(tables[t].name, tables[u].name) == 0)
      return region_breaks(fault, REGION_RULE_TABLE_NAME,
                           "two tables have this name");
  return true;
}

bool region_schema_is_valid(const char *name, const char *instance,
                            const struct percore_table *tables,
                            uint32_t table_count, struct region_fault *fault) {
  if (!region_name_is_valid(name, false) || strcmp(name, "host") == 0)
    return region_breaks(fault, REGION_RULE_REGION_NAME,
                         "the region's name must be [a-z][a-z0-9]*, at most "
                         "120 bytes, and not 'host'");
  if (instance != NULL && !region_instance_is_valid(instance))
    return region_breaks(fault, REGION_RULE_INSTANCE_NAME,
                         "the instance's name must be 1 to 63 letters, digits, "
                         "'-', '_' and '.', and not begin with a dot");
  if (table_count > 0 && tables == NULL)
    return region_breaks(fault, REGION_RULE_COUNTS,
                         "it has %u tables, but tables is NULL", table_count);
  if (table_count >= REGION_MAX_TABLES)
    return region_breaks(fault, REGION_RULE_COUNTS,
                         "it has %u tables; a region may have at most %u, "
                         "including 'core'",
                         table_count, REGION_MAX_TABLES);
  uint64_t fields = REGION_CORE_COLUMNS;
  for (uint32_t t = 0; t < table_count; t++) {
    if (!table_is_valid(&tables[t], fault) ||
        !table_is_unique(tables, t, fault) ||
        !identifiers_fit(name, &tables[t], fault))
      return region_blame(fault->table, tables[t].name, t);
    fields += tables[t].field_count;
  }
  return fields <= REGION_MAX_FIELDS ||
         region_breaks(fault, REGION_RULE_COUNTS,
                       "its tables have more than %u fields in total",
                       REGION_MAX_FIELDS);
}
