#include "values.h"

#include <inttypes.h>
#include <math.h>

const struct quantile quantiles[QUANTILES] = {{"p50", 0.5, true},
                                              {"p90", 0.9, false},
                                              {"p99", 0.99, true},
                                              {"p999", 0.999, false},
                                              {"max", 1, true}};

struct field_ref field_of(const struct region_directory *directory,
                          uint32_t table, uint32_t field) {
  return (struct field_ref){
      .layout =
          &directory->fields[directory->tables[table].first_field + field],
      .described = &directory->described[table].fields[field]};
}

bool field_has_total(const struct region_directory *directory, uint32_t table,
                     uint32_t f) {
  const struct region_field *layout = field_of(directory, table, f).layout;
  if (directory->tables[table].storage != PERCORE_PER_CORE)
    return true;
  return table != TABLE_CORE && layout->kind != PERCORE_STATE &&
         (layout->kind != PERCORE_GAUGE || layout->aggregation != PERCORE_NONE);
}

bool table_has_totals(const struct region_directory *directory,
                      uint32_t table) {
  for (uint32_t f = 0; f < directory->tables[table].field_count; f++)
    if (!field_has_total(directory, table, f))
      return false;
  return true;
}

const char *field_unit(struct field_ref field) {
  return field.described->unit != NULL ? field.described->unit : "";
}

uint32_t tile_copies(const struct region_tile *tile) {
  return tile->cores != NULL ? 1 + tile->core_count : 1;
}

uint64_t *tile_cells(const struct region_tile *tile, uint32_t i,
                     uint32_t copy) {
  size_t row = copy == 0 ? i : (size_t)(copy - 1) * tile->capacity + i;
  return (copy == 0 ? tile->totals : tile->cores) + row * tile->columns;
}

static bool has_state(struct field_ref field, uint64_t value) {
  return field.layout->kind == PERCORE_STATE &&
         value < field.described->state_count;
}

static bool is_signed(struct field_ref field) {
  return field.layout->kind == PERCORE_UPDOWN ||
         field.layout->kind == PERCORE_GAUGE;
}

/* Returns the value of a field; of a histogram, how many values it counted. */
static uint64_t value_of(struct field_ref field, const uint64_t *cells) {
  uint64_t value = cells[0];
  if (field.layout->kind == PERCORE_HISTOGRAM)
    for (uint32_t b = 1; b < field.layout->cells; b++)
      value += cells[b];
  return value;
}

void value_text(char text[VALUE_TEXT_SIZE], struct field_ref field,
                const uint64_t *cells) {
  uint64_t value = value_of(field, cells);
  if (has_state(field, value))
    snprintf(text, VALUE_TEXT_SIZE, "%s", field.described->states[value]);
  else if (is_signed(field))
    snprintf(text, VALUE_TEXT_SIZE, "%" PRId64, (int64_t)value);
  else
    snprintf(text, VALUE_TEXT_SIZE, "%" PRIu64, value);
}

static void histogram_json(struct json *json, const char *key,
                           struct field_ref field, const uint64_t *cells) {
  uint32_t sub_bits = field.layout->sub_bits;
  json_open_object(json, key);
  json_unsigned(json, "count", value_of(field, cells));
  for (int i = 0; i < QUANTILES; i++) {
    double value = region_histogram_quantile(
        sub_bits, cells, field.layout->cells, quantiles[i].q);
    json_number(json, quantiles[i].name, value < 0 ? NAN : value);
  }
  json_open_array(json, "buckets");
  for (uint32_t b = 0; b < field.layout->cells; b++) {
    if (cells[b] == 0)
      continue;
    json_open_array(json, NULL);
    json_unsigned(json, NULL, region_bucket_least(sub_bits, b));
    json_unsigned(json, NULL, cells[b]);
    json_close_array(json);
  }
  json_close_array(json);
  json_close_object(json);
}

void value_json(struct json *json, const char *key, struct field_ref field,
                const uint64_t *cells) {
  if (field.layout->kind == PERCORE_HISTOGRAM)
    histogram_json(json, key, field, cells);
  else if (has_state(field, cells[0]))
    json_text(json, key, field.described->states[cells[0]]);
  else if (is_signed(field))
    json_integer(json, key, (int64_t)cells[0]);
  else
    json_unsigned(json, key, cells[0]);
}
