#include "rates.h"

#include "base/array.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------
 * Columns
 */

/* Adds a column for a field. `quantile` is NULL unless the column shows a
 * percentile. */
static void add_column(struct rates *rates, struct field_ref field,
                       enum rate_kind kind, const struct quantile *quantile) {
  struct rate_column *column = &rates->columns[rates->columns_len++];
  *column = (struct rate_column){
      .field = field, .kind = kind, .q = quantile != NULL ? quantile->q : 0};
  snprintf(column->title, sizeof(column->title), "%s%s%s",
           field.described->name, quantile != NULL ? "_" : "",
           quantile != NULL ? quantile->name : "");
}

static int make_columns(struct rates *rates,
                        const struct region_directory *directory) {
  static const enum rate_kind kinds[] = {[PERCORE_COUNTER] = RATE_PER_SECOND,
                                         [PERCORE_UPDOWN] = RATE_VALUE,
                                         [PERCORE_GAUGE] = RATE_VALUE,
                                         [PERCORE_STATE] = RATE_STATE,
                                         [PERCORE_HISTOGRAM] = RATE_PER_SECOND};
  uint32_t table = rates->tile.table;
  uint32_t fields = directory->tables[table].field_count;
  rates->columns =
      calloc((size_t)fields * (1 + QUANTILES), sizeof(*rates->columns));
  if (rates->columns == NULL)
    return -ENOMEM;
  for (uint32_t f = 0; f < fields; f++) {
    struct field_ref field = field_of(directory, table, f);
    if (!merge_has_field(rates->merge, table, f))
      continue;
    size_t first = rates->columns_len;
    add_column(rates, field, kinds[field.layout->kind], NULL);
    for (int i = 0; field.layout->kind == PERCORE_HISTOGRAM && i < QUANTILES;
         i++)
      if (quantiles[i].in_top)
        add_column(rates, field, RATE_QUANTILE, &quantiles[i]);
    for (size_t c = first; c < rates->columns_len; c++)
      rates->columns[c].has_total = field_has_total(directory, table, f);
  }
  return 0;
}

const char *rate_state(const struct rate_column *column, double value) {
  const struct percore_field *field = column->field.described;
  return column->kind == RATE_STATE && value >= 0 && value < field->state_count
             ? field->states[(uint32_t)value]
             : NULL;
}

static bool sort_by(struct rates *rates, const char *title) {
  for (size_t c = 0; title != NULL && c < rates->columns_len; c++)
    if (strcmp(rates->columns[c].title, title) == 0) {
      rates->sort_column = c;
      return true;
    }
  return false;
}

void rates_sort(struct rates *rates, const char *title, bool least) {
  size_t first = 0;
  while (first + 1 < rates->columns_len &&
         rates->columns[first].kind != RATE_PER_SECOND)
    first++;
  rates->sort_column =
      rates->columns[first].kind == RATE_PER_SECOND ? first : 0;
  rates->sort_asked =
      sort_by(rates, title) || sort_by(rates, rates->options.sort) || least;
  rates->sort_least = least;
}

/* ---------------------------------------------------------------------------
 * One value
 */

static double per_second(const struct rates *rates, uint64_t delta) {
  return (int64_t)delta < 0 ? NAN : (double)delta / rates->interval_s;
}

static double histogram_value(const struct rates *rates,
                              const struct rate_column *column,
                              const uint64_t *cells) {
  const struct region_field *field = column->field.layout;
  uint64_t count = 0;
  for (uint32_t b = 0; b < field->cells; b++) {
    if ((int64_t)cells[b] < 0)
      return NAN;
    count += cells[b];
  }
  if (column->kind == RATE_PER_SECOND)
    return per_second(rates, count);
  double value = region_histogram_quantile(field->sub_bits, cells, field->cells,
                                           column->q);
  return value < 0 ? NAN : value;
}

/* `cells`: those of a copy of a row, as take_growth has made them. */
static double value_of(const struct rates *rates,
                       const struct rate_column *column,
                       const uint64_t *cells) {
  const struct region_field *field = column->field.layout;
  cells += field->column;
  if (field->kind == PERCORE_HISTOGRAM)
    return histogram_value(rates, column, cells);
  if (column->kind == RATE_VALUE)
    return (double)(int64_t)*cells;
  return column->kind == RATE_STATE ? (double)*cells
                                    : per_second(rates, *cells);
}

/* ---------------------------------------------------------------------------
 * What rows have grown
 */

