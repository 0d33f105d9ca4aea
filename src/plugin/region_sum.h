/* region_sum: one table of a region as it is reported, summed over all
 * producers of the region.
 *
 * A row has the counts that were made under its name while the row was shown.
 * They never decrease, whatever happens to producers. `other` has the rest of
 * what the table counted, so rows + other = table, and rows that are not shown
 * take no memory.
 *
 * A put dispatches the values of a sum. In the first of several consecutive
 * puts that contain a row, each of its counters is a point with the count that
 * was dispatched last, 0 in a new row, stamped with the time from which on the
 * row counts. What it counts follows from the next put on. So each growth has
 * two points, between which a data store finds it, and the order in which
 * collectd's threads write the points of one put does not matter. */
#ifndef PERCORE_PLUGIN_REGION_SUM_H
#define PERCORE_PLUGIN_REGION_SUM_H

#include "region_config.h"
#include "region_log.h"

#include "region/reader.h"

struct region_input;
struct region_watch;

/* What a user's producers of one region, with all its instances, may take, and
 * its sums: one for each table of the region or, if ReportPerInstance is set,
 * of an instance. */
struct region_budget {
  struct region_budget *next;
  struct region_log *log;
  const struct region_config *config;
  struct region_allowance memory, values;
  struct region_sum *sums;
  size_t instances;
  uid_t uid;     /* -1: all users that AllowUser names */
  bool is_apart; /* its series have a suffix */
  char name[128];
};

#define REGION_SUM_NAME_SIZE 128

struct region_sum_field {
  char name[REGION_SUM_NAME_SIZE];
  char label[REGION_SUM_NAME_SIZE]; /* the field's name in identifiers */
  uint32_t kind, aggregation, column, cells, sub_bits;
  uint64_t put; /* number of the last put that contained the field; 0: none */
  bool wanted;
  bool cycles; /* values are in cycles, which are converted to ns */
};

/* Arrays of values are [copy][column]. Copy 0 is the sum over all cores, copy
 * 1 + N is core N. */
struct region_sum_row {
  struct region_sum_row *next; /* with the same hash */
  uint64_t put; /* number of the last put that contained the row; 0: none */
  uint64_t since_ns; /* CLOCK_REALTIME: since when it counts, if the last put
                        did not contain it */
  uint32_t copies;   /* allocated: at least those of the sum */
  uint32_t objects;  /* tracked objects, over all inputs */
  uint32_t parts;    /* inputs whose up-down counters, gauges and states are in
                        `now` */
  bool shown;        /* its objects count for it, not for `other` */
  bool contends, again; /* is a candidate; was one lately */
  bool put_now;         /* this put contains the row */
  int64_t weight;       /* Top ranks by it */
  uint64_t
      *now; /* counts; up-down counters, gauges and states: at the last put */
  uint64_t *sent; /* counts that were dispatched last */
  char name[];
};

struct region_columns {
  struct region_column {
    uint32_t column, field;
  } * list;
  uint32_t len;
};

struct region_sum {
  struct region_sum *next;                  /* of the same budget */
  const struct region_table_config *config; /* NULL: no <Table> block */
  struct region_budget *budget;
  char instance[REGION_SUM_NAME_SIZE]; /* "": the sum of all instances */
  char table[REGION_SUM_NAME_SIZE];
  uint64_t tsc_hz; /* 0: cycles are not converted */

  /* The structure of the table, which never changes. */
  struct region_sum_field *fields;
  uint32_t field_count, columns, core_count;
  uint32_t copies_made; /* allocated: 1, or 1 + core_count */
  /* The columns to read. counters: those of counters and histograms; present:
   * those of up-down counters, gauges and states. */
  struct region_columns counters, present;
  uint32_t values;       /* of a row, in one copy */
  bool single, per_core; /* the table has a single row; it is PER_CORE */
  bool is_core;          /* the built-in table `core` */
  bool chooses_rows;     /* the option Row is set */
  const struct region_sum_field
      *ranks_by; /* by which Top ranks rows, or NULL */

  struct region_sum_row **rows, **chains; /* chains: hash table of `capacity` */
  size_t len, capacity, shown;
  struct region_sum_row *other;
  struct region_input *inputs; /* tables of producers that are added to it */
  uint32_t open;               /* inputs that are being read */
  uint32_t copies;             /* in use: 1, or 1 + core_count */
  uint8_t *core_used;          /* cores with a slot */
  uint64_t *core_put;          /* like `put` of a row */
  uint64_t puts, put_ns;       /* number and CLOCK_REALTIME of the last put */
  uint64_t read_ns;     /* CLOCK_MONOTONIC: when an input was last read */
  bool is_new;          /* an input was read completely since the last put */
  size_t charged;       /* values charged to the budget */
  uint64_t names_shown; /* incremented whenever Top shows another name */
};

