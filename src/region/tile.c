/* tile.c: reads the cells of consecutive rows from all copies. Reads each part
 * of the region in ascending order of addresses. */
#include "percore_config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "copy.h"
#include "reader.h"
#include "view.h"

/* Limits for per-core values, in bytes. A region may claim 16384 cores and 4096
 * columns; the per-core values of such long rows are not read. */
enum { MAX_CORES_PER_ROW = 16 << 20, MAX_CORES_PER_TILE = 64 << 20 };

/* Returns how many rows with each core's values a tile may hold, at most
 * `capacity`; 0 if not even one row fits. */
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
  if (directory == NULL || table >= directory->table_count)
    return region_failed(ENODEV);
  const struct region_table *record = &directory->tables[table];
  if (record->storage != PERCORE_PER_CORE)
    tile->want &= ~(uint32_t)REGION_WANT_CORES;
  if (capacity > record->max_rows)
    capacity = record->max_rows;
  if (tile->want & REGION_WANT_CORES)
    capacity =
        limit_capacity(capacity, record->columns, directory->header.core_count);
  if (capacity == 0)
    return region_failed(EFBIG);
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
  return region_failed(ENOMEM);
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
 * Combining the copies of rows
 */

/* Returns the combination of two values of a gauge. If `first`, so_far is the
 * value of the shared block, which only a sum includes. */
static uint64_t combine_levels(uint32_t aggregation, uint64_t so_far,
                               uint64_t value, bool first) {
  return first && aggregation != PERCORE_SUM
             ? value
             : region_combine_gauges(aggregation, so_far, value);
}

static void combine(const struct region_view *view, uint32_t t, uint64_t *into,
                    const uint64_t *values, bool first) {
  const struct region_table *table = &view->directory.tables[t];
  const struct region_field *fields =
      &view->directory.fields[table->first_field];
  if (view->known[t].all_sums) {
    for (uint32_t c = 0; c < table->columns; c++)
      into[c] += values[c];
    return;
  }
  for (uint32_t f = 0; f < table->field_count; f++) {
    uint32_t kind = fields[f].kind, c = fields[f].column;
    if (kind == PERCORE_STATE)
      into[c] = values[c];
    else if (kind == PERCORE_GAUGE)
      into[c] =
          combine_levels(fields[f].aggregation, into[c], values[c], first);
    else
      for (uint32_t k = c; k < c + fields[f].cells; k++)
        into[k] += values[k];
  }
}

/* Combines consecutive rows. */
static void combine_rows(const struct region_view *view, uint32_t t,
                         uint64_t *into, const uint64_t *values, uint32_t count,
                         bool first) {
  uint32_t columns = view->directory.tables[t].columns;
  if (view->known[t].all_sums) {
    for (size_t c = 0; c < (size_t)count * columns; c++)
      into[c] += values[c];
    return;
  }
  for (; count > 0; count--, into += columns, values += columns)
    combine(view, t, into, values, first);
}

/* CELLS_AT_ONCE: how many cells of a slot to load at once. The number is small
 * because a busy worker updates cells every 100 ns, and after an update they
 * must be loaded again row by row. SLOTS_AT_ONCE: how many slots to sum in
 * registers. Adding one slot after another to memory takes 0.73 ns instead of
 * 0.52 ns per cell of 16 slots. */
enum { CELLS_AT_ONCE = 256, SLOTS_AT_ONCE = 8 };

/* In cells: a cache line, and 1 KiB. */
enum { LINE = 8, NEAR = 128 };

/* The same rows in several slots. */
struct group {
  struct region_copy copies[SLOTS_AT_ONCE];
  int cores[SLOTS_AT_ONCE];
  bool first_of_core[SLOTS_AT_ONCE];
  uint32_t count; /* number of slots */
  uint32_t rows;  /* how many rows are backed by memory in each slot */
};

/* Sums consecutive cells of each copy, a cache line at a time: 0.66 ns per cell
 * with this prefetch, 0.73 ns with the prefetch of copy.c, and 0.82 ns without
 * a prefetch (16 slots). Returns false if a writer was inside a section during
 * the reads; the sums are then useless. */