static int make_room(const struct merge_part *part, struct region_growth *past,
                     const struct region_tile *tile) {
  uint32_t rows = tile->first_row + tile->rows;
  past->copies = tile_copies(tile);
  past->width = tile->columns;
  if (rows <= past->rows)
    return 0;
  if ((uint64_t)rows * past->copies * past->width * sizeof(*past->last) >
      part->bytes_most)
    return -EFBIG;
  uint32_t larger = rows < past->rows * 2 ? past->rows * 2 : rows;
  return region_growth_resize(past, larger) ? 0 : -ENOMEM;
}

/* Replaces the cells of a copy of a row by what they have grown since `before`
 * (NULL: unknown), and those of up-down counters by what they have grown since
 * `births`. Stores the cells themselves in `kept`. */
static void take_copy(const uint8_t *kinds, uint32_t columns, uint64_t *cells,
                      const uint64_t *before, const uint64_t *births,
                      uint64_t *kept) {
  for (uint32_t c = 0; c < columns; c++) {
    uint64_t now = cells[c];
    if (kinds[c] == PERCORE_UPDOWN)
      cells[c] = now - births[c];
    else if (kinds[c] != PERCORE_GAUGE && kinds[c] != PERCORE_STATE)
      cells[c] = before != NULL && region_grown(now, before[c]) == REGION_GREW
                     ? now - before[c]
                     : MERGE_UNKNOWN;
    kept[c] = now;
  }
}

/* Replaces the cells of row i by what they have grown since the last read. If
 * the row has been added since then, that is what it has counted since its
 * births. A region stores births for totals only: what a core has grown is then
 * known only in the first use of the row, in which all cells began at 0. */
static void take_row_growth(const struct merge_part *part,
                            struct merge_past *past, struct region_tile *tile,
                            uint32_t i, const uint8_t *kinds) {
  static const uint64_t zeros[PERCORE_MAX_COLUMNS];
  uint32_t columns = tile->columns, row = tile->first_row + i;
  uint32_t incarnation = region_incarnation(tile->generations[i]);
  uint32_t *known = &past->cells.incarnations[row];
  bool is_new = *known != incarnation;
  bool is_known = past->is_known || part->is_new;
  for (uint32_t copy = 0; copy < past->cells.copies; copy++) {
    uint64_t *kept = region_growth_last(&past->cells, row, copy);
    const uint64_t *births =
        copy == 0 ? tile->births + (size_t)i * columns : zeros;
    const uint64_t *before = is_new ? births : kept;
    if (!is_known || (is_new && copy > 0 && incarnation > 1))
      before = NULL;
    take_copy(kinds, columns, tile_cells(tile, i, copy), before, births, kept);
  }
  past->rows_new += incarnation - *known;
  *known = incarnation;
}

static int take_growth(struct merge_part *part, struct region_tile *tile) {
  const struct region_directory *directory =
      region_reader_directory(part->reader);
  struct merge_past *past = &part->pasts[tile->table];
  uint8_t kinds[PERCORE_MAX_COLUMNS];
  int status = make_room(part, &past->cells, tile);
  for (uint32_t f = 0; f < directory->tables[tile->table].field_count; f++) {
    const struct region_field *field =
        field_of(directory, tile->table, f).layout;
    memset(kinds + field->column, (int)field->kind, field->cells);
  }
  for (uint32_t i = 0; i < tile->rows && status == 0; i++)
    if (tile->generations[i] != REGION_CHANGING) /* it may still be there */
      take_row_growth(part, past, tile, i, kinds);
  past->is_known |= tile->rows < tile->capacity; /* those were the last rows */
  return status;
}

/* ---------------------------------------------------------------------------
 * One row
 */

static double key_of(const struct rates *rates, uint32_t i) {
  double key = value_of(rates, &rates->columns[rates->sort_column],
                        tile_cells(&rates->tile, i, 0));
  return isnan(key) ? -1e300 : rates->sort_least ? -key : key;
}

static void fill_row(struct rates *rates, struct rate_row *row, uint32_t i) {
  double *value = row->values;
  for (uint32_t copy = 0; copy < rates->copies; copy++)
    for (size_t c = 0; c < rates->columns_len; c++)
      *value++ = (copy > 0 &&
                  merge_has_core(rates->merge, &rates->tile, i, copy - 1)) ||
                         (copy == 0 && rates->columns[c].has_total)
                     ? value_of(rates, &rates->columns[c],
                                tile_cells(&rates->tile, i, copy))
                     : NAN;
}

/* ---------------------------------------------------------------------------
 * The rows with the largest keys
 */

static int by_key(const void *left, const void *right) {
  const struct rate_row *a = left, *b = right;
  if (a->key != b->key)
    return a->key > b->key ? -1 : 1;
  return a->row < b->row ? -1 : a->row > b->row;
}

