#include "region_instance.h"

#include "utils/common/common.h"

#include <sys/mman.h>

/* Summing a cell over SLOTS_PER_CELL slots takes as long as reading one cell of
 * a single core. */
#define SLOTS_PER_CELL 16
/* The costs, in cells, of finding the memory of a slot's rows (lseek), and of
 * matching a name with a regular expression. */
#define CELLS_PER_SLOT 16
#define CELLS_PER_MATCH 32
/* Reading slot by slot is faster if a tile (a block of rows that are read
 * together) has at least TILE_ROWS rows. */
#define TILE_ROWS 16
#define TILE_CORES_BYTES ((size_t)1 << 20)

/* ---------------------------------------------------------------------------
 * Memory
 */

static bool needs_marks(const struct region_sum *sum) {
  return sum->shape.top_field >= 0 || sum->shape.chooses_rows;
}

static uint32_t max_rows(const struct region_instance_table *table) {
  return region_reader_directory(table->instance->reader)
      ->tables[table->number]
      .max_rows;
}

static void *claim(struct region_instance_table *table, size_t bytes) {
  void *memory = region_claim(&table->sum->region->rows, bytes);
  table->bytes += memory != NULL ? bytes : 0;
  return memory;
}

static bool make_sums(struct region_instance_table *table) {
  size_t cells = region_sum_cells(table->sum);
  if (table->last == NULL)
    table->last = claim(table, (2 * cells + table->sum->shape.columns) *
                                   sizeof(uint64_t));
  if (table->last == NULL)
    return false;
  table->now = table->last + cells;
  table->present = table->now + cells;
  return true;
}

/* If memory is too short for all marks, 1/MARKS_PART of it is reserved for
 * tracked objects. */
#define MARKS_PART 8

/* Reserves address space for the marks of all possible rows; only the marks of
 * rows in use take memory. Returns the number of rows in use that have no mark
 * because memory is short. */
static uint32_t make_marks(struct region_instance_table *table) {
  struct region_allowance *allowance = &table->sum->region->rows;
  uint32_t in_use = region_reader_rows(table->instance->reader, table->number);
  if (!needs_marks(table->sum))
    return 0;
  if (table->marks == NULL) {
    size_t size = (size_t)max_rows(table) * sizeof(struct region_mark);
    void *marks = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (marks == MAP_FAILED)
      return in_use;
    table->marks = marks;
    table->marks_size = size;
  }
  size_t most = table->marks_len +
                region_allowance_left(allowance) / sizeof(struct region_mark);
  size_t rows = in_use <= most ? in_use : most / MARKS_PART * (MARKS_PART - 1);
  size_t more = rows > table->marks_len ? rows - table->marks_len : 0;
  size_t bytes = more * sizeof(struct region_mark);
  if (region_allowance_take(allowance, bytes)) {
    table->bytes += bytes;
    table->marks_len += (uint32_t)more;
  }
  return in_use > table->marks_len ? in_use - table->marks_len : 0;
}

void region_table_join(struct region_instance_table *table,
                       struct region_sum *sum) {
  table->sum = sum;
  table->next_of_sum = sum->tables;
  sum->tables = table;
}

bool region_sum_is_shared(const struct region_sum *sum,
                          const struct region_instance *but) {
  const struct region_instance_table *table = sum->tables;
  while (table != NULL &&
         (table->instance == but || !region_instance_is_alive(table->instance)))
    table = table->next_of_sum;
  return table != NULL;
}

void region_table_leave(struct region_instance_table *table) {
  region_table_stop(table);
  for (uint32_t p = 0; p < table->objects_len; p++)
    table->objects[p]->ended = true;
  if (table->sum != NULL) {
    region_objects_tidy(table);
    struct region_instance_table **link = &table->sum->tables;
    while (*link != table)
      link = &(*link)->next_of_sum;
    *link = table->next_of_sum;
    region_allowance_give(&table->sum->region->rows, table->bytes);
  }
  free(table->objects);
  free(table->last);
  free(table->candidates.list);
  if (table->marks != NULL)
    munmap(table->marks, table->marks_size);
  *table = (struct region_instance_table){.instance = table->instance,
                                          .number = table->number,
                                          .scans_due = table->scans_due};
}

/* ---------------------------------------------------------------------------
 * Warnings about too little memory
 */

#define MEBIBYTE (UINT64_C(1) << 20)

/* Returns the MaxMemory that would allow `bytes` more bytes: a region may use
 * half of MaxMemory, and its rows seven eighths of that half. */
