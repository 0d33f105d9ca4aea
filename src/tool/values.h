/* values: the fields of a row as text and as JSON. */
#ifndef PERCORE_VALUES_H
#define PERCORE_VALUES_H

#include "json.h"
#include "region/reader.h"

/* A field of a table: its layout in memory, and the producer's description. */
struct field_ref {
  const struct region_field *layout;
  const struct percore_field *described;
};

struct field_ref field_of(const struct region_directory *directory,
                          uint32_t table, uint32_t field);

/* The index of the built-in table `core`, which describes the attached threads.
 * Sums of its fields over all cores have no meaning. */
enum { TABLE_CORE = 0 };

/* Returns true if the field has a total, false if only its values on each core
 * are known: a state or a gauge without aggregation in a PER_CORE table, or any
 * field of the table `core`. */
bool field_has_total(const struct region_directory *directory, uint32_t table,
                     uint32_t field);

/* True if all fields of the table have a total. */
bool table_has_totals(const struct region_directory *directory, uint32_t table);

/* Returns the unit of a field, or "" if it has no unit. */
const char *field_unit(struct field_ref field);

/* How many rows are read together. */
enum { TILE_ROWS = 1024 };

/* A row has a copy of its cells for the totals, copy 0. If the tile also holds
 * values of single cores, copy N + 1 is that of core N. */
uint32_t tile_copies(const struct region_tile *tile);
uint64_t *tile_cells(const struct region_tile *tile, uint32_t i, uint32_t copy);

/* The percentiles that are shown for a histogram. */
enum { QUANTILES = 5 };
extern const struct quantile {
  const char *name;
  double q;
  bool in_top; /* percore top shows this percentile */
} quantiles[QUANTILES];

/* Formats the value of a field: counters as unsigned numbers, up-down counters
 * and gauges as signed numbers, states by name, histograms by the number of
 * their values. `cells` are the cells of the field. Names of states are
 * untrusted bytes. */
#define VALUE_TEXT_SIZE 160
void value_text(char text[VALUE_TEXT_SIZE], struct field_ref field,
                const uint64_t *cells);

/* Writes the value of a field as JSON. A histogram becomes an object with its
 * count, its percentiles, and its non-empty buckets as [least value, count]. */
void value_json(struct json *json, const char *key, struct field_ref field,
                const uint64_t *cells);

#endif