static bool sum_copies(const struct group *group, size_t offset, size_t cells,
                       uint64_t *sums) {
  uint64_t before[SLOTS_AT_ONCE];
  const uint64_t *copies[SLOTS_AT_ONCE];
  for (uint32_t k = 0; k < group->count; k++) {
    before[k] = region_load_acquire(group->copies[k].sequence);
    if (before[k] & 1)
      return false;
    copies[k] = (const void *)(group->copies[k].rows + offset);
  }
  size_t c = 0;
  for (; c + LINE <= cells; c += LINE) {
    uint64_t s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0;
    for (uint32_t k = 0; k < group->count; k++) {
      const uint64_t *line = copies[k] + c;
      if (group->copies[k].end - line > NEAR)
        __builtin_prefetch(line + NEAR);
      s0 += region_load(&line[0]), s1 += region_load(&line[1]);
      s2 += region_load(&line[2]), s3 += region_load(&line[3]);
      s4 += region_load(&line[4]), s5 += region_load(&line[5]);
      s6 += region_load(&line[6]), s7 += region_load(&line[7]);
    }
    uint64_t line[LINE] = {s0, s1, s2, s3, s4, s5, s6, s7};
    memcpy(sums + c, line, sizeof(line));
  }
  for (; c < cells; c++) {
    sums[c] = 0;
    for (uint32_t k = 0; k < group->count; k++)
      sums[c] += region_load(&copies[k][c]);
  }
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  for (uint32_t k = 0; k < group->count; k++)
    if (region_load(group->copies[k].sequence) != before[k])
      return false;
  return true;
}

/* Adds rows of a group to the tile, one slot after another. This is slower than
 * sum_copies, but works for every table, and while writers are inside sections.
 */
static void add_each(const struct region_view *view, struct region_tile *tile,
                     const struct group *group, uint32_t i, uint32_t rows,
                     uint32_t at, bool first) {
  uint64_t values[MAX(CELLS_AT_ONCE, PERCORE_MAX_COLUMNS)];
  uint32_t t = tile->table;
  size_t cell = (size_t)(at + i) * tile->columns;
  size_t plane = (size_t)tile->capacity * tile->columns;
  for (uint32_t k = 0; k < group->count; k++, first = false) {
    region_copy_load_slot(view, t, &group->copies[k], i, rows, values,
                          tile->torn + at + i);
    combine_rows(view, t, tile->totals + cell, values, rows, first);
    if ((tile->want & REGION_WANT_CORES) && group->cores[k] >= 0)
      combine_rows(view, t,
                   tile->cores + cell + (size_t)group->cores[k] * plane, values,
                   rows, group->first_of_core[k]);
  }
}

/* Adds the rows of a group of slots to the tile, starting at the tile's row
 * `at`. Sums the slots together until a writer is found inside a section, and
 * reads the remaining rows slot by slot, because that writer would probably be
 * inside a section again at the next attempt. */
static void add_group(const struct region_view *view, struct region_tile *tile,
                      struct group *group, uint32_t at, bool first) {
  uint64_t sums[CELLS_AT_ONCE];
  const struct region_table *table = &view->directory.tables[tile->table];
  uint32_t columns = tile->columns;
  uint32_t rows_at_once = MAX(CELLS_AT_ONCE / columns, 1u);
  bool together =
      view->known[tile->table].all_sums && columns <= CELLS_AT_ONCE &&
      !(tile->want & REGION_WANT_CORES) && table->row_stride == 8 * columns;
  for (uint32_t i = 0; i < group->rows; i += rows_at_once) {
    uint32_t rows = MIN(rows_at_once, group->rows - i);
    size_t cell = (size_t)(at + i) * columns;
    together = together && sum_copies(group, (size_t)i * table->row_stride,
                                      rows * columns, sums);
    if (together)
      combine_rows(view, tile->table, tile->totals + cell, sums, rows, first);
    else
      add_each(view, tile, group, i, rows, at, first);
  }
  group->count = 0;
}

/* Adds rows first to first + count - 1 of all used slots to the tile, starting
 * at the tile's row `at`.
 */
