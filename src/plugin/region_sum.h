/* region_sum: one table of a region, summed over the instances of the region.
 *
 * region_read.c tells what each row of each instance counted since the last
 * look (region/growth.h). Rows that are shown, or were lately, have a name here
 * and go on under it, whichever instances come and go, and never step back. All
 * others are in `other`, where the option Top is, or in no value. In a round:
 *
 *   region_sum_begin, region_sum_add and _add_to_other, region_sum_put
 */
#ifndef PERCORE_PLUGIN_REGION_SUM_H
#define PERCORE_PLUGIN_REGION_SUM_H

#include "region_config.h"
#include "region_snapshot.h"

#include "region/growth.h"

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
  const char *text;  /* clean, in the snapshot in work */
  uint64_t round;    /* the last in which it was there; 0: never */
  uint64_t grown;    /* the round that delta is of */
  uint64_t used;     /* the last in which it was shown, or named */
  const void *owner; /* of what was added last */
  uint32_t parts;    /* rows of instances that are added to it */
  bool clashes;      /* another row has the same clean name */
  bool several;      /* several instances have it now */
  bool top;          /* shown by itself, where the option Top is */
  bool cores_known;  /* its copies of single cores are there */
  int64_t weight;    /* by which Top ranks */
  uint64_t *now;     /* [copy][column]: what only grows, or stands now */
  uint64_t *delta;   /* [copy][column]: growth in this round */
};

struct region_sum {
  const struct region_config *region_config;
  const struct region_table_config *config; /* NULL: none */
  char *table;
  uint64_t tsc_hz; /* 0: cycles stay cycles */
  struct region_sum_field *fields;
  uint32_t field_count, columns, core_count, copies, max_rows;
  uint32_t *kinds, *aggregations; /* by column */
  uint8_t *followed;              /* by column: grows, and is wanted */
  uint32_t *growing, *standing;   /* columns: the followed, and those that
                                     do not grow */
  uint32_t growing_len, standing_len;
  bool single, per_core; /* the table has one row; is PER_CORE */
  bool is_core;          /* it is the built-in one */
  int top_field;         /* -1: no Top */
  uint32_t top_place;    /* of its column in growing */
  char **labels;         /* by copy: the plugin instance */
  uint8_t *core_used;    /* in this round */
  struct region_sum_row **rows;
  size_t rows_len, rows_capacity;
  struct region_sum_row **by_name, **by_clean; /* chains */
  size_t chains;
  struct region_sum_row *other; /* the rest, where the option Top is */
  bool other_begun;             /* something stands in it */
  bool other_twice;             /* what one instance has is in it twice */
  bool other_cores;             /* it has counts of single cores */
  uint64_t *scratch;            /* a cell of each column */
  struct region_allowance *allowance;
  size_t rows_most;              /* to be shown, by MaxValues */
  size_t rows_shown, rows_named; /* in the last round; since */
  uint64_t names;                /* rows named since it was made */
  uint64_t left_out;             /* rows that are in no value, in this round */
  bool memory_short;             /* a row could not be named in this round */
  uint64_t round, round_put;
  uint32_t open; /* tables of instances that are still being read */
  bool clash_told, memory_told;
};

/* For table t of a directory. instance: the name of the one that is told apart,
 * or NULL. tsc_hz: of whoever came first. NULL if out of memory. */
struct region_sum *region_sum_new(const struct region_config *config,
                                  const struct region_directory *directory,
                                  uint32_t t, const char *instance,
                                  uint64_t tsc_hz,
                                  struct region_allowance *allowance);
void region_sum_free(struct region_sum *sum);

/* Whether that table has the same fields. */
bool region_sum_fits(const struct region_sum *sum,
                     const struct region_directory *directory, uint32_t t);

/* REGION_WANT_CORES if single cores are reported, else 0. */
uint32_t region_sum_want(const struct region_sum *sum);

/* ---------------------------------------------------------------------------
 * Rows and what is added to them: region_rows.c
 */

/* Takes over what fields of the same name and kind have counted, so that no
 * counter steps back when a producer is restarted with another schema. */
void region_sum_inherit(struct region_sum *sum, const struct region_sum *from);

/* NULL: there is none of that name; or no memory for it. */
struct region_sum_row *region_sum_find(const struct region_sum *sum,
                                       const char *name);
struct region_sum_row *region_sum_name(struct region_sum *sum,
                                       const char *name);

/* Nothing happens before the round before was read to its end and put. */
void region_sum_begin(struct region_sum *sum, uint64_t round);
/* All is read once more in the same round: what stands is not added twice. */
void region_sum_begin_again(struct region_sum *sum);
void region_sum_use_cores(struct region_sum *sum, const uint8_t *core_used);

/* What a row of an instance brings. */
struct region_sum_share {
  const void *owner;
  const uint64_t *counted;  /* [growing]: since the last look */
  const uint64_t *standing; /* [standing]: as it is now */
};

/* The row is there. Returns whether what stands replaces what was added before
 * in this round, as other copies of the share must do, too. */
bool region_sum_add(struct region_sum *sum, struct region_sum_row *row,
                    const struct region_sum_share *share);
void region_sum_add_core(struct region_sum *sum, struct region_sum_row *row,
                         uint32_t core, const struct region_sum_share *share,
                         bool replace);

/* The row counted, and is there no more. */
void region_sum_add_late(struct region_sum *sum, struct region_sum_row *row,
                         const uint64_t *counted);

/* Rows that are not named; one of the two may be NULL. */
void region_sum_add_to_other(struct region_sum *sum, const uint64_t *counted,
                             const uint64_t *standing);
void region_sum_add_core_to_other(struct region_sum *sum, uint32_t core,
                                  const uint64_t *counted);

/* A named row that is not shown by itself, all copies. */
void region_sum_move_to_other(struct region_sum *sum,
                              const struct region_sum_row *row);

/* About how many bytes a row takes. */
size_t region_sum_row_size(const struct region_sum *sum);

/* Forgets rows that were not shown in that round or later. */
void region_sum_forget(struct region_sum *sum, uint64_t round);

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
                    bool (*is_wanted)(void *argument), void *argument);

/* Private to the files of the sum. */
static inline bool region_sum_grows(uint32_t kind) {
  return kind == PERCORE_COUNTER || kind == PERCORE_HISTOGRAM;
}
struct region_sum_row *region_sum_make_row(struct region_sum *sum,
                                           const char *name);
void region_sum_free_row(struct region_sum *sum, struct region_sum_row *row);
uint64_t region_sum_combine(uint32_t kind, uint32_t aggregation,
                            uint64_t so_far, uint64_t value);

#endif
