/* region_sum: one table of a region, summed over all instances of the region.
 *
 * An object is what a producer's row holds from percore_row_add until
 * percore_row_remove. A row of the sum has all objects of one name, and
 * outlives the instances that have them: its counters are what these objects
 * counted while the row was shown, and they never decrease. `other` is what the
 * whole table counted minus what the shown rows counted. So rows + other =
 * table, and rows that are not shown take no memory. A round has three steps:
 *
 *   region_sum_begin
 *   for each instance, region_table.h adds the growth of its shown rows to
 * these rows, and the rest of the table's growth to `other` region_sum_put
 */
#ifndef PERCORE_PLUGIN_REGION_SUM_H
#define PERCORE_PLUGIN_REGION_SUM_H

#include "region_config.h"
#include "region_snapshot.h"

#include "region/reader.h"

struct region_instance_table;
struct region_watch_options;

/* MaxMemory limits all regions together. A region with all its instances gets
 * half of that, of which an eighth is reserved for names, but at least
 * REGION_MEMORY_OWN. */
#define REGION_MEMORY_OWN ((size_t)1 << 20)
struct region_allowances {
  struct region_allowance all;
  struct region_allowance_entry {
    struct region_allowance_entry *next;
    struct region_allowance region, rows;
    /* Used while MaxValues is shared out: how many sums of this region have no
     * share yet, and how many values all its sums want. */
    uint64_t sums, wanted;
    size_t instances;
    char name[128];
  } * list;
};

/* Logs a warning unless `told` is set, and sets it. */
#define WARN_ONCE(told, ...)                                                   \
  do {                                                                         \
    if (!(told))                                                               \
      WARNING(__VA_ARGS__);                                                    \
    (told) = true;                                                             \
  } while (0)

#define REGION_SUM_NAME_SIZE 128

struct region_sum_field {
  char name[REGION_SUM_NAME_SIZE];
  char label[REGION_SUM_NAME_SIZE]; /* the name in identifiers */
  uint32_t kind, aggregation, column, cells, sub_bits;
  bool wanted;
  bool cycles; /* converted to ns */
};

/* A row of the sum. Copy 0 is the sum over all cores, copy 1 + N is core N. */
struct region_sum_row {
  struct region_sum_row *next[2]; /* with the same hash: by name, by clean name
                                   */
  char *name[2];                  /* as produced, and clean */
  const char *text;  /* the clean name, in the snapshot that is being built */
  uint64_t round;    /* the last round in which the row was live; 0: never */
  uint64_t due;      /* the row's latest counts are in this snapshot and every
                        later one that contains the sum; 0: the row has not
                        counted yet */
  const void *owner; /* instance whose gauges, levels and states were added last
                        in this round; NULL: none */
  uint32_t copies;   /* allocated */
  uint32_t objects;  /* tracked objects, over all instances */
  bool shown;        /* Top shows it, or MaxValues has room for it */
  bool clashes;      /* another row has the same clean name */
  bool several;      /* several instances have the row in this round */
  int64_t weight;    /* in this round; Top ranks by it */
  /* [copy][column], counters: counts at the beginning of the round, and now.
   * Only `other` can decrease; it shows the higher of the two. Gauges, levels
   * and states are in `now`. */
  uint64_t *before, *now;
  struct region_first *first; /* [copy][field] */
};

struct region_columns {
  struct region_column {
    uint32_t column, field;
  } * list;
  uint32_t len;
};

/* The structure of a table; does not change. */
struct region_shape {
  struct region_sum_field *fields;
  uint32_t field_count, columns, core_count;
  uint32_t copies_made; /* allocated: 1, or 1 + core_count */
  /* The columns that are needed. counters: of counters and histograms; present:
   * of gauges, levels and states. */
  struct region_columns counters, present;
  bool single, per_core; /* the table has a single row; it is PER_CORE */
  bool is_core;          /* the built-in table `core` */
  bool chooses_rows;     /* the option Row is set */
  int top_field;         /* -1: no Top */
};

struct region_sum_rows {
  struct region_sum_row **list;
  size_t len, capacity;
  struct region_sum_row **chains[2]; /* hash tables of `capacity` chains */
  size_t places; /* rows that are shown, and rows whose last counts are not
                    dispatched yet */
};

/* The sum's share of MaxValues. */
struct region_sum_room {
  size_t rows;       /* rows that may be shown, with `other` */
  uint64_t left_out; /* live rows that are not shown, in this round */
  uint64_t live;     /* live rows, in this round */
  uint64_t wanted;   /* values for the host if all rows were shown */
};

/* How many snapshots of a sum may be waiting for dispatch. */
#define REGION_SUM_SNAPSHOTS 8

/* Earlier snapshots. */
struct region_sum_past {
  uint64_t put_ns; /* CLOCK_REALTIME: timestamp of the last one */
  /* Numbers of the last ones that contain the sum, newest first. */
  uint64_t snapshots[REGION_SUM_SNAPSHOTS];
  uint64_t dispatched; /* the last of these that was dispatched */
  uint64_t decided;    /* all up to this number were dispatched or dropped */
};

