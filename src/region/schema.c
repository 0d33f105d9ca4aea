/* schema.c: which descriptions of tables are allowed. Producers are held to it
 * when they create, readers check what they read by the same rules. */
#include "percore_config.h"

#include <errno.h>
#include <string.h>

#include "layout.h"

static bool states_are_valid(const struct percore_field *field) {
  if (field->kind != PERCORE_STATE)
    return field->state_count == 0;
  if (field->state_count == 0 || field->state_count > REGION_MAX_STATES ||
      field->states == NULL)
    return false;
  for (uint32_t i = 0; i < field->state_count; i++)
    if (field->states[i] == NULL || field->states[i][0] == '\0' ||
        !region_text_is_valid(field->states[i]))
      return false;
  return true;
}

static bool field_is_valid(const struct percore_field *field) {
  if (!region_name_is_valid(field->name, true) ||
      !region_text_is_valid(field->unit) || !region_text_is_valid(field->help))
    return false;
  if ((unsigned)field->kind > PERCORE_HISTOGRAM ||
      (unsigned)field->aggregation > PERCORE_NONE)
    return false;
  if (field->aggregation != PERCORE_SUM && field->kind != PERCORE_LEVEL)
    return false;
  if (field->kind == PERCORE_HISTOGRAM
          ? region_histogram_buckets(field->sub_bits, field->max_bits) == 0
          : field->sub_bits != 0 || field->max_bits != 0)
    return false;
  return states_are_valid(field);
}

static bool fields_are_valid(const struct percore_table *table) {
  if (table->fields == NULL || table->field_count == 0 ||
      table->field_count > REGION_MAX_TABLE_FIELDS)
    return false;
  bool histograms = false;
  uint64_t columns = 0;
  for (uint32_t f = 0; f < table->field_count; f++) {
    const struct percore_field *field = &table->fields[f];
    if (!field_is_valid(field))
      return false;
    for (uint32_t g = 0; g < f; g++)
      if (strcmp(field->name, table->fields[g].name) == 0)
        return false;
    bool histogram = field->kind == PERCORE_HISTOGRAM;
    if (histograms && !histogram)
      return false;
    histograms = histogram;
    columns += histogram
                   ? region_histogram_buckets(field->sub_bits, field->max_bits)
                   : 1;
  }
  return columns <= PERCORE_MAX_COLUMNS;
}

static bool table_is_valid(const struct percore_table *table) {
  if (!region_name_is_valid(table->name, false) ||
      strcmp(table->name, "host") == 0 || !region_text_is_valid(table->help))
    return false;
  if ((unsigned)table->storage > PERCORE_SHARED ||
      (unsigned)table->key > PERCORE_KEY_MAC ||
      table->max_rows > REGION_MAX_ROWS ||
      (table->flags & ~(uint32_t)(PERCORE_CONSISTENT | PERCORE_NO_RESET)) != 0)
    return false;
  if ((table->flags & PERCORE_CONSISTENT) != 0 &&
      table->storage != PERCORE_OWNED)
    return false;
  uint32_t size = table->row_name_size;
  if (size != 0 && size != 24 && size != 56 && size != 120)
    return false;
  if (region_row_stride(1, false, table->row_align) == 0)
    return false;
  return fields_are_valid(table);
}

static int check_name_lengths(const char *region,
                              const struct percore_table *table) {
  for (uint32_t f = 0; f < table->field_count; f++)
    if (strlen("percore_host___") + strlen(region) + strlen(table->name) +
            strlen(table->fields[f].name) >
        REGION_MAX_PLUGIN_NAME) {
      errno = ENAMETOOLONG;
      return -1;
    }
  return 0;
}

int region_schema_check(const char *name, const struct percore_table *tables,
                        uint32_t table_count) {
  errno = EINVAL;
  if (!region_name_is_valid(name, false) || strcmp(name, "host") == 0 ||
      table_count >= REGION_MAX_TABLES || (table_count > 0 && tables == NULL))
    return -1;
  uint64_t fields = REGION_CORE_COLUMNS; /* of the table `core` */
  for (uint32_t t = 0; t < table_count; t++) {
    if (!table_is_valid(&tables[t]) || strcmp(tables[t].name, "core") == 0)
      return -1;
    for (uint32_t u = 0; u < t; u++)
      if (strcmp(tables[t].name, tables[u].name) == 0)
        return -1;
    if (check_name_lengths(name, &tables[t]) != 0)
      return -1;
    fields += tables[t].field_count;
  }
  return fields <= REGION_MAX_FIELDS ? 0 : -1;
}
