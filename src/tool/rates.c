#include "rates.h"

#include "base/array.h"
#include "tool.h"

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

/* As totals, counters may use all 64 bits. */
static double counted(const struct rates *rates, uint64_t count) {
  if (rates->options.totals)
    return (double)count;
  return (int64_t)count < 0 ? NAN : (double)count / rates->interval_s;
}

static double histogram_value(const struct rates *rates,
                              const struct rate_column *column,
                              const uint64_t *cells) {
  const struct region_field *field = column->field.layout;
  uint64_t count = 0;
  for (uint32_t b = 0; b < field->cells; b++) {
    if ((int64_t)cells[b] < 0 && !rates->options.totals)
      return NAN;
    count += cells[b];
  }
  if (column->kind == RATE_PER_SECOND)
    return counted(rates, count);
  double value = region_histogram_quantile(field->sub_bits, cells, field->cells,
                                           column->q);
  return value < 0 ? NAN : value;
}

/* `cells`: those of the column. */
static double value_of(const struct rates *rates,
                       const struct rate_column *column,
                       const uint64_t *cells) {
  const struct region_field *field = column->field.layout;
  if (field->kind == PERCORE_HISTOGRAM)
    return histogram_value(rates, column, cells);
  if (column->kind == RATE_VALUE)
    return (double)(int64_t)*cells;
  return column->kind == RATE_STATE ? (double)*cells : counted(rates, *cells);
}

const uint64_t *rate_cells(const struct rates *rates,
                           const struct rate_column *column,
                           const struct rate_row *row, uint32_t copy) {
  if (!row->has[copy] || (copy == 0 && !column->has_total))
    return NULL;
  return row->cells + copy * rates->tile.columns + column->field.layout->column;
}

double rate_value(const struct rates *rates, const struct rate_column *column,
                  const struct rate_row *row, uint32_t copy) {
  const uint64_t *cells = rate_cells(rates, column, row, copy);
  return cells != NULL ? value_of(rates, column, cells) : NAN;
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
  const struct rate_column *column = &rates->columns[rates->sort_column];
  double key =
      value_of(rates, column,
               tile_cells(&rates->tile, i, 0) + column->field.layout->column);
  return isnan(key) ? -1e300 : rates->sort_least ? -key : key;
}

