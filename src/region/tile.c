/* tile.c: reading cells, block by block, so that memory is walked in order. */
#include "percore_config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reader.h"
#include "view.h"

/* A region may claim 16384 cores and 4096 columns: its rows are then not read
 * core by core. */
enum { MAX_CORES_PER_ROW = 16 << 20, MAX_CORES_PER_TILE = 64 << 20 };

/* How many rows of all cores a tile may hold, at most capacity; 0: not even
 * one. */
static uint32_t limit_capacity(uint32_t capacity, uint64_t columns,
                               uint64_t cores) {
  uint64_t row = columns * cores * sizeof(uint64_t);
  if (row > MAX_CORES_PER_ROW)
    return 0;
  return capacity < MAX_CORES_PER_TILE / row
             ? capacity
             : (uint32_t)(MAX_CORES_PER_TILE / row);
}

int region_tile_init(struct region_tile *tile,
                     const struct region_reader *reader, uint32_t table,
                     uint32_t capacity, uint32_t want) {
  const struct region_directory *directory = region_reader_directory(reader);
  *tile = (struct region_tile){.table = table, .want = want};
  errno = ENODEV;
  if (directory == NULL || table >= directory->table_count)
    return -1;
  const struct region_table *record = &directory->tables[table];
  if (record->storage != PERCORE_PER_CORE)
    tile->want &= ~(uint32_t)REGION_WANT_CORES;
  if (capacity > record->max_rows)
    capacity = record->max_rows;
  if (tile->want & REGION_WANT_CORES)
    capacity =
        limit_capacity(capacity, record->columns, directory->header.core_count);
  errno = EFBIG;
  if (capacity == 0)
    return -1;
  tile->capacity = capacity;
  tile->columns = record->columns;
  tile->core_count = directory->header.core_count;
  size_t cells = (size_t)capacity * record->columns;
  tile->generations = calloc(capacity, sizeof(*tile->generations));
  tile->torn = calloc(capacity, 1);
  tile->totals = calloc(cells, sizeof(uint64_t));
  tile->births = calloc(cells, sizeof(uint64_t));
  tile->resets = calloc(cells, sizeof(uint64_t));
  tile->core_used = calloc(tile->core_count, 1);
  bool complete = tile->generations && tile->torn && tile->totals &&
                  tile->births && tile->resets && tile->core_used;
  if (tile->want & REGION_WANT_CORES) {
    tile->cores = calloc(cells * tile->core_count, sizeof(uint64_t));
    complete &= tile->cores != NULL;
  }
  if (complete)
    return 0;
  region_tile_free(tile);
  errno = ENOMEM;
  return -1;
}

void region_tile_free(struct region_tile *tile) {
  free(tile->generations);
  free(tile->torn);
  free(tile->totals);
  free(tile->births);
  free(tile->resets);
  free(tile->cores);
  free(tile->core_used);
  *tile = (struct region_tile){0};
}

/* ---------------------------------------------------------------------------
 * Cells of one copy
 */

/* Relaxed atomic loads are neither merged nor unrolled by compilers. */
static void load_cells(const uint64_t *cells, uint32_t from, uint32_t to,
                       uint64_t *values) {
  uint32_t c = from;
  for (; c + 4 <= to; c += 4) {
    values[c] = region_load(&cells[c]);
    values[c + 1] = region_load(&cells[c + 1]);
    values[c + 2] = region_load(&cells[c + 2]);
    values[c + 3] = region_load(&cells[c + 3]);
  }
  for (; c < to; c++)
    values[c] = region_load(&cells[c]);
}

/* Reads what one section updates together; false if the writer was inside one
 * at every try, and the values are as they came. */