static inline struct region_about
region_about_sum(const struct region_sum *sum) {
  return (struct region_about){.log = sum->budget->log,
                               .uid = sum->budget->uid,
                               .region = sum->budget->name,
                               .part = sum->table};
}

/* Allocates zeroed memory and charges it to the allowance. Returns NULL if the
 * allowance is too small or calloc fails. */
void *region_claim(struct region_allowance *allowance, size_t size);

/* Creates the sum for table t of a directory. tsc_hz is the frequency of the
 * first producer's TSC. Returns NULL if out of memory. */
struct region_sum *region_sum_new(const struct region_directory *directory,
                                  uint32_t t, const char *instance,
                                  uint64_t tsc_hz,
                                  struct region_budget *budget);
void region_sum_free(struct region_sum *sum);

/* True if the directory's table t has the same fields as the sum. */
bool region_sum_fits(const struct region_sum *sum,
                     const struct region_directory *directory, uint32_t t);

/* Copies the counts from `from` for fields with the same name and kind. */
void region_sum_inherit(struct region_sum *sum, const struct region_sum *from);

/* By default, a table that has had more than REGION_PER_CORE_ROWS live rows is
 * no longer reported per core. */
void region_sum_count_live(struct region_sum *sum, uint64_t rows);

static inline size_t region_sum_cells(const struct region_sum *sum) {
  return (size_t)sum->copies_made * sum->columns;
}

/* ---------------------------------------------------------------------------
 * Rows: region_rows.c
 */

/* Copies the name of a row, which is untrusted bytes, for use in an identifier.
 * `/`, `;`, `=`, `"`, blanks, deceptive characters (utf8.h) and bytes that are
 * not UTF-8 are replaced by `_`; an empty name becomes `_`. A name that does
 * not fit into size bytes is cut after a whole character. */
void region_name_clean(char *clean, size_t size, const char *name);

/* Returns the row with this name, which is cleaned first: names that become
 * equal share a row. If there is none, makes it if `make` is set. Returns NULL
 * if there is none, if out of memory, or for the name `other`. */
struct region_sum_row *region_sum_find(struct region_sum *sum, const char *name,
                                       bool make);

struct region_sum_row *region_sum_make_row(struct region_sum *sum,
                                           const char *name);

/* Returns the number of bytes that are charged for a row. */
size_t region_sum_row_size(const struct region_sum *sum,
                           const struct region_sum_row *row);

/* Charges the values of `other`, which a table with several rows always has.
 * Returns false if the budget is exceeded. */
bool region_sum_charge_other(struct region_sum *sum);

/* Shows a row, unless its values exceed the budget. */
bool region_sum_show(struct region_sum *sum, struct region_sum_row *row);
void region_sum_hide(struct region_sum *sum, struct region_sum_row *row);

/* Returns how many values a row has in the copies that are reported. */
size_t region_sum_row_values(const struct region_sum *sum);

/* True if a counter has grown since it was dispatched. */
bool region_sum_row_owes(const struct region_sum *sum,
                         const struct region_sum_row *row);
bool region_sum_owes(const struct region_sum *sum);

/* Combines an up-down counter, gauge or state with the one in *now, or replaces
 * it. */
void region_sum_combine(const struct region_sum *sum,
                        const struct region_column *column, uint64_t *now,
                        uint64_t value, bool replace);

/* Adds what the cells of one copy have grown since `last` to the row, and
 * updates `last`. `other` gets the growth of the whole table, from which the
 * growth of other rows is subtracted here. A cell that has decreased does not
 * count until it exceeds its former value. Returns the number of cells that
 * have decreased. */
uint32_t region_row_count(const struct region_sum *sum,
                          struct region_sum_row *row, uint32_t copy,
                          uint64_t *last, const uint64_t *cells);

/* Frees hidden rows: all, or the oldest if there are too many. */
void region_sum_forget(struct region_sum *sum, bool all);

/* Chooses the rows that Top shows (region_top.c). */
void region_sum_choose(struct region_sum *sum);

/* Dispatches the values (region_put.c). */
void region_sum_put(struct region_sum *sum, struct region_watch *watch);

#endif
