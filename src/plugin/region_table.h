/* region_table: one table of one instance through time: which of its rows are
 * followed, and what they and the whole table counted since the last pass.
 *
 * A pass reads every row once, in as many rounds as it takes. It loads each
 * cell of the table once, whatever object the row holds at that moment. Cells
 * are never zeroed, so the growth of the sum of all cells is exactly what the
 * table counted, with no memory for single rows. Rows that are shown are
 * followed: the growth of their cells, from the same loads, is their own. The
 * rest of the growth goes to `other`. Private to region_watch. */
#ifndef PERCORE_PLUGIN_REGION_TABLE_H
#define PERCORE_PLUGIN_REGION_TABLE_H

#include "region_sum.h"

struct region_watch;
struct region_instance;

/* A row that Top may show. */
struct region_candidate {
  int64_t weight;
  uint64_t generation;
  uint32_t row;
  bool again; /* it was a candidate in the pass before, too */
};

/* Weights are foreign: their sum stays within what a weight can be. */
static inline int64_t region_weights_add(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum))
    return b < 0 ? INT64_MIN : INT64_MAX;
  return sum;
}

/* The heaviest of those that were offered, and up to as many others. */
struct region_candidates {
  struct region_candidate *list;
  size_t len, most; /* most: to be kept; there is room for twice as many */
  int64_t least;    /* a candidate that is not heavier is not kept */
};

/* An object that is followed. */
struct region_object {
  struct region_sum_row *row; /* NULL: what it counts goes to `other` */
  uint32_t number;
  uint32_t incarnation;
  uint32_t copies;       /* that it was made with */
  uint32_t candidate_in; /* the pass in which it wanted to be shown */
  /* Both keep the place until the end of the pass, so that no more rows are
   * shown than there is room for: */
  bool hidden;     /* its row is shown for the last time */
  bool ended;      /* not followed any more */
  uint64_t last[]; /* [copy][column]: raw, as in the table's sum; for a gauge of
                      a core: its first value */
};

/* Kept for every row of a table with Top or Row. */
struct region_mark {
  uint32_t incarnation;  /* 0: no object was seen here */
  uint32_t candidate_in; /* the pass in which it wanted to be shown */
  uint64_t weighed;      /* raw value of the column that Top ranks by */
};

/* The last pass over a table begins when its producer has ended. */
enum region_final {
  REGION_NOT_FINAL,
  REGION_FINAL_DUE, /* after the pass that is under way */
  REGION_FINAL_UNDERWAY,
  REGION_FINAL_DONE
};

/* A table of the producer that is read now. */
struct region_instance_table {
  struct region_instance *instance;
  uint32_t number; /* in the directory */
  char *name;
  struct region_sum *sum; /* NULL: no sum that it can be added to */
  struct region_instance_table *next_of_sum;
  bool from_zero; /* everything that it has counted is reported */
  bool scanned;   /* a pass was completed */
  bool odd_told;  /* the log says why it has no sum */
  enum region_final final;
  uint64_t names_seen;   /* names_shown of the sum at the last pass */
  uint64_t round;        /* of the sum, in which its pass began */
  uint64_t round_before; /* the same of the producer before */
  uint32_t scans;
  uint64_t left_out; /* rows that could not be followed in the last pass, or
                        lost their place since */
  struct region_reading *reading; /* NULL: between two passes */
  uint64_t *last, *now; /* [copy][column]: the table's sum after the last pass,
                           and so far in this one */
  uint64_t
      *remainder; /* [copy][column]: growth less that of shown rows, in work */
  struct region_mark *marks; /* max_rows; NULL: none are needed, or no memory */
  size_t marks_size;
  uint32_t marks_len; /* rows that the allowance has room for */
  uint32_t rows_scanned, marks_scanned; /* the last pass had so many */
  struct region_object **objects;       /* by number */
  uint32_t objects_len, objects_capacity;
  struct region_candidates candidates; /* of the last pass */
  struct region_allowance *allowance;  /* for all of this */
  size_t bytes;                        /* of it, without parts */
};

/* Begins a pass, unless a pass is under way or this round has had one. `ended`:
 * the producer has ended, so this is the last pass. False if no pass begins. */
bool region_table_begin(struct region_watch *watch,
                        struct region_instance_table *table, bool ended);

/* Reads rows of about *cells_left cells and subtracts the cells that it read.
 * True if the pass is complete. */
bool region_table_read(struct region_instance_table *table,
                       uint64_t *cells_left);

/* How many cells are read in a few milliseconds. */
#define REGION_PIECE_CELLS UINT64_C(131072)

/* Keeps the heaviest candidates, the heaviest first. */
void region_candidates_cut(struct region_candidates *candidates);

/* Makes rows that have won a place into parts of the row of the sum. */
void region_table_show(struct region_instance_table *table,
                       const struct region_candidate *candidate,
                       struct region_sum_row *row);

/* Notes that a row wanted to be shown and is not, so that its next attempt is
 * the second. */
void region_table_remember(struct region_instance_table *table,
                           const struct region_candidate *candidate);

/* Drops the parts of rows that Top no longer shows. */
void region_table_hide(struct region_instance_table *table);

/* Aborts a pass: no count is lost, and the next pass begins at the first row.
 */
void region_table_stop(struct region_instance_table *table);

/* From now on the table is added to that sum. */
void region_table_join(struct region_instance_table *table,
                       struct region_sum *sum);

/* Drops everything that is known of the rows, and the sum. */
void region_table_leave(struct region_instance_table *table);

/* ---------------------------------------------------------------------------
 * Private to region_table.c, region_follow.c and region_choice.c
 */

/* The state of a pass. */
struct region_reading {
  struct region_watch *watch;
  struct region_instance_table *table;
  struct region_sum *sum;
  struct region_reader *reader;
  bool is_final; /* its producer has ended */
  struct region_tile tile;
  uint32_t next_row, next_object, objects_len;
  bool looks_names_up;     /* rows may have names that were shown lately */
  uint64_t live, left_out; /* rows */
  uint64_t names_matched;  /* in this tile, with an option Row each time */
  char name[REGION_ROW_NAME_SIZE]; /* of a row */
  uint32_t named;                  /* number of this row + 1; 0: none */
  uint32_t unmarked; /* rows in use that have no mark for want of memory */
};

/* The row had no mark in the last pass, so its counts until then are in
 * `other`; with Row they are nowhere. */
static inline bool
region_table_had_no_mark(const struct region_instance_table *table,
                         uint32_t row) {
  return !table->sum->shape.chooses_rows && row >= table->marks_scanned &&
         row < table->rows_scanned;
}

/* Cells of a copy of the row at place i. */
static inline const uint64_t *region_tile_cells(const struct region_tile *tile,
                                                uint32_t copy, uint32_t i) {
  size_t at = (size_t)i * tile->columns;
  return copy == 0 ? tile->totals + at
                   : tile->cores + at +
                         (size_t)(copy - 1) * tile->capacity * tile->columns;
}

/* Counts the rows of a tile and decides what becomes of them. */
void region_track_tile(struct region_reading *reading);

/* A part for the row at place i of the tile. NULL if out of memory, or if the
 * row now holds another object. */
struct region_object *region_object_track(struct region_reading *reading,
                                          uint32_t i,
                                          struct region_sum_row *row,
                                          bool from_birth);

void region_object_show(struct region_sum *sum, struct region_object *object,
                        struct region_sum_row *row);

/* From the next round on its counts go to `other`. */
void region_object_let_go(struct region_sum *sum, struct region_object *object);

/* Removes parts that ended, and sorts the others. */
void region_objects_tidy(struct region_instance_table *table);

#endif
