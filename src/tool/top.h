/* top: what `percore top` shows, and how it is written as a table and as JSON.
 */
#ifndef PERCORE_TOP_H
#define PERCORE_TOP_H

#include "rates.h"
#include "target.h"
#include "text.h"

#include "region/worker.h"

#include <math.h>

struct top_options {
  const char *table, *sort;
  double interval_s;
  uint64_t count; /* 0: no limit */
  uint64_t rows;  /* 0: not given; if there is no page, all */
  bool totals, per_core, each, json;
};

struct top {
  const struct top_options *options;
  struct merge merge;
  struct rates *tables; /* those that are shown */
  size_t tables_len;
  bool with_workers;    /* what the threads do is shown, not the table `core` */
  bool alive;           /* if false, the figures are the last ones known */
  const char *why;      /* why the producer is not alive */
  uint64_t realtime_ns; /* when the region was read */
  /* cores and order chosen with keys; NULL before the first table */
  const struct screen *view;
  uint64_t interval_ns;
  uint64_t due_ns; /* when to read the region again (CLOCK_MONOTONIC) */
};

/* How long a worker may be awake without a poll before it is shown
 * as stuck. */
#define TOP_STUCK_NS UINT64_C(1000000000)

/* Returns how much a column of the table `core` grew per second; NAN: the
 * worker does not count its polls. */
static inline double top_per_second(const struct region_workers *workers,
                                    const struct region_worker *worker,
                                    enum region_core_column column) {
  return worker->cells[REGION_CORE_POLLS] > 0
             ? (double)worker->growth[column] / workers->interval_s
             : NAN;
}

/* Returns the share of a worker's polls that handled nothing, or NAN. */
static inline double top_empty(const struct region_worker *worker) {
  double polls = (double)worker->growth[REGION_CORE_POLLS];
  return polls > 0 ? (double)worker->growth[REGION_CORE_EMPTY_POLLS] / polls
                   : NAN;
}

/* Functions for struct live_face. `figures` is a struct top. Both return 0 or
 * -ENOMEM. */
int top_table_write(FILE *out, const void *figures, struct screen screen);
int top_json_write(FILE *out, const void *figures);

/* Writes a number such as "0.25", "12.3", "980", "12.3k" or "4.56M", or "-" if
 * it is NAN. */
#define SHORT_TEXT_SIZE 24
void short_text(char text[SHORT_TEXT_SIZE], double value);
/* Writes a duration such as "496ns", "12.3us", "1.50ms" or "2.00s". */
void short_time_text(char text[SHORT_TEXT_SIZE], double ns);

#endif
