/* region_sum: one table of a region, summed over all instances of the region.
 *
 * A shown row is identified by its name and outlives the instances that have
 * it: its counters are what its objects counted while it was shown, and they
 * never decrease. `other` is what the whole table counted minus what the shown
 * rows counted. So rows + other = table, and rows that are not shown take no
 * memory. A round consists of these calls:
 *
 *   region_sum_begin
 *   for each instance (region_table.h): region_sum_add and region_sum_grow for
 *   its rows, then region_sum_settle for the table
 *   region_sum_put
 */
#ifndef PERCORE_PLUGIN_REGION_SUM_H
#define PERCORE_PLUGIN_REGION_SUM_H

#include "region_config.h"
#include "region_snapshot.h"

#include "region/reader.h"

struct region_instance_table;

struct region_sum_field {
  char *name;
  char *plugin_core, *plugin_host; /* in identifiers */
  uint32_t kind, aggregation, column, cells, sub_bits;
  bool wanted;
  bool cycles; /* converted to ns */
};

/* A row of the sum. Copy 0 is the sum over all cores, copy 1 + N is core N. */
struct region_sum_row {
  struct region_sum_row *next_by_name, *next_by_clean;
  char *name, *clean;
  const char *text; /* the clean name, in the snapshot that is being built */
  uint64_t round;   /* the last round in which the row was live; 0: never */
  uint64_t present_round; /* the last round in which its gauges, levels and
                             states were read */
  uint64_t grown;         /* the round that delta and weight belong to */
  uint64_t used; /* the last round in which the row was shown or named */
  uint64_t due;  /* the row's latest counts are in this snapshot and every later
                    one that contains the sum; 0: the row has not counted yet */
  const void *owner; /* instance whose object was added last */
  uint32_t copies;   /* allocated */
  uint32_t objects;  /* tracked objects, over all instances */
  bool waits;   /* has no objects, and its last counts are not dispatched yet */
  bool clashes; /* another row has the same clean name */
  bool several; /* several instances have the row in this round */
  bool top;     /* Top shows it */
  int64_t weight;  /* Top ranks by it */
  uint64_t *now;   /* [copy][column]: counts, or gauges, levels and states */
  uint64_t *delta; /* [copy][column]: growth in this round */
  struct region_first *first; /* [copy][field] */
};

/* How many snapshots of a sum may be waiting for dispatch. */
#define REGION_SUM_SNAPSHOTS 8

/* The structure of a table; does not change. */
struct region_shape {
  struct region_sum_field *fields;
  uint32_t field_count, columns, core_count;
  uint32_t copies_made;           /* allocated: 1, or 1 + core_count */
  uint32_t *kinds, *aggregations; /* by column */
  struct region_sum_counter {
    uint32_t column, field;
  } * counters;      /* counter and histogram columns that are needed */
  uint32_t *present; /* columns of gauges, levels and states */
  uint32_t counters_len, present_len;
  bool single, per_core; /* the table has a single row; it is PER_CORE */
  bool is_core;          /* the built-in table `core` */
  bool chooses_rows;     /* the option Row is set */
  int top_field;         /* -1: no Top */
  char **labels;         /* plugin instance of each copy */
};

struct region_sum_rows {
  struct region_sum_row **list;
  size_t len, capacity;
  struct region_sum_row **by_name, **by_clean; /* hash chains */
  size_t chains;
  size_t tracked; /* rows with tracked objects */
  size_t waiting; /* rows without objects whose last counts are not dispatched
                     yet */
};

/* What the rows that are not shown have counted together. */
struct region_sum_other {
  struct region_sum_row *row; /* NULL for a table of a single row */
  /* [copy][column], signed: how much the table grew, minus how much the shown
   * rows grew. `other` shows the highest value so far. */
  uint64_t *balance;
  bool shown; /* shown from now on, because it has counted something */
  bool begun; /* includes gauges or levels */
  bool twice; /* includes the gauges or levels of one instance twice */
};

/* The sum's share of MaxValues. */
struct region_sum_room {
  bool any;          /* enough for one row or `other` */
  size_t rows;       /* rows that may be shown in addition */
  uint64_t left_out; /* live rows that are not shown, in this round */
  uint64_t live;     /* live rows, in this round */
  uint64_t wanted;   /* values for the host if all rows were shown */
};

struct region_sum {
  const struct region_config *region_config;
  const struct region_table_config *config; /* NULL: no <Table> block */
  char *table;
  uint64_t tsc_hz; /* 0: cycles are not converted */
  struct region_shape shape;
  struct region_sum_rows rows;
  struct region_sum_other other;
  struct region_sum_room room;
  struct region_allowance *allowance;
  struct region_instance_table *tables; /* tables that are added to the sum */
  bool shared;          /* several instances have had the table */
  uint32_t open;        /* tables that are being read */
  uint32_t copies;      /* in use: 1, or 1 + core_count */
  uint8_t *core_used;   /* cores with a slot, in this round */
  uint64_t *scratch;    /* one cell for each column */
  uint64_t names_shown; /* incremented whenever Top shows another name */
  bool memory_short;    /* a row or object was not tracked in this round */
  uint64_t round, round_put;
  uint64_t put_ns; /* CLOCK_REALTIME: timestamp of the last snapshot */
  /* Numbers of the last snapshots that contain the sum, newest first. */
  uint64_t snapshots[REGION_SUM_SNAPSHOTS];
  uint64_t dispatched; /* the last one that was dispatched */
  uint64_t decided;    /* snapshots up to this one were dispatched or dropped */
  bool clash_told, memory_told, left_out_told;
};

