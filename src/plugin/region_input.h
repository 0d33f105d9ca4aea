/* region_input: reads one table of one producer again and again, and adds what
 * it counted to a sum.
 *
 * Cells are never zeroed, so the growth of the sum of all cells is what the
 * table counted, whichever objects held its rows. What the cells of tracked
 * objects grew belongs to their rows, and is taken from `other`.
 */
#ifndef PERCORE_PLUGIN_REGION_INPUT_H
#define PERCORE_PLUGIN_REGION_INPUT_H

#include "region_sum.h"

struct region_instance;

/* A tracked object, or a candidate: an object that Top may show, with its cells
 * at the last scan. */
struct region_object {
  struct region_sum_row *row; /* NULL: none yet, or it counts no more */
  uint64_t generation;
  uint32_t number;
  uint32_t copies; /* allocated: at least those of the sum */
  bool is_chosen;  /* until the next scan, its gauges are in `other` */
  int64_t weight;  /* of a candidate */
  uint64_t last[]; /* [copy][column]: cells at the last scan; then, if there are
                      up-down counters, gauges or states, what to subtract from
                      them */
};

/* What is remembered about the rows of a table with several rows: arrays with
 * an element for each possible row, of which only pages that were written take
 * memory. Without Top and Row, only `incarnation` is written. */
struct region_marks {
  /* Of the last object seen in the row; 0: none; REGION_UNREAD: the last scan
   * did not read the row. */
  uint32_t *incarnation;
  /* The last scan in which it was a candidate and not chosen; 0: none. */
  uint32_t *candidate_in;
  /* Cell value, at the last scan, of the column that Top ranks by. */
  uint64_t *weighed;
  uint32_t len; /* rows that have marks; 0: not needed, or memory is short */
  void *memory;
  size_t size;
};
#define REGION_UNREAD UINT32_MAX
#define REGION_UNWANTED                                                        \
  UINT32_MAX /* candidate_in: no option Row matches it                         \
              */

struct region_objects {
  struct region_object **list;
  size_t len, capacity;
};

struct region_input {
  struct region_instance *instance;
  uint32_t number;        /* index of the table in the directory */
  struct region_sum *sum; /* NULL: not added to any sum */
  struct region_input *next_of_sum;
  bool from_zero; /* all of its counts are reported, including those before the
                     first scan */
  uint64_t start_ns;  /* CLOCK_REALTIME: when the producer started */
  bool scanned;       /* at least one scan is complete */
  bool left_out_once; /* it could not be added to a sum */
  bool ending;     /* the producer has ended; its last scan is not complete */
  bool awaits_put; /* the sum was not put since the last scan began */
  uint64_t names_seen; /* the sum's names_shown, when the last scan began */
  uint32_t scans;
  /* The current scan. */
  bool underway, looks_names_up, skips; /* skips: see skip_light */
  struct region_tile tile;
  uint32_t next_row;
  uint64_t bytes_read;
  size_t next_object, objects_len;
  uint64_t live, left_out, names_matched;
  uint64_t *last, *now; /* [copy][column]: sums of all cells */
  uint64_t *present; /* [column]: up-down counters, gauges and states of objects
                        without a row, in the last scan */
  bool has_present;
  struct region_marks marks;
  uint32_t rows_read;               /* the most rows that a scan has read */
  struct region_objects objects;    /* sorted by number */
  struct region_objects candidates; /* of the last scan */
  int64_t least; /* candidates with this weight or less are rejected */
  size_t bytes;  /* charged to the budget, except for objects */
};

/* How many cells are read at a time, which takes a few milliseconds. */
#define REGION_PIECE_CELLS UINT64_C(131072)

/* Returns the sum of two weights, which come from producers and could overflow
 * it. */
static inline int64_t region_weights_add(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum))
    return b < 0 ? INT64_MIN : INT64_MAX;
  return sum;
}

void region_input_join(struct region_input *input, struct region_sum *sum);

/* Removes the input from its sum, and frees it. */
void region_input_leave(struct region_input *input);

/* True if another live instance is added to the sum. */
bool region_sum_is_shared(const struct region_sum *sum,
                          const struct region_instance *but);

/* Returns how many bytes the marks of a row take (region_marks.c). */
size_t region_mark_size(const struct region_sum *sum);

/* Makes marks for the rows in use (region_marks.c). If memory is short, the
 * rows with the highest numbers get none. */
void region_input_make_marks(struct region_input *input);

/* Begins a scan, unless one is in progress, or has been made since the last
 * put. An ending input is always read. */
void region_input_begin(struct region_input *input);

/* Reads rows until the scan is complete or *cells_left is 0, and subtracts the
 * cost of reading, in cells. Returns false if no scan is in progress. */
bool region_input_read(struct region_input *input, uint64_t *cells_left);

/* Aborts a scan. No count is lost: the next scan begins at the first row. */
void region_input_stop(struct region_input *input);

/* Tracks an object for a row. If out of memory, frees it and returns false. */
bool region_object_show(struct region_input *input,
                        struct region_object *object,
                        struct region_sum_row *row);
void region_object_free(struct region_input *input,
                        struct region_object *object);

/* Stops counting the object for its row. A row without objects is hidden, with
 * Top not until the next choice, because a successor may continue it. */
void region_object_release(struct region_input *input,
                           struct region_object *object);

/* ---------------------------------------------------------------------------
 * Candidates: region_top.c
 */

/* Frees the candidates from index `from` on. */
void region_candidates_drop(struct region_input *input, size_t from);

/* Keeps only the candidates with the largest weights. */
void region_candidates_cut(struct region_input *input);

#endif
