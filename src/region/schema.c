/* schema.c: checks descriptions of tables. percore_create checks the
 * description of an application, and a reader checks that of a producer. */
#include "percore_config.h"

#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "layout.h"

#define NAME_RULE "must be [a-z][a-z0-9_]* and at most 120 bytes"

static bool states_are_valid(const struct percore_field *field,
                             struct region_fault *fault) {
  if (field->kind != PERCORE_STATE)
    return field->state_count == 0 ||
           region_breaks(fault, REGION_RULE_STATES,
                         "only a field of kind state may have state names");
  if (field->state_count == 0 || field->state_count > REGION_MAX_STATES ||
      field->states == NULL)
    return region_breaks(fault, REGION_RULE_STATES,
                         "it has %u state names; a state must have 1 to %u",
                         field->state_count, REGION_MAX_STATES);
  for (uint32_t i = 0; i < field->state_count; i++) {
    if (field->states[i] == NULL || field->states[i][0] == '\0')
      return region_breaks(fault, REGION_RULE_STATES, "state %u has no name",
                           i);
    if (!region_text_is_valid(field->states[i]))
      return region_breaks(fault, REGION_RULE_TEXT,
                           "the name of state %u must be UTF-8 without control "
                           "characters",
                           i);
  }
  return true;
}

static bool histogram_is_valid(const struct percore_field *field,
                               struct region_fault *fault) {
  if (field->kind != PERCORE_HISTOGRAM)
    return (field->sub_bits == 0 && field->max_bits == 0) ||
           region_breaks(fault, REGION_RULE_HISTOGRAM,
                         "only a histogram may have sub_bits and max_bits");
  return region_histogram_buckets(field->sub_bits, field->max_bits) != 0 ||
         region_breaks(fault, REGION_RULE_HISTOGRAM,
                       "sub_bits %u, max_bits %u: sub_bits must be 0 to 8, "
                       "max_bits greater than sub_bits and at most 64",
                       field->sub_bits, field->max_bits);
}

bool region_instance_check(const char *instance, struct region_fault *fault) {
  return instance == NULL || region_instance_is_valid(instance) ||
         region_breaks(fault, REGION_RULE_INSTANCE_NAME,
                       "the instance's name must be 1 to 63 letters, digits, "
                       "'-', '_' and '.', and not begin with a dot");
}

bool region_field_texts_are_valid(const struct percore_field *field,
                                  struct region_fault *fault) {
  if (!region_name_is_valid(field->name, true))
    return region_breaks(fault, REGION_RULE_FIELD_NAME, "its name " NAME_RULE);
  return (region_text_is_valid(field->unit) &&
          region_text_is_valid(field->help)) ||
         region_breaks(fault, REGION_RULE_TEXT,
                       "its unit and help must be UTF-8 without control "
                       "characters");
}

/* Checks that the value of an enumeration is known. */
static bool is_known(unsigned value, unsigned most, enum region_rule rule,
                     const char *what, struct region_fault *fault) {
  return value <= most ||
         region_breaks(fault, rule, "its %s is %u; %ss are 0 to %u", what,
                       value, what, most);
}

static bool field_is_valid(const struct percore_field *field,
                           struct region_fault *fault) {
  if (!region_field_texts_are_valid(field, fault))
    return false;
  if (!is_known(field->kind, PERCORE_HISTOGRAM, REGION_RULE_KIND, "kind",
                fault))
    return false;
  if ((unsigned)field->aggregation > PERCORE_NONE ||
      (field->aggregation != PERCORE_SUM && field->kind != PERCORE_GAUGE))
    return region_breaks(fault, REGION_RULE_AGGREGATION,
                         "only a gauge may have an aggregation other than "
                         "0 (sum)");
  return histogram_is_valid(field, fault) && states_are_valid(field, fault);
}

static int by_name(const void *left, const void *right) {
  const struct percore_field *const *a = left, *const *b = right;
  return strcmp((*a)->name, (*b)->name);
}

/* Sorts the names, because comparing all pairs of a hostile region's names, in
 * 16 tables of 1024 fields each, would keep a reader busy. */
static bool field_names_differ(const struct percore_table *table,
                               struct region_fault *fault) {
  const struct percore_field *sorted[REGION_MAX_TABLE_FIELDS];
  for (uint32_t f = 0; f < table->field_count; f++)
    sorted[f] = &table->fields[f];
  qsort(sorted, table->field_count, sizeof(*sorted), by_name);
  for (uint32_t f = 1; f < table->field_count; f++)
    if (by_name(&sorted[f - 1], &sorted[f]) == 0) {
      region_breaks(fault, REGION_RULE_FIELD_NAME, "two fields have this name");
      return region_blame_field(fault, sorted[f]->name, f);
    }
  return true;
}