/* Sorts the rows and keeps at most options.rows of them. */
static void keep_first(struct rates *rates) {
  if (rates->rows_len > 0)
    qsort(rates->rows, rates->rows_len, sizeof(*rates->rows), by_key);
  if (rates->rows_len > rates->options.rows)
    rates->rows_len = rates->options.rows;
}

/* Returns where to keep a row, or NULL if enough rows come before it. There is
 * room for twice as many rows as are kept. */
static struct rate_row *place_for(struct rates *rates, double key,
                                  uint32_t row) {
  size_t most = rates->options.rows;
  struct rate_row wanted = {.key = key, .row = row};
  if (rates->rows_len == 2 * most) {
    keep_first(rates);
    rates->is_cut = true;
  }
  return rates->is_cut && by_key(&wanted, &rates->rows[most - 1]) > 0
             ? NULL
             : &rates->rows[rates->rows_len];
}

/* ---------------------------------------------------------------------------
 * Reading
 */

static void take_row(struct rates *rates, uint32_t i) {
  const struct region_tile *tile = &rates->tile;
  char name[MERGE_ROW_SIZE];
  if (region_state(tile->generations[i]) != REGION_LIVE)
    return;
  rates->rows_live++;
  double key = key_of(rates, i);
  struct rate_row *row = place_for(rates, key, tile->first_row + i);
  if (row == NULL || !merge_row_name(rates->merge, tile, i, name))
    return;
  row->key = key;
  row->row = tile->first_row + i;
  memcpy(row->name, name, sizeof(name));
  fill_row(rates, row, i);
  rates->rows_len++;
}

int rates_read(struct rates *rates, uint64_t now_ns) {
  struct region_tile *tile = &rates->tile;
  struct merge_past *past = &rates->merge->parts[0].pasts[tile->table];
  uint64_t live_before = rates->rows_live;
  rates->rows_len = 0;
  rates->rows_live = past->rows_new = 0;
  rates->is_cut = false;
  rates->interval_s =
      rates->read_ns != 0 ? (double)(now_ns - rates->read_ns) / 1e9 : NAN;
  for (uint32_t first = 0;; first += tile->rows) {
    int status = merge_read(rates->merge, tile, first, take_growth);
    if (status != 0)
      return status;
    if (tile->rows == 0)
      break;
    for (uint32_t i = 0; i < tile->rows; i++)
      take_row(rates, i);
  }
  rates->read_ns = now_ns;
  double growth = (double)rates->rows_live - (double)live_before;
  rates->replaced_per_s =
      rates->merge->is_one ? fmax((double)past->rows_new - fmax(growth, 0), 0) /
                                 rates->interval_s
                           : NAN;
  keep_first(rates);
  return 0;
}

/* ---------------------------------------------------------------------------
 * Opening and closing
 */

static int make_rows(struct rates *rates) {
  size_t values = rates->columns_len * rates->copies;
  size_t rows = 2 * rates->options.rows;
  rates->rows = calloc(rows, sizeof(*rates->rows));
  rates->values = calloc(rows * values, sizeof(*rates->values));
  if (rates->rows == NULL || rates->values == NULL)
    return -ENOMEM;
  for (size_t r = 0; r < rows; r++)
    rates->rows[r].values = rates->values + r * values;
  return 0;
}

static int open_all(struct rates *rates, uint32_t table) {
  const struct region_directory *directory = merge_directory(rates->merge);
  uint32_t rows = directory->tables[table].max_rows;
  uint32_t want = REGION_WANT_BIRTHS;
  /* If the table has only one row, and that row has fields without a total, the
   * values of all cores are always shown. */
  if (rates->options.per_core ||
      (rows == 1 && !table_has_totals(directory, table)))
    want |= REGION_WANT_CORES;
  if (rates->merge->is_one && rates->options.rows > rows)
    rates->options.rows = rows;
  if (region_tile_init(&rates->tile, rates->merge->parts[0].reader, table,
                       TILE_ROWS, want) != 0)
    return -ENOMEM;
  rates->copies = tile_copies(&rates->tile);
  int status = make_columns(rates, directory);
  if (status != 0)
    return status;
  rates_sort(rates, NULL, false);
  return make_rows(rates);
}

int rates_open(struct rates *rates, struct merge *merge, uint32_t table,
               const struct rates_options *options) {
  *rates = (struct rates){.options = *options, .merge = merge};
  int status = open_all(rates, table);
  if (status != 0)
    rates_close(rates);
  return status;
}

void rates_close(struct rates *rates) {
  region_tile_free(&rates->tile);
  free(rates->columns);
  free(rates->rows);
  free(rates->values);
  *rates = (struct rates){0};
}
