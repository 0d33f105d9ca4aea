#include "rates.h"

#include "base/array.h"
#include "values.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The cells of every row at the last read, and the tile of the current read. */
struct rates_past {
  struct region_tile tile;
  bool was_read;
  uint64_t read_ns;
  uint32_t rows;          /* that there is room for */
  uint32_t *incarnations; /* 0: no row */
  uint64_t *cells;        /* [row][column] */
  uint64_t *cores;        /* [row][core][column]; NULL if not wanted */
  uint64_t *deltas;       /* changes of one histogram's buckets */
};

/* ---------------------------------------------------------------------------
 * Columns
 */

static const double shown_quantiles[] = {0.5, 0.99, 1};

static void add_column(struct rates *rates, struct field_ref field, uint32_t f,
                       enum rate_kind kind, double q) {
  struct rate_column *column = &rates->columns[rates->columns_len++];
  const char *quantile = NULL;
  for (int i = 0; kind == RATE_QUANTILE && i < QUANTILES; i++)
    if (quantiles[i].q == q)
      quantile = quantiles[i].name;
  *column = (struct rate_column){.field = f, .kind = kind, .q = q};
  snprintf(column->title, sizeof(column->title), "%s%s%s",
           field.described->name, quantile != NULL ? "_" : "",
           quantile != NULL ? quantile : "");
}

static int make_columns(struct rates *rates,
                        const struct region_directory *directory) {
  static const enum rate_kind kinds[] = {[PERCORE_COUNTER] = RATE_PER_SECOND,
                                         [PERCORE_GAUGE] = RATE_VALUE,
                                         [PERCORE_LEVEL] = RATE_VALUE,
                                         [PERCORE_STATE] = RATE_STATE,
                                         [PERCORE_HISTOGRAM] = RATE_PER_SECOND};
  enum { COUNT = sizeof(shown_quantiles) / sizeof(shown_quantiles[0]) };
  uint32_t fields = directory->tables[rates->table].field_count;
  rates->columns =
      calloc((size_t)fields * (1 + COUNT), sizeof(*rates->columns));
  if (rates->columns == NULL)
    return -ENOMEM;
  for (uint32_t f = 0; f < fields; f++) {
    struct field_ref field = field_of(directory, rates->table, f);
    add_column(rates, field, f, kinds[field.layout->kind], 0);
    for (int i = 0; field.layout->kind == PERCORE_HISTOGRAM && i < COUNT; i++)
      add_column(rates, field, f, RATE_QUANTILE, shown_quantiles[i]);
  }
  return 0;
}

static int find_sort_column(struct rates *rates, const char *sort) {
  rates->sort_column = 0;
  for (size_t c = rates->columns_len; c-- > 0;)
    if (sort != NULL ? strcmp(rates->columns[c].title, sort) == 0
                     : rates->columns[c].kind == RATE_PER_SECOND)
      rates->sort_column = (int)c;
  if (sort == NULL)
    return 0;
  if (strcmp(sort, "row") == 0)
    rates->sort_column = -1;
  else if (strcmp(rates->columns[rates->sort_column].title, sort) != 0)
    return -ENOENT;
  return 0;
}

void rates_sort(struct rates *rates, const char *title, bool least) {
  bool is_ours = title != NULL && find_sort_column(rates, title) == 0;
  if (!is_ours)
    find_sort_column(rates, rates->options.sort);
  rates->sort_asked = is_ours || least || rates->options.sort != NULL;
  rates->sort_least = least;
}

/* ---------------------------------------------------------------------------
 * One value
 */

/* The cells of one copy of a row: now, at the last read, and at its birth. */
struct copy {
  const uint64_t *now;
  const uint64_t *before; /* NULL: unknown */
  const uint64_t *births; /* NULL: all 0 */
};

static double per_second(const struct rates *rates, uint64_t delta) {
  return (int64_t)delta < 0 ? NAN : (double)delta / rates->interval_s;
}

