/* region_sum: one table of a region, summed over all instances of the region.
 *
 * An object is what a producer's row holds from percore_row_add until
 * percore_row_remove. A row of the sum combines all objects with the same name,
 * and outlives the instances that hold them: its counters are what these
 * objects counted while the row was shown, and they never decrease. `other` is
 * what the whole table counted minus what the shown rows counted. So rows +
 * other = table, and rows that are not shown take no memory.
 *
 * A round has three steps. First, region_sum_begin begins it. Then
 * region_table.h adds the growth of each instance's shown rows to the rows of
 * the sum, and the rest of the growth of the instance's table to `other`. At
 * the end, region_sum_put puts the values into the snapshot.
 */
#ifndef PERCORE_PLUGIN_REGION_SUM_H
#define PERCORE_PLUGIN_REGION_SUM_H

#include "region_config.h"
#include "region_snapshot.h"

#include "region/reader.h"

struct region_instance_table;
struct region_watch_options;

/* MaxMemory limits the memory of all regions together. A single region, with
 * all its instances, may use half of MaxMemory, but at least REGION_MEMORY_OWN
 * bytes. One eighth of this is reserved for the names of rows. */
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

/* Logs a warning unless `told` is true. Then sets `told` to true. */
#define WARN_ONCE(told, ...)                                                   \
  do {                                                                         \
    if (!(told))                                                               \
      WARNING(__VA_ARGS__);                                                    \
    (told) = true;                                                             \
  } while (0)

#define REGION_SUM_NAME_SIZE 128

struct region_sum_field {
  char name[REGION_SUM_NAME_SIZE];
  char label[REGION_SUM_NAME_SIZE]; /* the field's name in identifiers */
  uint32_t kind, aggregation, column, cells, sub_bits;
  bool wanted;
  bool cycles; /* values are in cycles, which are converted to ns */
};

/* A row of the sum. Copy 0 is the sum over all cores, copy 1 + N is core N. */
struct region_sum_row {
  struct region_sum_row *next[2]; /* with the same hash: by name, by clean name
                                   */
  char *name[2];                  /* as the producer wrote it, and clean */
  const char *text; /* the clean name, in the snapshot that is being built */
  uint64_t round;   /* the last round in which the row was live; 0: never */
  uint64_t due; /* number of the first snapshot that contains the row's latest
                   counts, which later snapshots with the sum repeat; 0: the row
                   has not counted yet */
  const void *owner; /* instance whose gauges, levels and states were added last
                        in this round; NULL: none */
  uint32_t copies;   /* allocated */
  uint32_t objects;  /* tracked objects, over all instances */
  bool shown;        /* Top shows it, or MaxValues has room for it */
  bool clashes;      /* another row has the same clean name */
  bool several;      /* several instances contribute to it in this round */
  int64_t weight;    /* in this round; Top ranks by it */
  /* [copy][column]. For counters: the counts at the beginning of the round, and
   * now. Only those of `other` can decrease; the higher count is then
   * dispatched. Gauges, levels and states are only in `now`. */
  uint64_t *before, *now;
  struct region_first *first; /* [copy][field] */
};

struct region_columns {
  struct region_column {
    uint32_t column, field;
  } * list;
  uint32_t len;
};

/* The structure of a table, which never changes. */
struct region_shape {
  struct region_sum_field *fields;
  uint32_t field_count, columns, core_count;
  uint32_t copies_made; /* allocated: 1, or 1 + core_count */
  /* The columns to read. counters: those of counters and histograms; present:
   * those of gauges, levels and states. */
  struct region_columns counters, present;
  bool single, per_core; /* the table has a single row; it is PER_CORE */
  bool is_core;          /* the built-in table `core` */
  bool chooses_rows;     /* the option Row is set */
  int top_field;         /* index of the field that Top ranks by; -1: none */
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
  size_t rows;       /* rows that may be shown, including `other` */
  uint64_t left_out; /* live rows that are not shown, in this round */
  uint64_t live;     /* live rows, in this round */
  uint64_t wanted;   /* values over all cores that the sum would report if it
                        had room for all of them */
};

/* How many snapshots of a sum may be waiting for dispatch. */
#define REGION_SUM_SNAPSHOTS 8

/* What is known about earlier snapshots. */
struct region_sum_past {
  uint64_t put_ns; /* CLOCK_REALTIME: time of the last snapshot with the sum */
  /* Numbers of the last snapshots that contain the sum, newest first. */
  uint64_t snapshots[REGION_SUM_SNAPSHOTS];
  uint64_t dispatched; /* number of the last dispatched snapshot that contains
                          the sum */
  /* Every snapshot up to this number was dispatched or dropped. */
  uint64_t decided;
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
  /* What the rows that are not shown have counted together. A table with a
   * single row does not report it. */
  struct region_sum_row *other;
  bool other_shown; /* set once `other` has something to report; with Top,
                       always set */
  struct region_sum_room room;
  struct region_instance_table *tables; /* tables that are added to the sum */
  uint32_t open;        /* number of tables that are being read */
  uint32_t copies;      /* in use: 1, or 1 + core_count */
  uint8_t *core_used;   /* cores with a slot, in this round */
  uint64_t names_shown; /* incremented whenever Top shows another name */
  bool memory_short; /* there was too little memory to track a row or object in
                        this round */
  uint64_t round, round_put;
  struct region_sum_past past;
  bool clash_told, memory_told, left_out_told;
};

