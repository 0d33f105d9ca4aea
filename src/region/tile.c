/* tile.c: reads the cells of consecutive rows from all copies. Reads each part
 * of the region in ascending order of addresses. */
#include "percore_config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "view.h"

/* Limits for per-core values, in bytes. A region may claim 16384 cores and 4096
 * columns; the per-core values of such long rows are not read. */
enum { MAX_CORES_PER_ROW = 16 << 20, MAX_CORES_PER_TILE = 64 << 20 };

/* How many cells of a slot to load at once. The number is small because a busy
 * worker updates cells every 100 ns, and after an update they must be loaded
 * again row by row. */
enum { CELLS_AT_ONCE = 256 };

/* How many cells a tile holds so that it stays in the first-level cache: 8 KiB,
 * or 32 KiB if slots are read. With these sizes, reading a cell takes 0.7 ns (4
 * columns per row), 0.5 ns (16 columns) and 0.5 ns (16 slots). With tiles of 1
 * MiB it takes 1.3, 0.8 and 0.7 ns (tests/bench/region_reads). */
enum { TILE_CELLS = 1024, TILE_CELLS_PER_CORE = 4096 };

/* Both, of a file that is not mapped, of which each load is a system call. */
enum { CELLS_PER_CALL = 8192 };

/* With the values of cores, a tile has at least LEAST_ROWS rows, unless these
 * take more than CORES_CELLS: with fewer, reading slot by slot is slower. */
enum { LEAST_ROWS = 16, CORES_CELLS = 1 << 17 };

/* A cache line, in cells and in bytes. */
enum { LINE = 8, LINE_SIZE = 64 };

static bool is_mapped(const struct region_reader *reader) {
  return region_view_place(&reader->view, 0) != NULL;
}

uint32_t region_tile_rows(const struct region_reader *reader, uint32_t table,
                          uint32_t copies) {
  const struct region_table *record = &reader->view.directory.tables[table];
  uint64_t row = (uint64_t)record->columns * copies;
  uint64_t cells = !is_mapped(reader)                    ? CELLS_PER_CALL
                   : record->storage == PERCORE_PER_CORE ? TILE_CELLS_PER_CORE
                                                         : TILE_CELLS;
  uint64_t few = MIN((uint64_t)LEAST_ROWS, CORES_CELLS / row);
  return (uint32_t)MAX(1, MAX(cells / row, few));
}

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

/* Returns how many words take the cache lines of `count` words. */
static size_t in_lines(size_t count) {
  return (count + LINE - 1) / LINE * LINE;
}

/* Gives the tile zeroed arrays, in the memory that it has or in new memory.
 * They begin with a cache line, as arrays of regions usually do, so that view.c
 * need not move what it reads. */
static bool make_arrays(struct region_tile *tile) {
  size_t rows = in_lines(tile->capacity);
  size_t plane = (size_t)tile->capacity * tile->columns,
         cells = in_lines(plane);
  size_t cores = tile->want & REGION_WANT_CORES ? tile->core_count : 0;
  size_t scratch = in_lines(MAX(tile->cells_at_once, tile->columns));
  size_t words = 2 * rows + 3 * cells + scratch + cores * plane;
  size_t size = words * sizeof(uint64_t) + rows + tile->core_count;
  size = (size + LINE_SIZE - 1) / LINE_SIZE * LINE_SIZE;
  if (size > tile->size) {
    free(tile->memory);
    tile->memory = aligned_alloc(LINE_SIZE, size);
    tile->size = tile->memory != NULL ? size : 0;
    if (tile->memory == NULL)
      return false;
  }
  memset(tile->memory, 0, size);
  tile->generations = tile->memory;
  tile->again = tile->generations + rows;
  tile->totals = tile->again + rows;
  tile->births = tile->totals + cells;
  tile->resets = tile->births + cells;
  tile->values = tile->resets + cells;
  tile->cores = cores > 0 ? tile->values + scratch : NULL;
  tile->torn = (uint8_t *)(tile->generations + words);
  tile->core_used = tile->torn + rows;
  return true;
}

