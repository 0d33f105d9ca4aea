/* region_sum: one table of a region, summed over the instances of the region.
 *
 * A row that is shown has a name here and goes on under it, whichever instances
 * come and go: its counters are what its objects counted while it was shown,
 * and never step back. `other` is what the whole table counted less what the
 * shown rows counted, so that rows + other = table, with no memory for the rows
 * that are not shown. In a round:
 *
 *   region_sum_begin; of each instance (region_table.h): region_sum_add and
 *   region_sum_grow for rows, region_sum_settle for the table; region_sum_put
 */
#ifndef PERCORE_PLUGIN_REGION_SUM_H
#define PERCORE_PLUGIN_REGION_SUM_H

#include "region_config.h"
#include "region_snapshot.h"

#include "region/reader.h"

struct region_instance_table;

struct region_sum_field {
  char *name;
  char *plugin_core, *plugin_host; /* of its identifiers */
  uint32_t kind, aggregation, column, cells, sub_bits;
  bool wanted;
  bool cycles; /* shown in ns */
};

/* Copy 0 is over all cores, 1 + N is core N. */
struct region_sum_row {
  struct region_sum_row *next_by_name, *next_by_clean;
  char *name, *clean;
  const char *text; /* clean name, in the snapshot that is being built */
  uint64_t round;   /* the last round in which the row was live; 0: never */
  uint64_t present_round; /* the same for gauges, levels and states */
  uint64_t grown;         /* the round that delta and weight are of */
  uint64_t used;          /* the last round in which it was shown, or named */
  uint64_t due;      /* every snapshot of this number and later that has the sum
                        has the row's present counts; 0: there are no counts */
  const void *owner; /* of the part that was added last */
  uint32_t copies;   /* that it was made with */
  uint32_t objects;  /* objects of instances that are followed for it */
  bool waits;        /* shown, without parts, for its last counts */
  bool clashes;      /* another row has the same clean name */
  bool several;      /* several instances have it now */
  bool top;          /* shown by itself, where the option Top is */
  int64_t weight;    /* by which Top ranks */
  uint64_t *now;     /* [copy][column]: counts, or present values */
  uint64_t *delta;   /* [copy][column]: growth in this round */
  struct region_first *first; /* [copy][field] */
};

/* Snapshots of a sum whose fate may still be unknown. */
#define REGION_SUM_SNAPSHOTS 8

/* What the table looks like. */
struct region_shape {
  struct region_sum_field *fields;
  uint32_t field_count, columns, core_count;
  uint32_t copies_made;           /* 1, or 1 + core_count */
  uint32_t *kinds, *aggregations; /* by column */
  struct region_sum_counter {
    uint32_t column, field;
  } * counters;      /* reported columns that only grow: counters, buckets */
  uint32_t *present; /* columns of gauges, levels and states */
  uint32_t counters_len, present_len;
  bool single, per_core; /* the table has one row; is PER_CORE */
  bool is_core;          /* it is the built-in one */
  bool chooses_rows;     /* by the option Row */
  int top_field;         /* -1: no Top */
  char **labels;         /* by copy: the plugin instance */
};

struct region_sum_rows {
  struct region_sum_row **list;
  size_t len, capacity;
  struct region_sum_row **by_name, **by_clean; /* chains */
  size_t chains;
  size_t tracked; /* rows that have objects */
  size_t waiting; /* rows that have none and wait for their last counts */
};

/* The rows that are not shown. */
struct region_sum_other {
  struct region_sum_row *row; /* NULL for a table of a single row */
  uint64_t *balance; /* [copy][column], signed: growth of the table less that of
                        shown rows; `other` is its greatest value so far */
  bool shown;        /* from now on: something belongs there */
  bool begun;        /* gauges or levels are in it */
  bool twice;        /* gauges or levels of one instance are in it twice */
};

/* Its share of MaxValues. */
struct region_sum_room {
  bool any;          /* for a row or `other` */
  size_t rows;       /* to be shown besides */
  uint64_t left_out; /* live rows that are not shown, in this round */
  uint64_t live;     /* live rows in this round */
  uint64_t wanted;   /* values of the host that all rows would have */
};

struct region_sum {
  const struct region_config *region_config;
  const struct region_table_config *config; /* NULL: none */
  char *table;
  uint64_t tsc_hz; /* 0: cycles stay cycles */
  struct region_shape shape;
  struct region_sum_rows rows;
  struct region_sum_other other;
  struct region_sum_room room;
  struct region_allowance *allowance;
  struct region_instance_table *tables; /* that are added to it */
  bool shared;                          /* by several instances, at some time */
  uint32_t open;        /* tables of instances that are still being read */
  uint32_t copies;      /* that are read: 1, or 1 + core_count */
  uint8_t *core_used;   /* in this round */
  uint64_t *scratch;    /* a cell of each column */
  uint64_t names_shown; /* changes whenever Top shows another name */
  bool memory_short;    /* something could not be tracked in this round */
  uint64_t round, round_put;
  uint64_t put_ns; /* CLOCK_REALTIME: stamp of the last snapshot */
  uint64_t snapshots[REGION_SUM_SNAPSHOTS]; /* numbers of the last that have
                                               the sum, the newest first */
  uint64_t dispatched; /* the last of them that is known to be dispatched */
  uint64_t decided;    /* what became of snapshots up to this one is known */
  bool clash_told, memory_told, left_out_told;
};

