/* top: the figures of `percore top`, and how they are written as a table and as
 * JSON. */
#ifndef PERCORE_TOP_H
#define PERCORE_TOP_H

#include "rates.h"
#include "target.h"
#include "text.h"

#include "region/worker.h"

#include <math.h>

struct top_figures {
  const char *region;   /* NAME or NAME@INSTANCE */
  bool alive;           /* if false, the figures are the last ones known */
  const char *why;      /* why the producer is not alive */
  uint64_t realtime_ns; /* when the region was read */
  double interval_s;
  pid_t pid; /* 0 if the process is not visible from here */
  uid_t uid;
  const struct region_directory *directory;
  const struct merge *merge;
  bool totals;       /* values are shown, not rates */
  bool with_workers; /* what the threads do is shown, not the table `core` */
  struct rates *tables;
  size_t tables_len;
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

/* Functions for struct live_face. `figures` is a struct top_figures. Both
 * return 0 or -ENOMEM. */
int top_table_write(FILE *out, const void *figures, struct screen screen);
int top_json_write(FILE *out, const void *figures);

/* Writes a number such as "0.25", "12.3", "980", "12.3k" or "4.56M", or "-" if
 * it is NAN. */
#define SHORT_TEXT_SIZE 24
void short_text(char text[SHORT_TEXT_SIZE], double value);
/* Writes a duration such as "496ns", "12.3us", "1.50ms" or "2.00s". */
void short_time_text(char text[SHORT_TEXT_SIZE], double ns);

#endif