static uint64_t memory_for(const struct region_sum *sum, uint64_t bytes) {
  uint64_t all = 2 * (sum->region->region.used + bytes + MEBIBYTE) / 7 * 8;
  return (all / MEBIBYTE + 1) * MEBIBYTE;
}

/* Leaves the table out in this round, and logs the reason once. */
static void give_up(struct region_instance_table *table) {
  struct region_sum *sum = table->sum;
  WARN_ONCE(sum->left_out_told, "percore: region %s: table %s is left out: %s.",
            sum->region->name, sum->table,
            errno == EFBIG ? "a row of all cores takes more than 16 MiB; set "
                             "ReportPerCore false"
                           : "MaxMemory is too small for it; raise MaxMemory");
  table->from_zero = false;
  table->scans_due -= table->scans_due > 0;
  region_table_stop(table);
}

static void tell_short(const struct region_instance_table *table) {
  struct region_sum *sum = table->sum;
  uint64_t rows = table->scan.unmarked;
  uint64_t bytes = rows * sizeof(struct region_mark);
  if (rows == 0) {
    rows = MAX(1, table->scan.left_out);
    bytes = rows * region_sum_row_size(sum);
  }
  WARN_ONCE(
      sum->memory_told,
      "percore: region %s: table %s: %" PRIu64
      " of its rows are %s: MaxMemory is too small; set MaxMemory %" PRIu64 ".",
      table->instance->region, sum->table, rows,
      sum->shape.chooses_rows ? "left out" : "counted only in `other`",
      memory_for(sum, bytes));
}

/* ---------------------------------------------------------------------------
 * Beginning
 */

static bool make_candidates(struct region_instance_table *table) {
  const struct region_sum *sum = table->sum;
  struct region_candidates *candidates = &table->candidates;
  if (sum->shape.top_field < 0)
    return true;
  candidates->len = 0;
  candidates->least = INT64_MIN;
  candidates->most = MIN(sum->config->top, max_rows(table));
  if (candidates->list == NULL)
    candidates->list =
        claim(table, 2 * candidates->most * sizeof(*candidates->list));
  return candidates->list != NULL;
}

/* True if rows that are not tracked may have names that are shown. Without Top,
 * the rows of a producer that is gone stay shown, and another instance may
 * continue them. */
static bool may_have_shown_names(const struct region_instance_table *table) {
  const struct region_sum *sum = table->sum;
  if (!table->scanned)
    return true;
  if (sum->shape.top_field < 0)
    return sum->tables != table || table->next_of_sum != NULL;
  return table->names_seen != sum->names_shown &&
         region_sum_is_shared(sum, table->instance);
}

bool region_table_begin(struct region_instance_table *table, bool ended) {
  struct region_sum *sum = table->sum;
  if (table->scan.underway)
    return true;
  region_sum_begin(sum, table->instance->watch->round);
  if (table->round == sum->round && !ended)
    return false;
  errno = ENOMEM;
  if (!make_sums(table) || !make_candidates(table)) {
    give_up(table);
    return false;
  }
  region_objects_tidy(table);
  memset(table->now, 0, region_sum_cells(sum) * sizeof(*table->now));
  table->has_present = false;
  table->round = sum->round;
  table->scans++;
  sum->open++;
  table->scan =
      (struct region_scan){.underway = true,
                           .objects_len = table->objects_len,
                           .unmarked = make_marks(table),
                           .looks_names_up = may_have_shown_names(table)};
  return true;
}

void region_table_stop(struct region_instance_table *table) {
  if (!table->scan.underway)
    return;
  region_objects_tidy(table);
  table->scan.underway = false;
  table->sum->open--;
}

/* ---------------------------------------------------------------------------
 * The end of a pass
 */

/* Adds the growth of all cells since the last scan to `other`, from which the
 * growth of shown rows has already been subtracted. If the sum of a column has
 * decreased, its former value is kept for the next comparison, because what the
 * column regains has been counted before. What was counted before the first
 * scan is left out unless from_zero is set. */
static void grow(struct region_instance_table *table) {
  const struct region_sum *sum = table->sum;
  uint32_t drops = 0;
  if (!table->scanned && !table->from_zero)
    memcpy(table->last, table->now,
           region_sum_cells(sum) * sizeof(*table->last));
  for (uint32_t copy = 0; copy < sum->copies; copy++) {
    size_t at = (size_t)copy * sum->shape.columns;
    drops += region_sum_count(sum, copy, table->last + at, table->now + at,
                              NULL, true);
  }
  table->instance->watch->cells_back += drops;
  if (drops > 0)
    WARN_ONCE(table->instance->drop_told,
              "percore: region %s: counters of table %s decreased, which a "
              "producer must never do. They are reported again once they "
              "exceed their former values.",
              table->instance->label, sum->table);
}