/* Allocates zeroed memory and charges it to the allowance. Returns NULL if the
 * allowance is too small or calloc fails. */
void *region_claim(struct region_allowance *allowance, size_t size);

/* Creates the sum for table t of a directory. `instance` is the instance's name
 * if ReportPerInstance is set, else "". tsc_hz is the frequency of the first
 * producer's TSC, which is used to convert cycles to time; 0: cycles are not
 * converted. Returns NULL if out of memory. */
struct region_sum *region_sum_new(const struct region_config *config,
                                  const struct region_directory *directory,
                                  uint32_t t, const char *instance,
                                  uint64_t tsc_hz,
                                  struct region_allowance_entry *region);
void region_sum_free(struct region_sum *sum);

/* True if the directory's table t has the same fields as the sum. */
bool region_sum_fits(const struct region_sum *sum,
                     const struct region_directory *directory, uint32_t t);

/* Tells the sum how many rows are live. By default, once a table has had more
 * than REGION_PER_CORE_ROWS live rows, it is no longer reported per core. */
void region_sum_count_live(struct region_sum *sum, uint64_t rows);

static inline size_t region_sum_cells(const struct region_sum *sum) {
  return (size_t)sum->shape.copies_made * sum->shape.columns;
}

/* ---------------------------------------------------------------------------
 * Rows and what is added to them: region_rows.c
 */

/* Copies the counts from `from` for fields with the same name and kind, so that
 * no counter decreases when a producer restarts with another schema. */
void region_sum_inherit(struct region_sum *sum, const struct region_sum *from);

/* Copies the name of a row, which is untrusted bytes, for use in an identifier.
 * `/`, `;`, `=`, `"`, blanks, deceptive characters (utf8.h) and bytes that are
 * not UTF-8 are replaced by `_`; an empty name becomes `_`. A name that does
 * not fit into size bytes is cut after a whole character. */
void region_name_clean(char *clean, size_t size, const char *name);

/* Both functions return the row with this name. If the sum has no such row,
 * region_sum_find returns NULL, and region_sum_name creates the row, or returns
 * NULL if out of memory. */
struct region_sum_row *region_sum_find(const struct region_sum *sum,
                                       const char *name);
struct region_sum_row *region_sum_name(struct region_sum *sum,
                                       const char *name);

/* Returns how many rows may be shown in addition to `other`. */
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

/* Records on which cores a worker has a slot. core_used: see struct
 * region_tile. */
void region_sum_use_cores(struct region_sum *sum, const uint8_t *core_used);

/* Combines the gauges, levels and states of one object with those in `now` or,
 * if `replace` is set, replaces those in `now`. Subtracts `bases` from gauges
 * unless `bases` is NULL. All arrays are indexed by column. */
void region_sum_add_present(const struct region_sum *sum, uint64_t *now,
                            const uint64_t *cells, const uint64_t *bases,
                            bool replace);

/* Computes by how much the cells of one copy have grown since `last`, and
 * updates `last`. If in_other is set, adds the growth to `other`. Unless `row`
 * is NULL, adds the growth to `row` and subtracts the same from `other`. A cell
 * that has decreased does not count until it exceeds its former value. Returns
 * the number of cells that have decreased. */
uint32_t region_sum_count(const struct region_sum *sum, uint32_t copy,
                          uint64_t *last, const uint64_t *cells,
                          struct region_sum_row *row, bool in_other);

/* Returns the estimated number of bytes per row. */
size_t region_sum_row_size(const struct region_sum *sum);

/* Frees the rows that were last live before `round`, except rows with tracked
 * objects or with counts that are not dispatched yet. Does nothing while a
 * round is being read. */
void region_sum_forget(struct region_sum *sum, uint64_t round);

/* If the sum has many more rows than it shows, frees those that have been
 * hidden longest. */
void region_sum_forget_most(struct region_sum *sum);

/* Ends the round and puts its values into the snapshot (region_values.c).
 * Returns early if the round is no longer wanted; the sum may then only be
 * freed. */
void region_sum_put(struct region_sum *sum, struct region_snapshot *snapshot,
                    const struct region_watch_options *options);

/* For the files of region_sum only. */
bool region_sum_make_room(struct region_sum *sum);
struct region_sum_row *region_sum_make_row(struct region_sum *sum,
                                           const char *name);
void region_sum_free_row(struct region_sum *sum, struct region_sum_row *row);

#endif