int region_tile_reuse(struct region_tile *tile,
                      const struct region_reader *reader, uint32_t table,
                      uint32_t capacity, uint32_t want) {
  const struct region_directory *directory = region_reader_directory(reader);
  const struct region_table *record = &directory->tables[table];
  if (record->storage != PERCORE_PER_CORE)
    want &= ~(uint32_t)REGION_WANT_CORES;
  if (capacity > record->max_rows)
    capacity = record->max_rows;
  if (want & REGION_WANT_CORES)
    capacity =
        limit_capacity(capacity, record->columns, directory->header.core_count);
  if (capacity == 0)
    return region_failed(EFBIG);
  tile->table = table;
  tile->want = want;
  tile->capacity = capacity;
  tile->columns = record->columns;
  tile->core_count = directory->header.core_count;
  tile->cells_at_once = is_mapped(reader) ? CELLS_AT_ONCE : CELLS_PER_CALL;
  if (make_arrays(tile))
    return 0;
  *tile = (struct region_tile){0};
  return region_failed(ENOMEM);
}

int region_tile_init(struct region_tile *tile,
                     const struct region_reader *reader, uint32_t table,
                     uint32_t capacity, uint32_t want) {
  *tile = (struct region_tile){0};
  return region_tile_reuse(tile, reader, table, capacity, want);
}

bool region_tile_resize(struct region_tile *tile, uint32_t rows) {
  tile->capacity = rows;
  return make_arrays(tile);
}

void region_tile_free(struct region_tile *tile) {
  free(tile->memory);
  *tile = (struct region_tile){0};
}

/* ---------------------------------------------------------------------------
 * Combining the copies of rows
 */

/* Combines consecutive rows. Gauges and states are those of a thread: what it
 * leaves in its slot does not count, and what the shared block has, which the
 * `first` of them finds there, only in sums. */
static void combine(const struct region_view *view, uint32_t t, uint64_t *into,
                    const uint64_t *values, uint32_t count, bool is_live,
                    bool first) {
  const struct region_table *table = &view->directory.tables[t];
  const struct region_field *fields =
      &view->directory.fields[table->first_field];
  uint32_t columns = table->columns;
  if (view->known[t].all_sums) {
    for (size_t c = 0; c < (size_t)count * columns; c++)
      into[c] += values[c];
    return;
  }
  for (; count > 0; count--, into += columns, values += columns)
    for (uint32_t f = 0; f < table->field_count; f++) {
      uint32_t kind = fields[f].kind, c = fields[f].column;
      uint32_t aggregation = fields[f].aggregation;
      if (kind != PERCORE_STATE && kind != PERCORE_GAUGE)
        for (uint32_t k = c; k < c + fields[f].cells; k++)
          into[k] += values[k];
      else if (is_live)
        into[c] = kind == PERCORE_STATE || (first && aggregation != PERCORE_SUM)
                      ? values[c]
                      : region_combine_gauges(aggregation, into[c], values[c]);
    }
}

/* ---------------------------------------------------------------------------
 * Copies: the single copy of a table (or its shared block), or that in a slot
 */

struct copy {
  uint64_t rows;     /* offset of row 0 */
  uint64_t ahead;    /* end of the rows that will be read soon */
  uint64_t sequence; /* offset of the slot's sequence counter; 0: none */
  int core;          /* -1: no core */
  bool is_live;      /* of a slot that a thread holds */
  /* The first of those, of all and of the core. */
  bool first, first_of_core;
};

static struct copy copy_at(const struct region_table *table, uint64_t rows,
                           uint64_t sequence, uint32_t in_use) {
  return (struct copy){.rows = rows,
                       .ahead = rows + (uint64_t)in_use * table->row_stride,
                       .sequence = sequence,
                       .core = -1};
}