static double histogram_value(const struct rates *rates,
                              const struct rate_column *column,
                              const struct region_field *field,
                              const struct copy *copy) {
  uint64_t *deltas = rates->past->deltas, count = 0;
  for (uint32_t b = 0; b < field->cells; b++) {
    deltas[b] = copy->now[field->column + b] - copy->before[field->column + b];
    if ((int64_t)deltas[b] < 0)
      return NAN;
    count += deltas[b];
  }
  if (column->kind == RATE_PER_SECOND)
    return per_second(rates, count);
  double value = region_histogram_quantile(field->sub_bits, deltas,
                                           field->cells, column->q);
  return value < 0 ? NAN : value;
}

static double value_of(const struct rates *rates,
                       const struct region_directory *directory,
                       const struct rate_column *column,
                       const struct copy *copy) {
  struct field_ref field = field_of(directory, rates->table, column->field);
  uint32_t c = field.layout->column;
  uint64_t birth = copy->births != NULL ? copy->births[c] : 0;
  if (field.layout->kind == PERCORE_GAUGE)
    return (double)(int64_t)(copy->now[c] - birth);
  if (column->kind == RATE_VALUE || column->kind == RATE_STATE)
    return (double)copy->now[c];
  if (copy->before == NULL)
    return NAN;
  if (field.layout->kind == PERCORE_HISTOGRAM)
    return histogram_value(rates, column, field.layout, copy);
  return per_second(rates, copy->now[c] - copy->before[c]);
}

/* ---------------------------------------------------------------------------
 * One row
 */

/* A row that holds another object than at the last read was added since, and
 * has counted from its birth; at the first read nothing is known. */
static struct copy total_copy(const struct rates *rates, uint32_t i) {
  const struct rates_past *past = rates->past;
  const struct region_tile *tile = &past->tile;
  size_t at = (size_t)i * tile->columns;
  uint32_t row = tile->first_row + i;
  struct copy copy = {.now = tile->totals + at, .births = tile->births + at};
  if (!past->was_read)
    return copy;
  copy.before =
      past->incarnations[row] == region_incarnation(tile->generations[i])
          ? past->cells + (size_t)row * tile->columns
          : copy.births;
  return copy;
}

/* Copies of single cores have no births: only the first object of a row begins
 * at 0. */
static struct copy core_copy(const struct rates *rates, uint32_t i,
                             uint32_t core) {
  static const uint64_t zeros[PERCORE_MAX_COLUMNS];
  const struct rates_past *past = rates->past;
  const struct region_tile *tile = &past->tile;
  uint32_t row = tile->first_row + i;
  uint32_t incarnation = region_incarnation(tile->generations[i]);
  size_t columns = tile->columns;
  struct copy copy = {.now = tile->cores + i * columns +
                             core * (size_t)tile->capacity * columns};
  if (past->was_read && past->incarnations[row] == incarnation)
    copy.before =
        past->cores + ((size_t)row * tile->core_count + core) * columns;
  else if (past->was_read && incarnation <= 1)
    copy.before = zeros;
  return copy;
}

static double key_of(const struct rates *rates,
                     const struct region_directory *directory, uint32_t i) {
  if (rates->sort_column < 0)
    return (rates->sort_least ? 1 : -1) *
           (double)(rates->past->tile.first_row + i);
  struct copy copy = total_copy(rates, i);
  double key =
      value_of(rates, directory, &rates->columns[rates->sort_column], &copy);
  return isnan(key) ? -1e300 : rates->sort_least ? -key : key;
}

static void fill_row(struct rates *rates,
                     const struct region_directory *directory,
                     struct rate_row *row, uint32_t i) {
  size_t columns = rates->columns_len;
  struct copy copy = total_copy(rates, i);
  for (size_t c = 0; c < columns; c++)
    row->values[c] =
        field_has_total(directory, rates->table, rates->columns[c].field)
            ? value_of(rates, directory, &rates->columns[c], &copy)
            : NAN;
  for (uint32_t core = 0; row->cores != NULL && core < rates->core_count;
       core++) {
    copy = core_copy(rates, i, core);
    for (size_t c = 0; c < columns; c++)
      row->cores[core * columns + c] =
          value_of(rates, directory, &rates->columns[c], &copy);
  }
}

/* ---------------------------------------------------------------------------
 * The rows with the largest keys: a heap whose top is the smallest of them
 */

