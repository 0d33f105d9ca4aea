/* values: the fields of a row, as a reader finds them, for people and scripts.
 */
#ifndef PERCORE_VALUES_H
#define PERCORE_VALUES_H

#include "json.h"
#include "region/reader.h"

/* A field of a table, both as laid out and as described. */
struct field_ref {
  const struct region_field *layout;
  const struct percore_field *described;
};

struct field_ref field_of(const struct region_directory *directory,
                          uint32_t table, uint32_t field);

/* How many rows to read at a time, so that a tile of a table takes about 4 MiB
 * of cells. */
uint32_t rows_per_tile(const struct region_directory *directory, uint32_t table,
                       bool with_cores);

/* False for a state, or a level that is not aggregated, of a PER_CORE table:
 * such a field has a value on each core, and none over all of them. */
bool field_has_total(const struct region_directory *directory, uint32_t table,
                     uint32_t field);

/* "" if the producer gave none. */
const char *field_unit(struct field_ref field);

const char *kind_name(enum percore_kind kind);
const char *storage_name(enum percore_storage storage);

/* What a histogram says of the values it counted. */
enum { QUANTILES = 5 };
extern const struct quantile {
  const char *name;
  double q;
} quantiles[QUANTILES];

struct histogram_summary {
  uint64_t count;
  double at[QUANTILES]; /* NaN if nothing was counted */
};

void histogram_summarise(struct histogram_summary *summary,
                         struct field_ref field, const uint64_t *buckets);

/* A value as text: counters and levels without a sign, gauges with one, states
 * by name. cells are those of the field; not for histograms. The text is not
 * clean: names of states are foreign bytes. */
#define VALUE_TEXT_SIZE 160
void value_text(char text[VALUE_TEXT_SIZE], struct field_ref field,
                const uint64_t *cells);

/* The same to JSON, and histograms with their percentiles and with every
 * bucket that is not empty, as [least value, count]. */
void value_json(struct json *json, const char *key, struct field_ref field,
                const uint64_t *cells);

#endif
