/* region_table: reads one table of one instance repeatedly. Knows which rows
 * are tracked, and how much they and the whole table have grown since the last
 * scan.
 *
 * A scan reads every row once and may take several rounds. It loads each cell
 * once, whichever object the row holds at that moment. Cells are never zeroed,
 * so the growth of the sum of all cells is exactly what the table counted;
 * computing it takes no memory per row. The objects of shown rows are tracked:
 * the growth of their cells, computed from the same loads, belongs to their
 * rows. The remaining growth belongs to `other`. Only region_watch uses these
 * functions. */
#ifndef PERCORE_PLUGIN_REGION_TABLE_H
#define PERCORE_PLUGIN_REGION_TABLE_H

#include "region_sum.h"

struct region_instance;

/* A row that Top might show. */
struct region_candidate {
  int64_t weight;
  uint64_t generation;
  struct region_object *object; /* NULL: not tracked */
  uint32_t row;
};

/* Returns the sum of two weights. The sum saturates, because weights come from
 * producers and could overflow it. */
static inline int64_t region_weights_add(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum))
    return b < 0 ? INT64_MIN : INT64_MAX;
  return sum;
}

/* The candidates with the largest weights so far. */
struct region_candidates {
  struct region_candidate *list; /* has room for twice `most` */
  size_t len, most;
  int64_t least; /* candidates with this weight or less are rejected */
};

/* A tracked object. */
struct region_object {
  struct region_sum_row *row; /* NULL: counts for `other` */
  uint32_t number;
  uint32_t incarnation;
  uint32_t copies; /* allocated */
  bool ended;      /* its row holds another object by now */
  uint64_t last[]; /* [copy][column]: cell values at the last scan; for gauges
                      of single cores, the first value */
};

/* What is remembered about each row of a table if the option Top or Row is set.
 */
struct region_mark {
  uint32_t incarnation;  /* of the last object seen in the row; 0: none */
  uint32_t candidate_in; /* the last scan in which the row was a candidate and
                            was not chosen; 0: none */
  uint64_t weighed;      /* cell value, at the last scan, of the column that Top
                            ranks by */
};

/* The state of a scan. */
struct region_scan {
  bool underway;
  struct region_tile tile;
  uint32_t next_row, next_object, objects_len;
  bool looks_names_up;     /* look up the names of rows that are not tracked,
                              because they may be shown by now */
  uint64_t live, left_out; /* numbers of live rows, and of rows left out */
  uint64_t names_matched; /* names matched in this tile, times the number of Row
                             options */
  uint32_t unmarked; /* rows in use without a mark, because memory is short */
};

/* A table of the instance's current producer. */
struct region_instance_table {
  struct region_instance *instance;
  uint32_t number;        /* index of the table in the directory */
  struct region_sum *sum; /* NULL: not added to any sum */
  struct region_instance_table *next_of_sum;
  bool from_zero; /* all of its counts are reported, including those before the
                     first scan */
  bool scanned;   /* at least one scan is complete */
  bool odd_told;  /* the reason for having no sum was logged */
  /* How many scans must still be completed after the producer has ended: the
   * current scan, whose first rows may have counted since they were read, and a
   * last scan. */
  uint32_t scans_due;
  uint64_t names_seen; /* value of the sum's names_shown at the last scan */
  uint64_t round;      /* the sum's round in which the last scan began */
  uint32_t scans;
  uint64_t left_out; /* rows that were not tracked in the last scan, or lost
                        their places since */
  struct region_scan scan; /* the current scan */
  uint64_t *last, *now; /* [copy][column]: sums of all cells, in the last scan
                           and so far in the current scan */
  /* [column]: combined gauges, levels and states of live rows without a row of
   * the sum, in the last scan. */
  uint64_t *present;
  bool has_present; /* `present` contains the values of at least one row */
  struct region_mark *marks; /* one for each of max_rows rows; NULL: not needed,
                                or memory is short */
  size_t marks_size;
  uint32_t marks_len; /* rows that have a mark */
  /* At the last scan: rows in use, and rows with a mark. */
  uint32_t rows_scanned, marks_scanned;
  struct region_object **objects; /* sorted by number */
  uint32_t objects_len;
  size_t objects_capacity;
  struct region_candidates candidates; /* of the last scan */
  size_t bytes; /* charged to the region's allowance, except for objects */
};

/* Begins a scan, unless a scan is in progress or has been made in this round.
 * If `ended` is set, the producer has ended, and a last scan begins even if one
 * has been made in this round. Returns true if a scan is in progress. */
bool region_table_begin(struct region_instance_table *table, bool ended);

/* Reads rows until the scan is complete or *cells_left is 0. Subtracts the cost
 * of reading, in cells, from *cells_left. */
void region_table_read(struct region_instance_table *table,
                       uint64_t *cells_left);

/* How many cells are read at a time, which takes a few milliseconds. */
#define REGION_PIECE_CELLS UINT64_C(131072)

/* Copies the name of a row. Returns false if the row no longer holds the object
 * that it held when its generation word was `generation`. */
bool region_table_name(const struct region_instance_table *table, uint32_t row,
                       uint64_t generation, char name[REGION_ROW_NAME_SIZE]);

/* Sorts the candidates by weight, the heaviest first, and keeps only the first
 * candidates->most of them. */
void region_candidates_cut(struct region_candidates *candidates);

/* Tracks the candidate's object, because Top shows its row from now on. */
void region_table_show(struct region_instance_table *table,
                       const struct region_candidate *candidate,
                       struct region_sum_row *row);

/* Aborts the current scan. No count is lost; the next scan begins at the first
 * row. */
void region_table_stop(struct region_instance_table *table);

/* Adds the table to the sum from now on. */
void region_table_join(struct region_instance_table *table,
                       struct region_sum *sum);

/* True if a table of a live instance other than `but` is added to the sum. */
bool region_sum_is_shared(const struct region_sum *sum,
                          const struct region_instance *but);

/* Removes the table from its sum and frees everything that is known about its
 * rows. */
void region_table_leave(struct region_instance_table *table);

/* ---------------------------------------------------------------------------
 * For region_table.c and region_track.c only
 */

/* Detaches objects from their rows if the objects have ended or the rows are no
 * longer shown. Frees the objects that no longer need to be tracked, and sorts
 * the others. */
void region_objects_tidy(struct region_instance_table *table);

/* Adds the rows of the tile, which is the block of rows read last, to the sum.
 * Decides which of them to track. */
void region_track_tile(struct region_instance_table *table);

/* Tracks the object in the row at index i of the tile. The growth of the object
 * is added to `row`, or to `other` if `row` is NULL. If from_birth is set, this
 * includes all growth since the object was added; otherwise, only growth from
 * now on. Returns NULL if out of memory. */
struct region_object *region_object_track(struct region_instance_table *table,
                                          uint32_t i,
                                          struct region_sum_row *row,
                                          bool from_birth);

/* From now on, adds the growth of the object to `row`, or to `other` if `row`
 * is NULL. */
void region_object_show(struct region_object *object,
                        struct region_sum_row *row);

#endif