static bool comes_before(const struct rate_row *a, const struct rate_row *b) {
  return a->key != b->key ? a->key > b->key : a->row < b->row;
}

static void swap_rows(struct rate_row *a, struct rate_row *b) {
  struct rate_row kept = *a;
  *a = *b;
  *b = kept;
}

static void sift_down(struct rate_row *heap, size_t count, size_t at) {
  for (size_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && comes_before(&heap[child], &heap[child + 1]))
      child++;
    if (!comes_before(&heap[at], &heap[child]))
      return;
    swap_rows(&heap[at], &heap[child]);
  }
}

static void sift_up(struct rate_row *heap, size_t at) {
  for (; at > 0 && comes_before(&heap[(at - 1) / 2], &heap[at]);
       at = (at - 1) / 2)
    swap_rows(&heap[(at - 1) / 2], &heap[at]);
}

/* Returns where to keep a row with this key; NULL if it is not kept. */
static struct rate_row *place_for(struct rates *rates, double key,
                                  uint32_t row) {
  struct rate_row wanted = {.key = key, .row = row};
  if (rates->rows_len < rates->options.rows)
    return &rates->rows[rates->rows_len];
  return comes_before(&wanted, &rates->rows[0]) ? &rates->rows[0] : NULL;
}

static void keep(struct rates *rates, const struct rate_row *row) {
  if (row == &rates->rows[rates->rows_len])
    sift_up(rates->rows, rates->rows_len++);
  else
    sift_down(rates->rows, rates->rows_len, 0);
}

static void sort_heap(struct rates *rates) {
  for (size_t count = rates->rows_len; count > 1; count--) {
    swap_rows(&rates->rows[0], &rates->rows[count - 1]);
    sift_down(rates->rows, count - 1, 0);
  }
}

/* ---------------------------------------------------------------------------
 * Reading
 */

static void take_row(struct rates *rates, struct region_reader *reader,
                     uint32_t i) {
  const struct region_directory *directory = region_reader_directory(reader);
  const struct region_tile *tile = &rates->past->tile;
  if (region_state(tile->generations[i]) != REGION_LIVE)
    return;
  rates->rows_live++;
  double key = key_of(rates, directory, i);
  struct rate_row *row = place_for(rates, key, tile->first_row + i);
  if (row == NULL ||
      !region_reader_row_name(reader, tile->table, tile->first_row + i,
                              tile->generations[i], row->name))
    return;
  row->key = key;
  row->row = tile->first_row + i;
  fill_row(rates, directory, row, i);
  keep(rates, row);
}

static void remember(struct rates *rates) {
  struct rates_past *past = rates->past;
  const struct region_tile *tile = &past->tile;
  size_t columns = tile->columns, size = columns * sizeof(uint64_t);
  for (uint32_t i = 0; i < tile->rows; i++) {
    size_t row = tile->first_row + i;
    past->incarnations[row] = region_incarnation(tile->generations[i]);
    memcpy(past->cells + row * columns, tile->totals + i * columns, size);
    for (uint32_t core = 0; past->cores != NULL && core < tile->core_count;
         core++)
      memcpy(past->cores + (row * tile->core_count + core) * columns,
             tile->cores + i * columns +
                 core * (size_t)tile->capacity * columns,
             size);
  }
}

static int make_room(struct rates *rates, uint32_t rows) {
  struct rates_past *past = rates->past;
  size_t row_size = past->tile.columns * sizeof(uint64_t);
  if (rows <= past->rows)
    return 0;
  uint64_t copies = 1 + (rates->options.per_core ? past->tile.core_count : 0u);
  if (rows * copies * row_size > rates->options.bytes_most)
    return -EFBIG;
  uint32_t larger = rows < past->rows * 2 ? past->rows * 2 : rows;
  size_t core_row_size = past->tile.core_count * row_size;
  if (!array_grow(&past->incarnations, past->rows, larger,
                  sizeof(*past->incarnations)) ||
      !array_resize(&past->cells, larger, row_size) ||
      (rates->options.per_core &&
       !array_resize(&past->cores, larger, core_row_size)))
    return -ENOMEM;
  past->rows = larger;
  return 0;
}