static void read_slots(struct region_reader *reader, struct region_tile *tile,
                       uint32_t first, uint32_t count, uint32_t at) {
  struct region_view *view = &reader->view;
  struct group group = {.count = 0};
  bool any = false;
  memset(tile->core_used, 0, tile->core_count);
  for (uint32_t s = 0; s < view->directory.header.slot_count; s++) {
    int core;
    if (!region_reader_slot_is_used(reader, s, &core))
      continue;
    struct region_copy copy =
        region_copy_slot(view, tile->table, s, first, count, tile->in_use);
    if (group.count == SLOTS_AT_ONCE ||
        (group.count > 0 && group.rows != copy.count)) {
      add_group(view, tile, &group, at, !any);
      any = true;
    }
    group.rows = copy.count;
    group.copies[group.count] = copy;
    group.first_of_core[group.count] = core >= 0 && !tile->core_used[core];
    group.cores[group.count++] = core;
    if (core >= 0)
      tile->core_used[core] = 1;
  }
  add_group(view, tile, &group, at, !any);
}

/* Clears rows first to end - 1. Usually there are none, and a memset of 0 bytes
 * can still take 100 ns if the page has never been touched. */
static void clear_rows(uint64_t *rows, size_t first, size_t end,
                       uint32_t columns) {
  if (first < end)
    memset(rows + first * columns, 0, (end - first) * columns * sizeof(*rows));
}

/* Reads the shared block or the single copy into the tile; rows that are not
 * backed by memory become 0. */
static void read_single(struct region_view *view, struct region_tile *tile,
                        uint32_t first, uint32_t count, uint32_t at) {
  struct region_copy copy =
      region_copy_single(view, tile->table, first, count, tile->in_use);
  uint64_t *into = tile->totals + (size_t)at * tile->columns;
  memset(tile->torn + at, 0, count);
  region_copy_load_single(view, tile->table, &copy, into, tile->torn + at);
  clear_rows(into, copy.count, count, tile->columns);
}

static void read_base(struct region_view *view, struct region_tile *tile,
                      uint64_t offset, uint64_t *known, uint64_t *into,
                      uint32_t first, uint32_t count, uint32_t at) {
  uint64_t row_size = 8ull * tile->columns;
  if (offset == 0)
    return;
  size_t known_rows =
      region_view_rows(view, offset, row_size, first, count, known);
  into += (size_t)at * tile->columns;
  region_load_cells(region_view_words(view, offset + first * row_size),
                    known_rows * tile->columns,
                    region_view_words(view, offset + tile->in_use * row_size),
                    into);
  clear_rows(into, known_rows, count, tile->columns);
}

static void clear_cores(struct region_tile *tile, uint32_t at, uint32_t count) {
  size_t cell = (size_t)at * tile->columns;
  for (uint32_t c = 0; c < tile->core_count; c++)
    memset(tile->cores + cell + (size_t)c * tile->capacity * tile->columns, 0,
           (size_t)count * tile->columns * sizeof(*tile->cores));
}

static void read_rows(struct region_reader *reader, struct region_tile *tile,
                      uint32_t first, uint32_t count, uint32_t at) {
  struct region_view *view = &reader->view;
  const struct region_table *table = &view->directory.tables[tile->table];
  struct region_known *known = &view->known[tile->table];
  if (tile->want & REGION_WANT_CORES)
    clear_cores(tile, at, count);
  read_single(view, tile, first, count, at);
  if (table->storage == PERCORE_PER_CORE)
    read_slots(reader, tile, first, count, at);
  if (tile->want & REGION_WANT_BIRTHS)
    read_base(view, tile, table->birth_offset, &known->births, tile->births,
              first, count, at);
  bool resets = table->reset_offset != 0;
  if (tile->want & REGION_WANT_RESETS)
    read_base(view, tile, resets ? table->reset_offset : table->birth_offset,
              resets ? &known->resets : &known->births, tile->resets, first,
              count, at);
}

/* ---------------------------------------------------------------------------
 * Rows that belong to one object while they are read
 */