static struct copy slot_copy(const struct region_view *view,
                             const struct region_table *table, uint32_t s,
                             uint32_t in_use) {
  uint64_t block = region_view_block(view, s);
  return copy_at(table, block + table->slot_offset, block, in_use);
}

/* Loads cells that one section may update together. Returns false if the writer
 * was inside a section at every attempt; the values may then be from different
 * moments. */
static bool load_checked(struct region_view *view, uint64_t sequence,
                         uint64_t cells, size_t count, uint64_t ahead,
                         uint64_t *values) {
  for (int i = 0; i < REGION_TRIES; i++) {
    /* Pairs with the store-release of percore_end. */
    uint64_t before = region_view_word(view, sequence);
    region_view_load(view, cells, count, ahead, values);
    /* Pairs with the release fence of percore_begin. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (!(before & 1) && region_view_word(view, sequence) == before)
      return true;
  }
  return false;
}

/* Loads one row. A sequence counter must protect it: its own, or that of its
 * slot. Returns false if the row may contain cells of different moments. */
static bool load_row(struct region_view *view, uint32_t t,
                     const struct copy *copy, uint32_t row, uint64_t *values) {
  const struct region_table *table = &view->directory.tables[t];
  uint64_t cells = copy->rows + (uint64_t)row * table->row_stride;
  uint64_t sequence = copy->sequence;
  uint32_t checked = view->known[t].checked_columns;
  if (sequence == 0) {
    sequence = cells;
    cells += 8;
  }
  bool whole =
      load_checked(view, sequence, cells, checked, copy->ahead, values);
  region_view_load(view, cells + 8ull * checked, table->columns - checked,
                   copy->ahead, values + checked);
  return whole;
}

/* Loads rows without checking for sections. */
static void load_rows(struct region_view *view, uint32_t t,
                      const struct copy *copy, uint32_t first, uint32_t count,
                      uint64_t *values) {
  const struct region_table *table = &view->directory.tables[t];
  uint64_t row = copy->rows + (uint64_t)first * table->row_stride;
  uint32_t columns = table->columns;
  if (table->row_stride == 8 * columns) {
    region_view_load(view, row, (size_t)count * columns, copy->ahead, values);
    return;
  }
  for (; count > 0; count--, row += table->row_stride, values += columns)
    region_view_load(view, row, columns, copy->ahead, values);
}

/* Loads rows, and sets torn[] to 1 for torn rows. Loads the rows of a slot at
 * once, because they share its sequence counter; if the writer was inside a
 * section meanwhile, loads them row by row. */
static void load_copy(struct region_view *view, uint32_t t,
                      const struct copy *copy, uint32_t first, uint32_t count,
                      uint64_t *values, uint8_t *torn) {
  const struct region_table *table = &view->directory.tables[t];
  if (copy->sequence != 0) {
    uint64_t before = region_view_word(view, copy->sequence);
    load_rows(view, t, copy, first, count, values);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (!(before & 1) && region_view_word(view, copy->sequence) == before)
      return;
  } else if (!(table->flags & REGION_TABLE_CONSISTENT)) {
    load_rows(view, t, copy, first, count, values);
    return;
  }
  for (uint32_t k = 0; k < count; k++)
    if (!load_row(view, t, copy, first + k,
                  values + (size_t)k * table->columns))
      torn[k] = 1;
}

/* ---------------------------------------------------------------------------
 * Slots
 */

/* How many slots to sum in registers. Adding one slot after another to memory
 * takes 0.73 ns instead of 0.52 ns per cell of 16 slots. */
enum { SLOTS_AT_ONCE = 8 };

/* In cells: 1 KiB. */
enum { NEAR = 128 };

struct group {
  struct copy copies[SLOTS_AT_ONCE];
  uint32_t count; /* number of slots */
};

/* Sums `cells` consecutive cells of each copy, from row `row` on, a cache line
 * at a time: 0.66 ns per cell with this prefetch, 0.73 ns with the prefetch of
 * cells.c, and 0.82 ns without a prefetch (16 slots). Returns false if a writer
 * was inside a section during the reads; the sums are then useless. */
static bool sum_copies(struct region_view *view, const struct group *group,
                       uint64_t offset, size_t cells, uint64_t *sums) {
  uint64_t before[SLOTS_AT_ONCE];
  const uint64_t *copies[SLOTS_AT_ONCE], *ends[SLOTS_AT_ONCE];
  for (uint32_t k = 0; k < group->count; k++) {
    const struct copy *copy = &group->copies[k];
    before[k] = region_view_word(view, copy->sequence);
    if (before[k] & 1)
      return false;
    copies[k] = region_view_place(view, copy->rows + offset);
    ends[k] = region_view_place(view, copy->ahead);
  }
  size_t c = 0;
  for (; c + LINE <= cells; c += LINE) {
    uint64_t s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0;
    for (uint32_t k = 0; k < group->count; k++) {
      const uint64_t *line = copies[k] + c;
      if (ends[k] - line > NEAR)
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
    if (region_view_word(view, group->copies[k].sequence) != before[k])
      return false;
  return true;
}

/* Adds rows of a group to the tile, one slot after another. This is slower than
 * sum_copies, but works for every table, and while writers are inside sections.
 */
static void add_each(struct region_view *view, struct region_tile *tile,
                     const struct group *group, uint32_t row, uint32_t rows) {
  uint32_t t = tile->table, at = row - tile->first_row;
  size_t cell = (size_t)at * tile->columns;
  size_t plane = (size_t)tile->capacity * tile->columns;
  for (uint32_t k = 0; k < group->count; k++) {
    const struct copy *copy = &group->copies[k];
    load_copy(view, t, copy, row, rows, tile->values, tile->torn + at);
    combine(view, t, tile->totals + cell, tile->values, rows, copy->is_live,
            copy->first);
    if ((tile->want & REGION_WANT_CORES) && copy->core >= 0)
      combine(view, t, tile->cores + cell + (size_t)copy->core * plane,
              tile->values, rows, copy->is_live, copy->first_of_core);
  }
}

/* True if sum_copies can be used: nothing but sums is wanted, and the rows are
 * consecutive cells that can be loaded where they are. */
static bool is_plain(const struct region_view *view,
                     const struct region_tile *tile) {
  const struct region_table *table = &view->directory.tables[tile->table];
  return view->known[tile->table].all_sums && tile->columns <= CELLS_AT_ONCE &&
         !(tile->want & REGION_WANT_CORES) &&
         table->row_stride == 8 * tile->columns &&
         region_view_place(view, 0) != NULL;
}

/* Adds rows of a group of slots to the tile. Sums the slots together until a
 * writer is found inside a section, and reads the remaining rows slot by slot,
 * because that writer would probably be inside a section again at the next
 * attempt. */
static void add_group(struct region_view *view, struct region_tile *tile,
                      struct group *group, uint32_t first, uint32_t count) {
  uint64_t sums[CELLS_AT_ONCE];
  uint32_t columns = tile->columns;
  uint32_t rows_at_once = MAX(tile->cells_at_once / columns, 1u);
  bool together = is_plain(view, tile);
  for (uint32_t i = 0; i < count; i += rows_at_once) {
    uint32_t row = first + i, rows = MIN(rows_at_once, count - i);
    uint64_t *totals = tile->totals + (size_t)(row - tile->first_row) * columns;
    together = together && sum_copies(view, group, 8ull * row * columns,
                                      rows * columns, sums);
    if (together)
      combine(view, tile->table, totals, sums, rows, true, false);
    else
      add_each(view, tile, group, row, rows);
  }
  group->count = 0;
}

/* Adds rows of all used slots to the tile. */
static void read_slots(struct region_reader *reader, struct region_tile *tile,
                       uint32_t first, uint32_t count) {
  struct region_view *view = &reader->view;
  const struct region_table *table = &view->directory.tables[tile->table];
  enum { USED = 1, LIVE = 2 };
  struct group group = {.count = 0};
  struct region_slot_states slots = {.exactly =
                                         !view->known[tile->table].all_sums};
  bool any_live = false;
  memset(tile->core_used, 0, tile->core_count);
  for (uint32_t s = 0; s < view->directory.header.slot_count; s++) {
    int core;
    enum region_state state =
        region_reader_slot_state(reader, &slots, s, &core);
    if (state == REGION_FREE)
      continue;
    if (group.count == SLOTS_AT_ONCE)
      add_group(view, tile, &group, first, count);
    struct copy *copy = &group.copies[group.count++];
    *copy = slot_copy(view, table, s, tile->in_use);
    copy->core = core;
    copy->is_live = state == REGION_LIVE;
    copy->first = copy->is_live && !any_live;
    any_live |= copy->is_live;
    if (core >= 0) {
      uint8_t *used = &tile->core_used[core];
      copy->first_of_core = copy->is_live && !(*used & LIVE);
      *used |= copy->is_live ? USED | LIVE : USED;
    }
  }
  if (group.count > 0)
    add_group(view, tile, &group, first, count);
  for (uint32_t core = 0; core < tile->core_count; core++)
    tile->core_used[core] &= USED;
}

static void read_base(struct region_view *view, struct region_tile *tile,
                      uint64_t offset, uint64_t *into, uint32_t first,
                      uint32_t count) {
  uint64_t row_size = 8ull * tile->columns;
  region_view_load(view, offset + first * row_size,
                   (size_t)count * tile->columns,
                   offset + tile->in_use * row_size,
                   into + (size_t)(first - tile->first_row) * tile->columns);
}

static void clear_cores(struct region_tile *tile, uint32_t at, uint32_t count) {
  size_t cell = (size_t)at * tile->columns;
  for (uint32_t c = 0; c < tile->core_count; c++)
    memset(tile->cores + cell + (size_t)c * tile->capacity * tile->columns, 0,
           (size_t)count * tile->columns * sizeof(*tile->cores));
}

/* Reads rows into the tile, starting with row `first`. */
static void read_rows(struct region_reader *reader, struct region_tile *tile,
                      uint32_t first, uint32_t count) {
  struct region_view *view = &reader->view;
  const struct region_table *table = &view->directory.tables[tile->table];
  const struct copy single =
      copy_at(table, table->single_offset, 0, tile->in_use);
  uint32_t at = first - tile->first_row;
  if (tile->want & REGION_WANT_CORES)
    clear_cores(tile, at, count);
  memset(tile->torn + at, 0, count);
  load_copy(view, tile->table, &single, first, count,
            tile->totals + (size_t)at * tile->columns, tile->torn + at);
  if (table->storage == PERCORE_PER_CORE)
    read_slots(reader, tile, first, count);
  if (tile->want & REGION_WANT_BIRTHS)
    read_base(view, tile, table->birth_offset, tile->births, first, count);
  if (tile->want & REGION_WANT_RESETS)
    read_base(view, tile,
              table->reset_offset != 0 ? table->reset_offset
                                       : table->birth_offset,
              tile->resets, first, count);
}

/* ---------------------------------------------------------------------------
 * Rows that belong to one object while they are read
 */

/* True if the row belongs to an object, which may have been removed. */
static bool is_object(uint64_t generation) {
  enum region_state state = region_state(generation);
  return state == REGION_LIVE || state == REGION_GONE;
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
  uint64_t word = table->generations_offset + 8ull * (tile->first_row + i);
  for (int k = 0; *tries > 0 && k < REGION_TRIES; k++, --*tries) {
    uint64_t generation = region_view_word(&reader->view, word);
    tile->generations[i] = generation;
    if (!is_object(generation))
      continue;
    read_rows(reader, tile, tile->first_row + i, 1);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (region_view_word(&reader->view, word) == generation)
      return;
  }
  tile->generations[i] = REGION_CHANGING;
}

/* Checks the generation words that were just loaded again. Usually none has
 * changed, which is found out without a branch for each row. */
static void check_words(struct region_reader *reader, struct region_tile *tile,
                        const uint64_t *words, uint32_t *tries) {
  const uint64_t *generations = tile->generations;
  uint64_t changes = 0, all = REGION_LIVE; /* a bit of GONE, too */
  for (uint32_t i = 0; i < tile->rows; i++) {
    changes |= region_load(&words[i]) ^ generations[i];
    all &= generations[i];
  }
  if (changes == 0 && all != 0)
    return;
  for (uint32_t i = 0; i < tile->rows; i++)
    if (generations[i] != 0 && (region_load(&words[i]) != generations[i] ||
                                !is_object(generations[i])))
      read_again(reader, tile, i, tries);
}

/* Reads the rows again whose generation word has changed. */
static void check_rows(struct region_reader *reader, struct region_tile *tile) {
  struct region_view *view = &reader->view;
  const struct region_table *table = &view->directory.tables[tile->table];
  uint64_t offset = table->generations_offset + 8ull * tile->first_row;
  const uint64_t *words = region_view_place(view, offset);
  uint32_t tries = limit_tries(reader, table);
  if (words == NULL) {
    region_view_load(view, offset, tile->rows, offset, tile->again);
    words = tile->again;
  }
  check_words(reader, tile, words, &tries);
}

void region_tile_read(struct region_reader *reader, struct region_tile *tile,
                      uint32_t first_row) {
  struct region_view *view = &reader->view;
  const struct region_table *table = &view->directory.tables[tile->table];
  uint32_t in_use = region_reader_rows(reader, tile->table);
  uint64_t all = table->generations_offset;
  tile->in_use = in_use;
  tile->first_row = first_row;
  tile->rows = first_row < in_use ? in_use - first_row : 0;
  if (tile->rows > tile->capacity)
    tile->rows = tile->capacity;
  region_view_load(view, all + 8ull * first_row, tile->rows,
                   all + 8ull * in_use, tile->generations);
  /* Pairs with the store-release that ended the previous change. */
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  read_rows(reader, tile, first_row, tile->rows);
  /* Pairs with the release fence after a generation word became CHANGING. */
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  check_rows(reader, tile);
}

bool region_tile_read_births(struct region_reader *reader,
                             struct region_tile *tile, uint32_t i) {
  const struct region_table *table =
      &reader->view.directory.tables[tile->table];
  uint64_t word = table->generations_offset + 8ull * (tile->first_row + i);
  read_base(&reader->view, tile, table->birth_offset, tile->births,
            tile->first_row + i, 1);
  /* Pairs with the release fence after a generation word became CHANGING. */
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return region_view_word(&reader->view, word) == tile->generations[i];
}

/* ---------------------------------------------------------------------------
 * One row
 */

int region_reader_slot_row(struct region_reader *reader, uint32_t table,
                           uint32_t row, uint32_t s, uint64_t *values) {
  struct region_view *view = &reader->view;
  struct region_slot_states slots = {.exactly = false};
  int core;
  if (view->directory.tables[table].storage != PERCORE_PER_CORE ||
      row >= region_reader_rows(reader, table))
    return region_failed(EINVAL);
  if (region_reader_slot_state(reader, &slots, s, &core) == REGION_FREE)
    return region_failed(ENOENT);
  struct copy copy = slot_copy(view, &view->directory.tables[table], s, 0);
  return load_row(view, table, &copy, row, values) ? 0 : 1;
}

uint64_t region_row_shown(const struct region_directory *directory,
                          const struct region_tile *tile, uint32_t row,
                          uint32_t column) {
  const struct region_table *table = &directory->tables[tile->table];
  size_t cell = (size_t)row * tile->columns + column;
  uint32_t f = MIN(column, table->field_count - 1); /* none is further on */
  while (directory->fields[table->first_field + f].column > column)
    f--;
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