int rates_read(struct rates *rates, struct region_reader *reader,
               uint64_t now_ns) {
  struct rates_past *past = rates->past;
  rates->rows_len = 0;
  rates->rows_live = 0;
  rates->interval_s =
      past->was_read ? (double)(now_ns - past->read_ns) / 1e9 : NAN;
  for (uint32_t first = 0;; first += past->tile.rows) {
    region_tile_read(reader, &past->tile, first);
    if (past->tile.rows == 0)
      break;
    int status = make_room(rates, first + past->tile.rows);
    if (status != 0)
      return status;
    for (uint32_t i = 0; i < past->tile.rows; i++)
      take_row(rates, reader, i);
    remember(rates);
    memcpy(rates->core_used, past->tile.core_used, rates->core_count);
  }
  past->was_read = true;
  past->read_ns = now_ns;
  sort_heap(rates);
  return 0;
}

/* ---------------------------------------------------------------------------
 * Beginning and end
 */

static int make_rows(struct rates *rates) {
  size_t columns = rates->columns_len;
  rates->rows = calloc(rates->options.rows, sizeof(*rates->rows));
  if (rates->rows == NULL)
    return -ENOMEM;
  for (size_t r = 0; r < rates->options.rows; r++) {
    struct rate_row *row = &rates->rows[r];
    row->values = calloc(columns, sizeof(double));
    if (rates->options.per_core)
      row->cores = calloc(columns * rates->core_count, sizeof(double));
    if (row->values == NULL || (rates->options.per_core && row->cores == NULL))
      return -ENOMEM;
  }
  return 0;
}

/* If the only row has fields without a total, the cores are always shown. */
static bool wants_cores(const struct rates *rates,
                        const struct region_directory *directory) {
  const struct region_table *table = &directory->tables[rates->table];
  bool wanted = rates->options.per_core;
  for (uint32_t f = 0; f < table->field_count && table->max_rows == 1; f++)
    wanted |= !field_has_total(directory, rates->table, f);
  return wanted && table->storage == PERCORE_PER_CORE;
}

static int open_all(struct rates *rates, struct region_reader *reader) {
  const struct region_directory *directory = region_reader_directory(reader);
  const struct region_table *table = &directory->tables[rates->table];
  int status = make_columns(rates, directory);
  if (status == 0)
    status = find_sort_column(rates, rates->options.sort);
  if (status != 0)
    return status;
  rates->sort_asked = rates->options.sort != NULL;
  rates->options.per_core = wants_cores(rates, directory);
  if (rates->options.rows > table->max_rows)
    rates->options.rows = table->max_rows;
  rates->core_count = directory->header.core_count;
  rates->core_used = calloc(rates->core_count, 1);
  rates->past = calloc(1, sizeof(*rates->past));
  if (rates->core_used == NULL || rates->past == NULL)
    return -ENOMEM;
  rates->past->deltas = calloc(table->columns, sizeof(uint64_t));
  uint32_t want =
      REGION_WANT_BIRTHS | (rates->options.per_core ? REGION_WANT_CORES : 0);
  if (rates->past->deltas == NULL ||
      region_tile_init(
          &rates->past->tile, reader, rates->table,
          rows_per_tile(directory, rates->table, rates->options.per_core),
          want) != 0)
    return -ENOMEM;
  return make_rows(rates);
}

int rates_open(struct rates *rates, struct region_reader *reader,
               uint32_t table, const struct rates_options *options) {
  *rates = (struct rates){.table = table, .options = *options};
  int status = open_all(rates, reader);
  if (status != 0)
    rates_close(rates);
  return status;
}

void rates_close(struct rates *rates) {
  for (size_t r = 0; rates->rows != NULL && r < rates->options.rows; r++) {
    free(rates->rows[r].values);
    free(rates->rows[r].cores);
  }
  if (rates->past != NULL) {
    region_tile_free(&rates->past->tile);
    free(rates->past->incarnations);
    free(rates->past->cells);
    free(rates->past->cores);
    free(rates->past->deltas);
  }
  free(rates->past);
  free(rates->rows);
  free(rates->columns);
  free(rates->core_used);
  *rates = (struct rates){0};
}