static void finish(struct region_instance_table *table) {
  struct region_sum *sum = table->sum;
  const struct region_scan *scan = &table->scan;
  if (!sum->shape.chooses_rows)
    grow(table);
  table->scanned = true;
  table->left_out = scan->left_out;
  table->rows_scanned = scan->next_row;
  table->marks_scanned = table->marks_len;
  table->names_seen = sum->names_shown;
  sum->room.left_out += scan->left_out;
  sum->room.live += scan->live;
  table->scans_due -= table->scans_due > 0;
  if (sum->memory_short || scan->unmarked > 0)
    tell_short(table);
  region_table_stop(table);
}

/* ---------------------------------------------------------------------------
 * Pieces
 */

static uint32_t tile_rows(const struct region_sum *sum) {
  uint64_t cells =
      sum->shape.per_core ? REGION_TILE_CELLS_PER_CORE : REGION_TILE_CELLS;
  uint64_t row = (uint64_t)sum->shape.columns * sum->copies;
  uint64_t few = MIN(TILE_ROWS, TILE_CORES_BYTES / sizeof(uint64_t) / row);
  return (uint32_t)MAX(1, MAX(cells / row, few));
}

/* Returns the cost of reading the tile, in cells. */
static uint64_t cost_of_tile(const struct region_instance_table *table) {
  const struct region_sum *sum = table->sum;
  uint64_t slots =
      sum->shape.per_core ? region_reader_slots(table->instance->reader) : 1;
  uint64_t row =
      sum->shape.columns * MAX((uint64_t)sum->copies, slots / SLOTS_PER_CELL);
  return MAX(1, table->scan.tile.rows) * row + CELLS_PER_SLOT * slots +
         CELLS_PER_MATCH * table->scan.names_matched;
}

static int make_tile(struct region_instance_table *table, uint32_t rows) {
  bool cores = table->sum->copies > 1;
  return region_tile_init(&table->scan.tile, table->instance->reader,
                          table->number, rows,
                          REGION_WANT_BIRTHS | (cores ? REGION_WANT_CORES : 0));
}

/* Reads tiles until *cells_left is 0. Returns true if the last rows have been
 * read. */
static bool read_tiles(struct region_instance_table *table,
                       uint64_t *cells_left) {
  struct region_scan *scan = &table->scan;
  do {
    scan->names_matched = 0;
    region_tile_read(table->instance->reader, &scan->tile, scan->next_row);
    region_track_tile(table);
    scan->next_row += scan->tile.rows;
    *cells_left -= MIN(*cells_left, cost_of_tile(table));
    if (scan->tile.rows < scan->tile.capacity)
      return true;
  } while (*cells_left > 0 && region_watch_is_wanted(table->instance->watch));
  return false;
}

void region_table_read(struct region_instance_table *table,
                       uint64_t *cells_left) {
  if (make_tile(table, tile_rows(table->sum)) != 0) {
    give_up(table);
    return;
  }
  bool is_complete = read_tiles(table, cells_left);
  region_tile_free(&table->scan.tile);
  if (is_complete)
    finish(table);
}

bool region_table_name(const struct region_instance_table *table, uint32_t row,
                       uint64_t generation, char name[REGION_ROW_NAME_SIZE]) {
  return region_reader_row_name(table->instance->reader, table->number, row,
                                generation, name);
}

/* ---------------------------------------------------------------------------
 * Top
 */

/* Tracks the object of a candidate that is not tracked yet. Reads the row
 * again, so that what the object has counted so far belongs to `other`, and the
 * first interval of the row's series has the usual length. */
static void show_untracked(struct region_instance_table *table,
                           const struct region_candidate *candidate,
                           struct region_sum_row *row) {
  struct region_tile *tile = &table->scan.tile;
  if (make_tile(table, 1) != 0)
    return;
  region_tile_read(table->instance->reader, tile, candidate->row);
  if (tile->rows > 0 && region_state(tile->generations[0]) == REGION_LIVE &&
      region_incarnation(tile->generations[0]) ==
          region_incarnation(candidate->generation))
    region_object_track(table, 0, row, false);
  region_tile_free(tile);
}

/* With the option Row, candidates are already tracked. */
void region_table_show(struct region_instance_table *table,
                       const struct region_candidate *candidate,
                       struct region_sum_row *row) {
  if (candidate->object != NULL)
    region_object_show(candidate->object, row);
  else if (!table->sum->shape.chooses_rows)
    show_untracked(table, candidate, row);
}