/* For table t of a directory. instance: the name of the instance that is told
 * apart, or NULL. tsc_hz: of the first producer. NULL if out of memory. */
struct region_sum *region_sum_new(const struct region_config *config,
                                  const struct region_directory *directory,
                                  uint32_t t, const char *instance,
                                  uint64_t tsc_hz,
                                  struct region_allowance *allowance);
void region_sum_free(struct region_sum *sum);

/* Whether that table has the same fields. */
bool region_sum_fits(const struct region_sum *sum,
                     const struct region_directory *directory, uint32_t t);

/* Single cores are reported. */
static inline bool region_sum_has_cores(const struct region_sum *sum) {
  return sum->copies > 1;
}

/* By default a table that ever had more live rows is not reported core by core.
 */
void region_sum_count_live(struct region_sum *sum, uint64_t rows);

static inline bool region_sum_is_counter(uint32_t kind) {
  return kind == PERCORE_COUNTER || kind == PERCORE_HISTOGRAM;
}

static inline size_t region_sum_cells(const struct region_sum *sum) {
  return (size_t)sum->shape.copies_made * sum->shape.columns;
}

/* ---------------------------------------------------------------------------
 * Rows and what is added to them: region_rows.c
 */

/* Takes over what fields of the same name and kind have counted, so that no
 * counter steps back when a producer is restarted with another schema. */
void region_sum_inherit(struct region_sum *sum, const struct region_sum *from);

/* NULL if there is no row of that name, or no memory for it. */
struct region_sum_row *region_sum_find(const struct region_sum *sum,
                                       const char *name);
struct region_sum_row *region_sum_name(struct region_sum *sum,
                                       const char *name);

/* MaxValues leaves no place for another row. */
static inline bool region_sum_is_full(const struct region_sum *sum) {
  return sum->shape.single
             ? !sum->room.any
             : sum->rows.tracked + sum->rows.waiting >= sum->room.rows;
}

/* Takes note of what became of earlier snapshots. */
void region_sum_note(struct region_sum *sum,
                     const struct region_outlet *outlet);

/* True if no snapshot with the present counts of the row is known to have been
 * dispatched. */
static inline bool region_sum_is_due(const struct region_sum *sum,
                                     const struct region_sum_row *row) {
  return row->due > sum->dispatched;
}

/* True if that holds for any row that can be shown. */
bool region_sum_has_due(const struct region_sum *sum);

/* Does nothing until the previous round is completely read and put. */
void region_sum_begin(struct region_sum *sum, uint64_t round);
/* Everything is read once more in the same round: gauges, levels and states are
 * not added twice. */
void region_sum_begin_again(struct region_sum *sum);
void region_sum_use_cores(struct region_sum *sum, const uint8_t *core_used);

/* The row is there with these gauges, levels and states ([present]; NULL: the
 * row ended unseen, they are not known). Returns whether they replace what was
 * added before in this round, as other copies must do, too. */
bool region_sum_add(struct region_sum *sum, struct region_sum_row *row,
                    const void *owner, const uint64_t *present);
void region_sum_add_core(struct region_sum *sum, struct region_sum_row *row,
                         uint32_t core, const uint64_t *present, bool replace);

/* Whether growth of this copy is the row's own: an identifier that Top shows
 * counts from its first point on, once that has reached the stores. */
static inline bool region_sum_counts(const struct region_sum *sum,
                                     const struct region_sum_row *row,
                                     uint32_t copy, uint32_t field) {
  uint64_t first = row->first[copy * sum->shape.field_count + field].snapshot;
  return sum->shape.top_field < 0 || (first != 0 && first <= sum->dispatched);
}

/* Growth of a row in this round, [copy][column], to add to. */
uint64_t *region_sum_grow(struct region_sum *sum, struct region_sum_row *row);

/* A live row that is not shown. */
void region_sum_add_to_other(struct region_sum *sum, const uint64_t *present);

/* Growth of a table of an instance, less the part that was added to rows;
 * [copy][column] modulo 2^64. */
void region_sum_settle(struct region_sum *sum, const uint64_t *remainder);

/* What a row that is not shown added in this round goes to `other`. */
void region_sum_move_to_other(struct region_sum *sum,
                              struct region_sum_row *row);

/* About how many bytes a row takes. */
size_t region_sum_row_size(const struct region_sum *sum);

/* Forgets rows that were not shown in that round or later. */
void region_sum_forget(struct region_sum *sum, uint64_t round);

/* Forgets the names that have not been shown for longest, beyond a multiple of
 * the number that is shown. */
void region_sum_forget_most(struct region_sum *sum);

/* That round, or the last that was put if it is earlier; none while the next is
 * read: what it brought for a row is not put yet. */
static inline uint64_t region_sum_forget_before(const struct region_sum *sum,
                                                uint64_t round) {
  uint64_t put = sum->open == 0 ? sum->round_put : 0;
  return round < put ? round : put;
}

/* Ends the round: region_values.c. Leaves off as soon as is_wanted(argument)
 * is false; the sum is then good for nothing but region_sum_free. */
void region_sum_put(struct region_sum *sum, struct region_snapshot *snapshot,
                    uint64_t interval_ns, bool (*is_wanted)(void *argument),
                    void *argument);

/* Private to the files of the sum. */
struct region_sum_row *region_sum_make_row(struct region_sum *sum,
                                           const char *name);
void region_sum_free_row(struct region_sum *sum, struct region_sum_row *row);

#endif