/* Fills in everything but the name. */
static void fill_row(struct rates *rates, struct rate_row *row, uint32_t i) {
  const struct region_tile *tile = &rates->tile;
  size_t columns = tile->columns;
  row->row = tile->first_row + i;
  row->torn = tile->torn[i] != 0;
  for (uint32_t copy = 0; copy < rates->copies; copy++) {
    row->has[copy] =
        copy == 0 || merge_has_core(rates->merge, tile, i, copy - 1);
    memcpy(row->cells + copy * columns, tile_cells(tile, i, copy),
           columns * sizeof(*row->cells));
  }
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

/* Replaces totals by the values that are shown: counts since the last reset. */
static int take_shown(struct merge_part *part, struct region_tile *tile) {
  const struct region_directory *directory =
      region_reader_directory(part->reader);
  for (uint32_t i = 0; i < tile->rows; i++)
    for (uint32_t c = 0; c < tile->columns; c++)
      tile->totals[(size_t)i * tile->columns + c] =
          region_row_shown(directory, tile, i, c);
  return 0;
}

static int read_tile(struct rates *rates, uint32_t first_row) {
  return merge_read(rates->merge, &rates->tile, first_row,
                    rates->options.totals ? take_shown : take_growth);
}

static void take_row(struct rates *rates, uint32_t i) {
  const struct region_tile *tile = &rates->tile;
  if (region_state(tile->generations[i]) != REGION_LIVE)
    return;
  rates->rows_live++;
  double key = key_of(rates, i);
  struct rate_row *row = place_for(rates, key, tile->first_row + i);
  if (row == NULL || !merge_row_name(rates->merge, tile, i, row->name))
    return;
  row->key = key;
  fill_row(rates, row, i);
  rates->rows_len++;
}

static int take_rows(struct rates *rates) {
  struct region_tile *tile = &rates->tile;
  int status = 0;
  for (uint32_t first = 0;
       (status = read_tile(rates, first)) == 0 && tile->rows > 0;
       first += tile->rows)
    for (uint32_t i = 0; i < tile->rows; i++)
      take_row(rates, i);
  keep_first(rates);
  return status;
}

static int by_number(const void *left, const void *right) {
  const struct rate_row *a = left, *b = right;
  return a->row < b->row ? -1 : a->row > b->row;
}

int rates_begin(struct rates *rates, size_t most) {
  struct region_tile *tile = &rates->tile;
  struct region_reader *reader = rates->merge->parts[0].reader;
  bool are_all = rates->rows_len == rates->rows_live && rates->rows_len <= most;
  rates->next = 0;
  rates->most = most < rates->rows_len ? most : rates->rows_len;
  if (rates->rows_len > 0)
    qsort(rates->rows, rates->rows_len, sizeof(*rates->rows),
          are_all && !rates->sort_asked ? by_number : by_key);
  if (rates->options.rows > 0)
    return 0;
  int status = read_tile(rates, 0);
  rates->rows_live = rates->merge->is_one
                         ? region_reader_live_rows(reader, tile->table)
                         : tile->rows;
  return status;
}

/* Reads rows until one is live. */
static int next_of_tile(struct rates *rates, const struct rate_row **row) {
  struct region_tile *tile = &rates->tile;
  int status = 0;
  while (status == 0 && tile->rows > 0) {
    for (uint32_t i = (uint32_t)rates->next; i < tile->rows; i++)
      if (merge_row_name(rates->merge, tile, i, rates->rows->name)) {
        fill_row(rates, rates->rows, i);
        rates->next = i + 1;
        *row = rates->rows;
        return 0;
      }
    rates->next = 0;
    status = stop_requested() ? -EINTR
                              : read_tile(rates, tile->first_row + tile->rows);
  }
  return status;
}

int rates_next(struct rates *rates, const struct rate_row **row) {
  *row = NULL;
  if (rates->options.rows == 0)
    return next_of_tile(rates, row);
  if (rates->next < rates->most)
    *row = &rates->rows[rates->next++];
  return 0;
}

int rates_read(struct rates *rates, uint64_t now_ns) {
  if (rates->options.rows == 0)
    return 0; /* rates_begin reads the first */
  rates->rows_len = 0;
  rates->rows_live = 0;
  rates->is_cut = false;
  rates->interval_s =
      rates->read_ns != 0 ? (double)(now_ns - rates->read_ns) / 1e9 : NAN;
  int status = take_rows(rates);
  if (status == 0)
    rates->read_ns = now_ns;
  return status;
}

/* ---------------------------------------------------------------------------
 * Opening and closing
 */

static int make_rows(struct rates *rates) {
  size_t cells = (size_t)rates->tile.columns * rates->copies;
  size_t rows = rates->options.rows > 0 ? 2 * rates->options.rows : 1;
  rates->rows = calloc(rows, sizeof(*rates->rows));
  rates->cells = calloc(rows * cells, sizeof(*rates->cells));
  rates->has = calloc(rows * rates->copies, sizeof(*rates->has));
  if (rates->rows == NULL || rates->cells == NULL || rates->has == NULL)
    return -ENOMEM;
  for (size_t r = 0; r < rows; r++) {
    rates->rows[r].cells = rates->cells + r * cells;
    rates->rows[r].has = rates->has + r * rates->copies;
  }
  return 0;
}

int rates_open(struct rates *rates, struct merge *merge, uint32_t table,
               const struct rates_options *options) {
  const struct region_directory *directory = merge_directory(merge);
  uint32_t rows = directory->tables[table].max_rows;
  uint32_t want = REGION_WANT_BIRTHS;
  *rates =
      (struct rates){.options = *options, .merge = merge, .interval_s = NAN};
  if (options->totals)
    want |= REGION_WANT_RESETS;
  /* If the table has only one row, and that row has fields without a total, the
   * values of all cores are always shown; as totals, those of each table. */
  if (options->per_core ||
      ((rows == 1 || options->totals) && !table_has_totals(directory, table)))
    want |= REGION_WANT_CORES;
  if (merge->is_one && options->rows > rows)
    rates->options.rows = rows;
  if (region_tile_init(&rates->tile, merge->parts[0].reader, table, TILE_ROWS,
                       want) != 0)
    return -errno;
  rates->copies = tile_copies(&rates->tile);
  int status = make_columns(rates, directory);
  if (status != 0)
    return status;
  rates_sort(rates, NULL, false);
  return make_rows(rates);
}

void rates_close(struct rates *rates) {
  region_tile_free(&rates->tile);
  free(rates->columns);
  free(rates->rows);
  free(rates->cells);
  free(rates->has);
  *rates = (struct rates){0};
}
