/* region_sum: one table of a region, summed over the instances of the region.
 *
 * Each instance brings the accounts of its rows (region/accounts.h); what an
 * account grew by is added to the row of that name here, and what comes out
 * only grows, whichever instances come and go. In a round:
 *
 *   region_sum_begin, region_sum_add for every account, region_sum_put
 */
#ifndef PERCORE_PLUGIN_REGION_SUM_H
#define PERCORE_PLUGIN_REGION_SUM_H

#include "region_config.h"
#include "region_snapshot.h"

#include "region/accounts.h"

struct region_sum_field {
  char *name;
  char *plugin_core, *plugin_host; /* of its identifiers */
  uint32_t kind, aggregation, column, cells, sub_bits;
  bool wanted;
  bool cycles; /* shown in ns */
};

/* What one instance brought to a row: its account as it was last seen. */
struct region_sum_part {
  struct region_sum_part *next;
  const void *owner;
  const struct region_account *account;
  uint64_t round;
  uint64_t seen[]; /* [copy][column] */
};

/* Copy 0 is over all cores, 1 + N is core N. */
struct region_sum_row {
  struct region_sum_row *next_by_name, *next_by_clean;
  char *name, *clean;
  const char *text; /* clean, in the snapshot in work */
  uint64_t round;   /* the last in which it was there; 0: never */
  uint64_t born;    /* the first in which it was there */
  bool wanted;      /* by the option Row */
  bool clashes;     /* another row has the same clean name */
  bool several;     /* several instances have it now */
  bool top;         /* shown by itself, where the option Top is */
  int64_t weight;   /* by which Top ranks */
  struct region_sum_part *parts;
  uint64_t *now;   /* [copy][column]: what only grows, or stands now */
  uint64_t *delta; /* [copy][column]: growth in this round */
};

struct region_sum {
  const struct region_config *region_config;
  const struct region_table_config *config; /* NULL: none */
  char *table;
  uint64_t tsc_hz; /* 0: cycles stay cycles */
  struct region_sum_field *fields;
  uint32_t field_count, columns, core_count, copies, max_rows;
  uint32_t *kinds, *aggregations; /* by column */
  bool single, per_core;          /* the table has one row; is PER_CORE */
  bool is_core;                   /* it is the built-in one */
  int top_field;                  /* -1: no Top */
  char **labels;                  /* by copy: the plugin instance */
  uint8_t *core_used;             /* in this round */
  struct region_sum_row **rows;
  size_t rows_len, rows_capacity;
  struct region_sum_row **by_name, **by_clean; /* chains */
  size_t chains;
  struct region_sum_row *other; /* the rest, where the option Top is */
  uint64_t round, round_put;
  bool clash_told;
};

/* For table t of a directory. instance: the name of the one that is told apart,
 * or NULL. tsc_hz: of whoever came first. NULL if out of memory. */
struct region_sum *region_sum_new(const struct region_config *config,
                                  const struct region_directory *directory,
                                  uint32_t t, const char *instance,
                                  uint64_t tsc_hz);
void region_sum_free(struct region_sum *sum);

/* Whether that table has the same fields. */
bool region_sum_fits(const struct region_sum *sum,
                     const struct region_directory *directory, uint32_t t);

/* Takes over what fields of the same name and kind have counted, so that no
 * counter steps back when a producer is restarted with another schema. */
void region_sum_inherit(struct region_sum *sum, const struct region_sum *from);

/* REGION_WANT_CORES if single cores are reported, else 0. */
uint32_t region_sum_want(const struct region_sum *sum);

void region_sum_begin(struct region_sum *sum, uint64_t round);
void region_sum_use_cores(struct region_sum *sum, const uint8_t *core_used);

/* Adds what an account of an owner grew by. With `count` false only from now
 * on: what it holds was counted long before. cache: what this returned for the
 * same row of the owner before, or NULL. NULL if out of memory. */
struct region_sum_row *region_sum_add(struct region_sum *sum, const void *owner,
                                      const struct region_account *account,
                                      bool count, struct region_sum_row *cache);

/* Forgets what an owner brought; its accounts are gone. */
void region_sum_drop(struct region_sum *sum, const void *owner);

/* Forgets rows and parts whose accounts were not there in that round or later;
 * region_accounts_forget of the same round must follow. Returned rows are void
 * then. */
void region_sum_forget(struct region_sum *sum, uint64_t round);

/* Ends the round: region_values.c. */
void region_sum_put(struct region_sum *sum, struct region_snapshot *snapshot);

/* Private to the two files. */
static inline bool region_sum_grows(uint32_t kind) {
  return kind == PERCORE_COUNTER || kind == PERCORE_HISTOGRAM;
}
uint64_t region_sum_combine(uint32_t kind, uint32_t aggregation,
                            uint64_t so_far, uint64_t value);

#endif