struct region_sum {
  const struct region_config *region_config;
  const struct region_table_config *config; /* NULL: no <Table> block */
  struct region_allowance_entry *region;
  char instance[REGION_SUM_NAME_SIZE]; /* "" unless ReportPerInstance is set */
  char table[REGION_SUM_NAME_SIZE];
  uint64_t tsc_hz; /* 0: cycles are not converted */
  struct region_shape shape;
  struct region_sum_rows rows;
  /* What the rows that are not shown have counted together. Not shown for a
   * table of a single row. */
  struct region_sum_row *other;
  bool other_shown; /* from now on, because something belongs there */
  struct region_sum_room room;
  struct region_instance_table *tables; /* tables that are added to the sum */
  uint32_t open;                        /* tables that are being read */
  uint32_t copies;                      /* in use: 1, or 1 + core_count */
  uint8_t *core_used;                   /* cores with a slot, in this round */
  uint64_t names_shown; /* incremented whenever Top shows another name */
  bool memory_short;    /* a row or object was not tracked in this round */
  uint64_t round, round_put;
  struct region_sum_past past;
  bool clash_told, memory_told, left_out_told;
};

/* Allocates zeroed memory and charges it to the allowance. Returns NULL if
 * either has too little. */
void *region_claim(struct region_allowance *allowance, size_t size);

/* Creates the sum for table t of a directory. `instance` is the instance's name
 * if ReportPerInstance is set, else ""; tsc_hz is that of the first producer.
 * Returns NULL if out of memory. */
struct region_sum *region_sum_new(const struct region_config *config,
                                  const struct region_directory *directory,
                                  uint32_t t, const char *instance,
                                  uint64_t tsc_hz,
                                  struct region_allowance_entry *region);
void region_sum_free(struct region_sum *sum);

/* True if the directory's table t has the same fields as the sum. */
bool region_sum_fits(const struct region_sum *sum,
                     const struct region_directory *directory, uint32_t t);

/* By default a table that ever had more than REGION_PER_CORE_ROWS live rows is
 * no longer reported per core. */
void region_sum_count_live(struct region_sum *sum, uint64_t rows);

static inline size_t region_sum_cells(const struct region_sum *sum) {
  return (size_t)sum->shape.copies_made * sum->shape.columns;
}

/* ---------------------------------------------------------------------------
 * Rows and what is added to them: region_rows.c
 */

/* Copies the counts of fields with the same name and kind, so that no counter
 * decreases when a producer restarts with another schema. */
void region_sum_inherit(struct region_sum *sum, const struct region_sum *from);

/* Copies the name of a row, which is untrusted bytes, for use in an identifier.
 * `/`, `;`, `=`, `"`, blanks, deceptive characters (utf8.h) and bytes that are
 * not UTF-8 are replaced by `_`; an empty name becomes `_`. A name that does
 * not fit into size bytes is cut after a whole character. */
void region_name_clean(char *clean, size_t size, const char *name);

/* region_sum_find returns NULL if there is no such row. region_sum_name creates
 * the row, and returns NULL if out of memory. */
struct region_sum_row *region_sum_find(const struct region_sum *sum,
                                       const char *name);
struct region_sum_row *region_sum_name(struct region_sum *sum,
                                       const char *name);

/* The number of rows that may be shown besides `other`. */
static inline size_t region_sum_room(const struct region_sum *sum) {
  bool has_other = sum->room.rows > 0 && !sum->shape.single;
  return sum->room.rows - has_other;
}

/* True if MaxValues leaves no room for another row. */
static inline bool region_sum_is_full(const struct region_sum *sum) {
  return sum->rows.places >= region_sum_room(sum);
}

/* Records which earlier snapshots were dispatched. */
void region_sum_note(struct region_sum *sum,
                     const struct region_outlet *outlet);

/* True if the row's latest counts are not known to have been dispatched. */
static inline bool region_sum_is_due(const struct region_sum *sum,
                                     const struct region_sum_row *row) {
  return row->due > sum->past.dispatched;
}

/* True if any row is due (region_sum_is_due) and the sum has room to show rows.
 */
bool region_sum_has_due(const struct region_sum *sum);

/* Begins a round. Has no effect until the previous round is completely read and
 * put. */
void region_sum_begin(struct region_sum *sum, uint64_t round);

/* Adds cores that have a slot. core_used: see struct region_tile. */
void region_sum_use_cores(struct region_sum *sum, const uint8_t *core_used);

/* Sets or adds the gauges, levels and states of one object. For gauges, `bases`
 * are subtracted; NULL: nothing. All arrays are indexed by column. */
void region_sum_add_present(const struct region_sum *sum, uint64_t *now,
                            const uint64_t *cells, const uint64_t *bases,
                            bool replace);

/* Counts by how much the cells of one copy exceed `last`, and updates `last`.
 * Counts for `row` unless it is NULL and, if in_other is set, for `other`, too.
 * What the row counts is subtracted from `other`. A cell that decreased counts
 * again once it exceeds its former value. Returns the number of such cells. */
uint32_t region_sum_count(const struct region_sum *sum, uint32_t copy,
                          uint64_t *last, const uint64_t *cells,
                          struct region_sum_row *row, bool in_other);

/* Estimated bytes per row. */
size_t region_sum_row_size(const struct region_sum *sum);

/* Frees rows that were last live before this round, but not rows of a round
 * that is still being read. */
void region_sum_forget(struct region_sum *sum, uint64_t round);

/* Frees the rows that have been hidden longest, if there are many times more
 * rows than shown ones. */
void region_sum_forget_most(struct region_sum *sum);

/* Ends the round (region_values.c). Returns early once the round is no longer
 * wanted; after that the sum may only be freed. */
void region_sum_put(struct region_sum *sum, struct region_snapshot *snapshot,
                    const struct region_watch_options *options);

/* For the files of region_sum only. */
bool region_sum_make_room(struct region_sum *sum);
struct region_sum_row *region_sum_make_row(struct region_sum *sum,
                                           const char *name);
void region_sum_free_row(struct region_sum *sum, struct region_sum_row *row);

#endif