/* Allocates zeroed memory and charges it to the allowance. Returns NULL if
 * either has too little. */
void *region_claim(struct region_allowance *allowance, size_t size);

/* Creates the sum for table t of a directory. `instance` is the instance's name
 * if ReportPerInstance is set, else NULL; tsc_hz is that of the first producer.
 * Returns NULL if out of memory. */
struct region_sum *region_sum_new(const struct region_config *config,
                                  const struct region_directory *directory,
                                  uint32_t t, const char *instance,
                                  uint64_t tsc_hz,
                                  struct region_allowance *allowance);
void region_sum_free(struct region_sum *sum);

/* True if the directory's table t has the same fields as the sum. */
bool region_sum_fits(const struct region_sum *sum,
                     const struct region_directory *directory, uint32_t t);

/* True if cores are reported individually. */
static inline bool region_sum_has_cores(const struct region_sum *sum) {
  return sum->copies > 1;
}

/* By default a table that ever had more than REGION_PER_CORE_ROWS live rows is
 * no longer reported per core. */
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

/* Copies the counts of fields with the same name and kind, so that no counter
 * decreases when a producer restarts with another schema. */
void region_sum_inherit(struct region_sum *sum, const struct region_sum *from);

/* region_sum_find returns NULL if there is no such row. region_sum_name creates
 * the row, and returns NULL if out of memory. */
struct region_sum_row *region_sum_find(const struct region_sum *sum,
                                       const char *name);
struct region_sum_row *region_sum_name(struct region_sum *sum,
                                       const char *name);

/* True if MaxValues leaves no room for another row. */
static inline bool region_sum_is_full(const struct region_sum *sum) {
  return sum->shape.single
             ? !sum->room.any
             : sum->rows.tracked + sum->rows.waiting >= sum->room.rows;
}

/* Records which earlier snapshots were dispatched. */
void region_sum_note(struct region_sum *sum,
                     const struct region_outlet *outlet);

/* True if the row's latest counts are not known to have been dispatched. */
static inline bool region_sum_is_due(const struct region_sum *sum,
                                     const struct region_sum_row *row) {
  return row->due > sum->dispatched;
}

/* True if this holds for any row, and the sum has room to show rows. */
bool region_sum_has_due(const struct region_sum *sum);

/* Begins a round. Has no effect until the previous round is completely read and
 * put. */
void region_sum_begin(struct region_sum *sum, uint64_t round);
/* A table is read again in the same round: its gauges, levels and states
 * replace the earlier ones. */
void region_sum_begin_again(struct region_sum *sum);
void region_sum_use_cores(struct region_sum *sum, const uint8_t *core_used);

/* The row is live, with these gauges, levels and states, indexed like
 * shape.present. `present` is NULL if the object ended before it could be read.
 * Returns true if the values replace those that were added earlier in this
 * round; then the other copies must replace theirs, too. */
bool region_sum_add(struct region_sum *sum, struct region_sum_row *row,
                    const void *owner, const uint64_t *present);
void region_sum_add_core(struct region_sum *sum, struct region_sum_row *row,
                         uint32_t core, const uint64_t *present, bool replace);

/* True if the growth of this cell belongs to the row and not to `other`. A
 * series that Top shows counts only after its first point was dispatched. */
static inline bool region_sum_counts(const struct region_sum *sum,
                                     const struct region_sum_row *row,
                                     uint32_t copy, uint32_t field) {
  uint64_t first = row->first[copy * sum->shape.field_count + field].snapshot;
  return sum->shape.top_field < 0 || (first != 0 && first <= sum->dispatched);
}

/* The row's growth in this round, [copy][column]; the caller adds to it. */
uint64_t *region_sum_grow(struct region_sum *sum, struct region_sum_row *row);

/* Adds the gauges and levels of a live row that is not shown. */
void region_sum_add_to_other(struct region_sum *sum, const uint64_t *present);

/* Adds the growth of one instance's table, minus the growth that was added to
 * rows; [copy][column], modulo 2^64. */
void region_sum_settle(struct region_sum *sum, const uint64_t *remainder);

/* Moves what a row added in this round to `other`, because the row is not
 * shown. */
void region_sum_move_to_other(struct region_sum *sum,
                              struct region_sum_row *row);

/* Estimated bytes per row. */
size_t region_sum_row_size(const struct region_sum *sum);

/* Frees rows that were last shown before this round. */
void region_sum_forget(struct region_sum *sum, uint64_t round);

/* Frees the rows that have been hidden longest, if there are many times more
 * rows than shown ones. */
void region_sum_forget_most(struct region_sum *sum);

/* Limits the argument of region_sum_forget to rounds that were put: rows of a
 * round that is still being read are needed. */
static inline uint64_t region_sum_forget_before(const struct region_sum *sum,
                                                uint64_t round) {
  uint64_t put = sum->open == 0 ? sum->round_put : 0;
  return round < put ? round : put;
}

/* Ends the round (region_values.c). Returns early once is_wanted(argument) is
 * false; after that the sum may only be freed. */
void region_sum_put(struct region_sum *sum, struct region_snapshot *snapshot,
                    uint64_t interval_ns, bool (*is_wanted)(void *argument),
                    void *argument);

/* For the files of region_sum only. */
struct region_sum_row *region_sum_make_row(struct region_sum *sum,
                                           const char *name);
void region_sum_free_row(struct region_sum *sum, struct region_sum_row *row);

#endif