/* True if the row belongs to an object, which may have been removed. In a table
 * without births, the counts of a row's second object cannot be told from those
 * of the first. */
static bool is_object(const struct region_table *table, uint64_t generation) {
  enum region_state state = region_state(generation);
  return (state == REGION_LIVE || state == REGION_GONE) &&
         (table->birth_offset != 0 || region_incarnation(generation) <= 1);
}

/* How many copies of rows may be read again for one tile, in addition to the
 * attempts that each row is allowed. Without this limit, a producer that keeps
 * changing all rows could delay a reader for minutes. */
enum { COPIES_AGAIN = 8192 };

static uint32_t limit_tries(const struct region_reader *reader,
                            const struct region_table *table) {
  uint32_t slots = table->storage == PERCORE_PER_CORE
                       ? reader->view.directory.header.slot_count
                       : 0;
  return REGION_TRIES + COPIES_AGAIN / (1 + slots);
}

static void read_again(struct region_reader *reader, struct region_tile *tile,
                       uint32_t i, uint32_t *tries) {
  const struct region_table *table =
      &reader->view.directory.tables[tile->table];
  const uint64_t *word =
      region_view_generations(&reader->view, tile->table) + tile->first_row + i;
  for (int k = 0; *tries > 0 && k < REGION_TRIES; k++, --*tries) {
    uint64_t generation = region_load(word);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    tile->generations[i] = generation;
    if (!is_object(table, generation))
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
  const struct region_table *table =
      &reader->view.directory.tables[tile->table];
  uint32_t in_use = region_rows_with_generations(reader, tile->table);
  tile->in_use = in_use;
  tile->first_row = first_row;
  tile->rows = first_row < in_use ? in_use - first_row : 0;
  if (tile->rows > tile->capacity)
    tile->rows = tile->capacity;
  const uint64_t *all = region_view_generations(&reader->view, tile->table);
  const uint64_t *words = all + first_row;
  uint64_t *generations = tile->generations;
  uint32_t rows = tile->rows;
  region_load_cells(words, rows, all + in_use, generations);
  /* Pairs with the store-release that ended the previous change. */
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (rows > 0)
    read_rows(reader, tile, first_row, rows, 0);
  /* Pairs with the release fence after a generation word became CHANGING. */
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  uint32_t tries = limit_tries(reader, table);
  for (uint32_t i = 0; i < rows; i++) {
    uint64_t now = region_load(&words[i]);
    if (now == generations[i] && is_object(table, now))
      continue;
    if (region_state(now) == REGION_FREE)
      generations[i] = 0;
    else
      read_again(reader, tile, i, &tries);
  }
}

/* ---------------------------------------------------------------------------
 * One row
 */

static int read_copy(const struct region_view *view, uint32_t table,
                     const struct region_copy *copy, uint64_t *values) {
  if (copy->count == 0) {
    memset(values, 0, view->directory.tables[table].columns * 8);
    return 0;
  }
  return region_copy_load_row(view, table, copy, 0, values) ? 0 : 1;
}

int region_reader_slot_row(struct region_reader *reader, uint32_t table,
                           uint32_t row, uint32_t s, uint64_t *values) {
  struct region_view *view = &reader->view;
  int core;
  if (row >= region_reader_rows(reader, table) ||
      view->directory.tables[table].storage != PERCORE_PER_CORE)
    return region_failed(EINVAL);
  if (!region_reader_slot_is_used(reader, s, &core))
    return region_failed(ENOENT);
  struct region_copy copy = region_copy_slot(view, table, s, row, 1, 0);
  return read_copy(view, table, &copy, values);
}

int region_reader_single_row(struct region_reader *reader, uint32_t table,
                             uint32_t row, uint64_t *values) {
  if (row >= region_reader_rows(reader, table))
    return region_failed(EINVAL);
  struct region_copy copy = region_copy_single(&reader->view, table, row, 1, 0);
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
  case PERCORE_GAUGE:
  case PERCORE_STATE:
    return tile->totals[cell];
  case PERCORE_UPDOWN:
    return tile->totals[cell] - tile->births[cell];
  default:
    return tile->totals[cell] - tile->resets[cell];
  }
}
