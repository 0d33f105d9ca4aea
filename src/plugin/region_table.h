/* region_table: one table of one instance through time: which of its rows are
 * followed, and what they and the whole table counted since the last pass.
 *
 * A pass reads every row once, in as many rounds as it takes. It loads each
 * cell of the table once, whatever object the row holds at that moment, and
 * nobody ever zeroes a cell: the growth of the sum of all cells is what the
 * table counted, exactly, with no memory for single rows. Rows that are shown
 * are followed: what their cells grew by, by the same loads, is their own. The
 * rest goes to `other`. Private to region_watch. */
#ifndef PERCORE_PLUGIN_REGION_TABLE_H
#define PERCORE_PLUGIN_REGION_TABLE_H

#include "region_sum.h"
#include "region_top.h"

struct region_watch;
struct region_instance;

/* An object that is followed. */
struct region_part {
  struct region_sum_row *row; /* NULL: what it counts goes to `other` */
  uint32_t number;
  uint32_t incarnation;
  uint32_t copies;     /* that it was made with */
  uint32_t challenged; /* the pass in which it wanted to be shown */
  /* Both keep the place until the end of the pass: */
  bool hidden;     /* its row is shown for the last time */
  bool ended;      /* not followed any more */
  uint64_t last[]; /* [copy][column]: raw, as the sum of the table has it; of a
                      gauge of a core where it began */
};

/* What is kept of every row of a table under Top or Row. */
struct region_mark {
  uint32_t incarnation; /* 0: no object was seen here */
  uint32_t challenged;  /* the pass in which it wanted to be shown */
  uint64_t weighed;     /* of the column that Top ranks by, raw */
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
  char *name;
  struct region_sum *sum; /* NULL: there is none that it can be added to */
  bool from_zero;         /* all that it has counted is to be reported */
  bool looked;            /* a pass was completed */
  bool odd_told;          /* why it has no sum */
  enum region_final final;
  uint64_t names_seen;   /* names_shown of the sum at the last pass */
  uint64_t round;        /* of the sum, in which its pass began */
  uint64_t round_before; /* the same of the producer before */
  uint32_t pass;
  uint64_t left_out; /* rows that could not be followed in the last pass, or
                        lost their place since */
  struct region_reading *reading; /* NULL: between two passes */
  uint64_t *last, *now; /* [copy][column]: the table's sum after the last pass,
                           and so far in this one */
  uint64_t *rest; /* [copy][column]: growth less that of shown rows, in work */
  struct region_mark *marks; /* max_rows; NULL: none are needed, or no memory */
  size_t marks_size;
  uint32_t marks_len;                 /* rows that the allowance has room for */
  uint32_t rows_passed, marks_passed; /* the last pass had so many */
  struct region_part **parts;         /* by number */
  uint32_t parts_len, parts_capacity;
  struct region_top challengers; /* of the last pass */
  size_t bytes;                  /* of the allowance, without parts */
};

/* Begins a pass, unless one is under way or this round has had one. `ended`:
 * the producer has ended, so this is the last pass. False if there is none. */
bool region_table_begin(struct region_watch *watch,
                        struct region_instance *instance, uint32_t t,
                        bool ended);

/* Reads rows for about so many cells, which it takes off. True if the pass is
 * complete. */
bool region_table_read(struct region_instance_table *table,
                       uint64_t *cells_left);

/* Cells that are read in some milliseconds. */
#define REGION_PIECE_CELLS UINT64_C(131072)

/* Makes rows that have won a place into parts of the row of the sum. */
void region_table_show(struct region_instance *instance, uint32_t t,
                       const struct region_challenger *challenger,
                       struct region_sum_row *row);

/* A row that wanted to be shown and is not: when it wants to the next time, it
 * is known to have wanted to before. */
void region_table_remember(struct region_instance_table *table,
                           const struct region_challenger *challenger);

/* Lets go of the parts of rows that Top does not show any more. */
void region_table_hide(struct region_instance_table *table);

/* Breaks off a pass: nothing is lost, the next one begins at the first row. */
void region_table_stop(struct region_instance_table *table);

/* Lets go of all that is known of the rows, and of the sum. */
void region_table_leave(struct region_instance *instance, uint32_t t);

/* ---------------------------------------------------------------------------
 * Private to region_table.c, region_follow.c and region_choice.c
 */

/* What is at hand during a pass. */
struct region_reading {
  struct region_watch *watch;
  struct region_instance *instance;
  struct region_instance_table *table;
  struct region_sum *sum;
  uint32_t number; /* of the table */
  bool is_final;   /* its producer has ended */
  struct region_tile tile;
  uint32_t next_row, next_part, parts_len;
  bool looks_names_up;     /* rows may have names that are shown lately */
  uint64_t live, left_out; /* rows */
  uint32_t unmarked;       /* rows in use that there is no memory for */
};

/* It had no mark in the last pass, so what it counted is in `other`; under Row
 * it is nowhere. */
static inline bool
region_table_passed_over(const struct region_instance_table *table,
                         uint32_t row) {
  return !table->sum->chooses_rows && row >= table->marks_passed &&
         row < table->rows_passed;
}

/* What the rows of a tile counted, and what becomes of them. */
void region_follow_tile(struct region_reading *reading);

/* A part for the row at place i of the tile. NULL without memory, or if the row
 * holds another object by now. */
struct region_part *region_part_new(struct region_reading *reading, uint32_t i,
                                    struct region_sum_row *row,
                                    bool from_birth);

void region_part_show(struct region_sum *sum, struct region_part *part,
                      struct region_sum_row *row);

/* From the next round on what it counts goes to `other`. */
void region_part_let_go(struct region_sum *sum, struct region_part *part);

/* Removes parts that ended, and sorts the others. */
void region_parts_tidy(struct region_instance_table *table);

#endif