static bool load_checked(const uint64_t *sequence, const uint64_t *cells,
                         uint32_t columns, uint64_t *values) {
  for (int i = 0; i < REGION_TRIES; i++) {
    /* Pairs with the store-release of percore_end. */
    uint64_t before = region_load_acquire(sequence);
    load_cells(cells, 0, columns, values);
    /* Pairs with the release fence of percore_begin. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (!(before & 1) && region_load(sequence) == before)
      return true;
  }
  return false;
}

/* A run of rows of one copy of a table. */
struct copy {
  const unsigned char *rows; /* of the first row wanted */
  const uint64_t *sequence;  /* of the slot; NULL for single copies */
  uint32_t count;            /* rows that are memory; others are 0 */
};

static struct copy single_copy(struct region_view *view, uint32_t t,
                               uint32_t first, uint32_t count) {
  const struct region_table *table = &view->directory.tables[t];
  uint64_t data = region_view_data(
      view, table->single_offset, ((uint64_t)first + count) * table->row_stride,
      &view->known[t].single);
  uint64_t rows = data / table->row_stride;
  return (struct copy){.rows = view->map + table->single_offset +
                               (uint64_t)first * table->row_stride,
                       .count = rows <= first ? 0
                                : rows - first < count
                                    ? (uint32_t)(rows - first)
                                    : count};
}

static struct copy slot_copy(struct region_view *view, uint32_t t, uint32_t s,
                             uint32_t first, uint32_t count) {
  const struct region_header *header = &view->directory.header;
  const struct region_table *table = &view->directory.tables[t];
  uint64_t block = header->blocks_offset + s * header->block_stride;
  uint64_t length = ((uint64_t)first + count) * table->row_stride;
  uint64_t *known = &view->slot_known[s * view->directory.table_count + t];
  /* The row of `core` lies in the head, which was looked at before. */
  uint64_t rows = t == 0 ? 1
                         : region_view_data(view, block + table->slot_offset,
                                            length, known) /
                               table->row_stride;
  return (struct copy){.rows = view->map + block + table->slot_offset +
                               (uint64_t)first * table->row_stride,
                       .sequence = region_view_words(view, block),
                       .count = rows <= first ? 0
                                : rows - first < count
                                    ? (uint32_t)(rows - first)
                                    : count};
}

/* One row of a copy. false if it is torn. */
static bool load_row(const struct region_view *view, uint32_t t,
                     const struct copy *copy, uint32_t i, uint64_t *values) {
  const struct region_table *table = &view->directory.tables[t];
  const uint64_t *words =
      (const void *)(copy->rows + (uint64_t)i * table->row_stride);
  const uint64_t *sequence = copy->sequence;
  uint32_t checked = view->checked_columns[t];
  bool whole = true;
  if (sequence == NULL && (table->flags & REGION_TABLE_CONSISTENT))
    sequence = words++;
  if (sequence != NULL)
    whole = load_checked(sequence, words, checked, values);
  else
    checked = 0;
  load_cells(words, checked, table->columns, values);
  return whole;
}

/* ---------------------------------------------------------------------------
 * Rows over all copies
 */

/* How a column that is set is one value over several slots. */
static uint64_t combine_levels(uint32_t aggregation, uint64_t so_far,
                               uint64_t value, bool first) {
  switch (aggregation) {
  case PERCORE_SUM:
    return so_far + value;
  case PERCORE_MIN:
    return first || value < so_far ? value : so_far;
  case PERCORE_MAX:
    return first || value > so_far ? value : so_far;
  default:
    return value;
  }
}

static void combine(const struct region_view *view, uint32_t t, uint64_t *into,
                    const uint64_t *values, bool first) {
  const struct region_table *table = &view->directory.tables[t];
  const struct region_field *fields =
      &view->directory.fields[table->first_field];
  if (view->all_sums[t]) {
    for (uint32_t c = 0; c < table->columns; c++)
      into[c] += values[c];
    return;
  }
  for (uint32_t f = 0; f < table->field_count; f++) {
    uint32_t kind = fields[f].kind, c = fields[f].column;
    if (kind == PERCORE_STATE)
      into[c] = values[c];
    else if (kind == PERCORE_LEVEL)
      into[c] =
          combine_levels(fields[f].aggregation, into[c], values[c], first);
    else
      for (uint32_t k = c; k < c + fields[f].cells; k++)
        into[k] += values[k];
  }
}

/* Rows first to first + count - 1 into the tile from place at on. */
static void read_slots(struct region_reader *reader, struct region_tile *tile,
                       uint32_t first, uint32_t count, uint32_t at) {
  struct region_view *view = &reader->view;
  uint64_t values[PERCORE_MAX_COLUMNS];
  bool any = false;
  memset(tile->core_used, 0, tile->core_count);
  for (uint32_t s = 0; s < view->directory.header.slot_count; s++) {
    struct region_slot_view slot;
    region_reader_slot(reader, s, &slot);
    if (slot.state == REGION_FREE)
      continue;
    struct copy copy = slot_copy(view, tile->table, s, first, count);
    uint8_t *used = &tile->core_used[slot.core];
    for (uint32_t i = 0; i < copy.count; i++) {
      size_t cell = (size_t)(at + i) * tile->columns;
      if (!load_row(view, tile->table, &copy, i, values))
        tile->torn[at + i] = 1;
      combine(view, tile->table, tile->totals + cell, values, !any);
      if (tile->want & REGION_WANT_CORES)
        combine(view, tile->table,
                tile->cores + cell +
                    (size_t)slot.core * tile->capacity * tile->columns,
                values, !*used);
    }
    any = true;
    *used = 1;
  }
}

/* Most rows of large tables are here: no sequence counter, one after another.
 */
static void read_plain(const struct copy *copy, uint32_t stride,
                       struct region_tile *tile, uint32_t at) {
  uint32_t columns = tile->columns;
  const unsigned char *row = copy->rows;
  uint64_t *into = tile->totals + (size_t)at * columns;
  for (uint32_t i = 0; i < copy->count; i++, row += stride, into += columns)
    load_cells((const uint64_t *)(const void *)row, 0, columns, into);
}

static void read_single(struct region_view *view, struct region_tile *tile,
                        uint32_t first, uint32_t count, uint32_t at) {
  const struct region_table *table = &view->directory.tables[tile->table];
  struct copy copy = single_copy(view, tile->table, first, count);
  if (!(table->flags & REGION_TABLE_CONSISTENT)) {
    read_plain(&copy, table->row_stride, tile, at);
    return;
  }
  for (uint32_t i = 0; i < copy.count; i++)
    if (!load_row(view, tile->table, &copy, i,
                  tile->totals + (size_t)(at + i) * tile->columns))
      tile->torn[at + i] = 1;
}

static void read_base(struct region_view *view, struct region_tile *tile,
                      uint64_t offset, uint64_t *known, uint64_t *into,
                      uint32_t first, uint32_t count, uint32_t at) {
  uint64_t row_size = 8ull * tile->columns;
  if (offset == 0)
    return;
  uint64_t data = region_view_data(view, offset,
                                   ((uint64_t)first + count) * row_size, known);
  for (uint32_t i = 0; i < count && (first + i + 1) * row_size <= data; i++)
    load_cells(region_view_words(view, offset + (first + i) * row_size), 0,
               tile->columns, into + (size_t)(at + i) * tile->columns);
}

/* Sums begin at 0; so do rows that are not memory. */
static void clear_rows(struct region_tile *tile, uint32_t at, uint32_t count) {
  size_t cell = (size_t)at * tile->columns;
  size_t size = (size_t)count * tile->columns * sizeof(uint64_t);
  memset(tile->totals + cell, 0, size);
  memset(tile->torn + at, 0, count);
  if (!(tile->want & REGION_WANT_CORES))
    return;
  for (uint32_t c = 0; c < tile->core_count; c++)
    memset(tile->cores + cell + (size_t)c * tile->capacity * tile->columns, 0,
           size);
}

static void read_rows(struct region_reader *reader, struct region_tile *tile,
                      uint32_t first, uint32_t count, uint32_t at) {
  struct region_view *view = &reader->view;
  const struct region_table *table = &view->directory.tables[tile->table];
  struct region_known *known = &view->known[tile->table];
  clear_rows(tile, at, count);
  read_single(view, tile, first, count, at);
  if (table->storage == PERCORE_PER_CORE)
    read_slots(reader, tile, first, count, at);
  if (tile->want & REGION_WANT_BIRTHS)
    read_base(view, tile, table->birth_offset, &known->births, tile->births,
              first, count, at);
  if (tile->want & REGION_WANT_RESETS)
    read_base(view, tile, table->reset_offset, &known->resets, tile->resets,
              first, count, at);
}

/* ---------------------------------------------------------------------------
 * Rows that stay the same object while they are read
 */

static const uint64_t *generation_of(const struct region_view *view,
                                     const struct region_table *table,
                                     uint32_t row) {
  return region_view_words(view, table->records_offset +
                                     (uint64_t)row * table->record_size);
}

/* A removed row is read as long as nobody else uses it. */
static bool is_object(uint64_t generation) {
  enum region_state state = region_state(generation);
  return state == REGION_LIVE || state == REGION_GONE;
}

static void read_again(struct region_reader *reader, struct region_tile *tile,
                       uint32_t i) {
  const struct region_view *view = &reader->view;
  const uint64_t *word = generation_of(
      view, &view->directory.tables[tile->table], tile->first_row + i);
  for (int k = 0; k < REGION_TRIES; k++) {
    uint64_t generation = region_load_acquire(word);
    tile->generations[i] = generation;
    if (!is_object(generation))
      continue;
    read_rows(reader, tile, tile->first_row + i, 1, i);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (region_load(word) == generation)
      return;
  }
  tile->generations[i] = 0;
}

void region_tile_read(struct region_reader *reader, struct region_tile *tile,
                      uint32_t first_row) {
  struct region_view *view = &reader->view;
  const struct region_table *table = &view->directory.tables[tile->table];
  uint32_t in_use = region_reader_rows(reader, tile->table);
  uint64_t data = region_view_data(view, table->records_offset,
                                   (uint64_t)in_use * table->record_size,
                                   &view->known[tile->table].records);
  if (in_use > data / table->record_size)
    in_use = (uint32_t)(data / table->record_size);
  tile->first_row = first_row;
  tile->rows = first_row < in_use ? in_use - first_row : 0;
  if (tile->rows > tile->capacity)
    tile->rows = tile->capacity;
  for (uint32_t i = 0; i < tile->rows; i++)
    tile->generations[i] =
        region_load_acquire(generation_of(view, table, first_row + i));
  if (tile->rows > 0)
    read_rows(reader, tile, first_row, tile->rows, 0);
  /* Pairs with the release fence after a generation word said changing. */
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < tile->rows; i++) {
    uint64_t now = region_load(generation_of(view, table, first_row + i));
    if (region_state(now) == REGION_FREE)
      tile->generations[i] = 0;
    else if (now != tile->generations[i] || !is_object(now))
      read_again(reader, tile, i);
  }
}

/* ---------------------------------------------------------------------------
 * One row
 */

static int read_copy(const struct region_view *view, uint32_t table,
                     const struct copy *copy, uint64_t *values) {
  if (copy->count == 0) {
    memset(values, 0, view->directory.tables[table].columns * 8);
    return 0;
  }
  return load_row(view, table, copy, 0, values) ? 0 : 1;
}

int region_reader_slot_row(struct region_reader *reader, uint32_t table,
                           uint32_t row, uint32_t s, uint64_t *values) {
  struct region_view *view = &reader->view;
  struct region_slot_view slot;
  errno = EINVAL;
  if (row >= region_reader_rows(reader, table) ||
      view->directory.tables[table].storage != PERCORE_PER_CORE)
    return -1;
  region_reader_slot(reader, s, &slot);
  errno = ENOENT;
  if (slot.state == REGION_FREE)
    return -1;
  struct copy copy = slot_copy(view, table, s, row, 1);
  return read_copy(view, table, &copy, values);
}

int region_reader_single_row(struct region_reader *reader, uint32_t table,
                             uint32_t row, uint64_t *values) {
  errno = EINVAL;
  if (row >= region_reader_rows(reader, table))
    return -1;
  struct copy copy = single_copy(&reader->view, table, row, 1);
  return read_copy(&reader->view, table, &copy, values);
}

uint64_t region_row_shown(const struct region_directory *directory,
                          const struct region_tile *tile, uint32_t row,
                          uint32_t column) {
  const struct region_table *table = &directory->tables[tile->table];
  size_t cell = (size_t)row * tile->columns + column;
  uint32_t f = 0;
  while (f + 1 < table->field_count &&
         directory->fields[table->first_field + f + 1].column <= column)
    f++;
  switch (directory->fields[table->first_field + f].kind) {
  case PERCORE_LEVEL:
  case PERCORE_STATE:
    return tile->totals[cell];
  case PERCORE_GAUGE:
    return tile->totals[cell] - tile->births[cell];
  default:
    return tile->totals[cell] - tile->resets[cell];
  }
}