static bool fields_are_valid(const struct percore_table *table,
                             struct region_fault *fault) {
  if (table->fields == NULL && table->field_count > 0)
    return region_breaks(fault, REGION_RULE_TABLE_FIELDS,
                         "its fields are NULL, but field_count is %u",
                         table->field_count);
  if (table->field_count == 0 || table->field_count > REGION_MAX_TABLE_FIELDS)
    return region_breaks(fault, REGION_RULE_TABLE_FIELDS,
                         "it has %u fields; a table must have 1 to %u",
                         table->field_count, REGION_MAX_TABLE_FIELDS);
  uint64_t columns = 0;
  for (uint32_t f = 0; f < table->field_count; f++) {
    const struct percore_field *field = &table->fields[f];
    if (!field_is_valid(field, fault))
      return region_blame_field(fault, field->name, f);
    if (f > 0 && table->fields[f - 1].kind == PERCORE_HISTOGRAM &&
        field->kind != PERCORE_HISTOGRAM) {
      region_breaks(fault, REGION_RULE_HISTOGRAM,
                    "it follows a histogram; histograms must come last");
      return region_blame_field(fault, field->name, f);
    }
    columns +=
        region_field_cells(field->kind, field->sub_bits, field->max_bits);
  }
  if (columns > PERCORE_MAX_COLUMNS)
    return region_breaks(fault, REGION_RULE_COLUMNS,
                         "it has %llu columns; a row may have at most %u",
                         (unsigned long long)columns, PERCORE_MAX_COLUMNS);
  return field_names_differ(table, fault);
}

static bool row_shape_is_valid(const struct percore_table *table,
                               struct region_fault *fault) {
  if (table->max_rows > REGION_MAX_ROWS)
    return region_breaks(fault, REGION_RULE_MAX_ROWS,
                         "it has %u rows; a table may have at most %u",
                         table->max_rows, REGION_MAX_ROWS);
  if ((table->flags & PERCORE_CONSISTENT) != 0 &&
      table->storage != PERCORE_OWNED)
    return region_breaks(fault, REGION_RULE_CONSISTENT,
                         "only an OWNED table may be consistent");
  uint32_t size = table->row_name_size;
  return size == 0 || size == 24 || size == 56 || size == 120 ||
         region_breaks(fault, REGION_RULE_ROW_NAME_SIZE,
                       "its row name size is %u; it must be 0 (a key), 24, 56 "
                       "or 120",
                       size);
}

static bool table_is_valid(const struct percore_table *table,
                           struct region_fault *fault) {
  if (!region_name_is_valid(table->name, false) ||
      strcmp(table->name, "host") == 0 || strcmp(table->name, "core") == 0)
    return region_breaks(fault, REGION_RULE_TABLE_NAME,
                         "its name must be [a-z][a-z0-9]*, at most 120 bytes, "
                         "and neither 'host' nor 'core'");
  if (!region_text_is_valid(table->help))
    return region_breaks(fault, REGION_RULE_TEXT,
                         "its help must be UTF-8 without control characters");
  if (!is_known(table->storage, PERCORE_SHARED, REGION_RULE_STORAGE, "storage",
                fault) ||
      !is_known(table->key, PERCORE_KEY_MAC, REGION_RULE_KEY, "key format",
                fault))
    return false;
  if ((table->flags & ~(uint32_t)(PERCORE_CONSISTENT | PERCORE_NO_RESET)) != 0)
    return region_breaks(fault, REGION_RULE_CONSISTENT,
                         "an unknown flag is set");
  if (region_row_stride(1, false, table->row_align) == 0)
    return region_breaks(fault, REGION_RULE_ROW_STRIDE,
                         "its row alignment is %u; it must be 0 or a power of "
                         "two up to 4096",
                         table->row_align);
  return row_shape_is_valid(table, fault) && fields_are_valid(table, fault);
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
      return region_blame_field(fault, table->fields[f].name, f);
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

bool region_schema_is_valid(const char *name,
                            const struct percore_table *tables,
                            uint32_t table_count, struct region_fault *fault) {
  if (!region_name_is_valid(name, false) || strcmp(name, "host") == 0)
    return region_breaks(fault, REGION_RULE_REGION_NAME,
                         "the region's name must be [a-z][a-z0-9]*, at most "
                         "120 bytes, and not 'host'");
  if (table_count >= REGION_MAX_TABLES || (table_count > 0 && tables == NULL))
    return region_breaks(fault, REGION_RULE_COUNTS,
                         "it has %u tables; a region may have at most %u, "
                         "including 'core'",
                         table_count, REGION_MAX_TABLES);
  uint64_t fields = REGION_CORE_COLUMNS;
  for (uint32_t t = 0; t < table_count; t++) {
    if (!table_is_valid(&tables[t], fault) ||
        !table_is_unique(tables, t, fault) ||
        !identifiers_fit(name, &tables[t], fault))
      return region_blame_table(fault, tables[t].name, t);
    fields += tables[t].field_count;
  }
  return fields <= REGION_MAX_FIELDS ||
         region_breaks(fault, REGION_RULE_COUNTS,
                       "its tables have more than %u fields in total",
                       REGION_MAX_FIELDS);
}
