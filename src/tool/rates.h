/* rates: what the rows of one table counted between two reads or, as totals,
 * since their last reset. Rates are computed from differences between raw
 * cells, so resets do not affect them. If a row was added between the reads,
 * all its counts belong to the interval. Counts before the first read are
 * ignored. */
#ifndef PERCORE_RATES_H
#define PERCORE_RATES_H

#include "merge.h"
#include "values.h"

enum rate_kind {
  /* counters, and the number of values in histograms; as totals, not divided by
   * time */
  RATE_PER_SECOND,
  RATE_VALUE,   /* up-down counters and gauges, shown as they are */
  RATE_STATE,   /* the index of a named state */
  RATE_QUANTILE /* a percentile of the values that were counted */
};

#define RATE_TITLE_SIZE 96

struct rate_column {
  char title[RATE_TITLE_SIZE]; /* FIELD, or FIELD_p99 for a percentile */
  struct field_ref field;
  enum rate_kind kind;
  double q;       /* if RATE_QUANTILE: 0 to 1 */
  bool has_total; /* if false, only the values on each core are known */
};

struct rate_row {
  uint32_t row;
  double key; /* sort key; rows with the largest keys come first */
  bool torn;  /* the cells may be from different moments */
  char name[MERGE_ROW_SIZE]; /* untrusted bytes */
  /* What the row has counted, [copy][column of the table]. Copy 0 is the total,
   * copy 1 + N core N, if wanted; has[copy] is false if it has no such cells.
   */
  uint64_t *cells;
  bool *has;
};

struct rates_options {
  /* Maximum number of rows; those with the largest keys are kept. 0: all, in
   * their order, which are read while they are written and not kept. */
  size_t rows;
  const char *sort; /* title of a column; NULL: the first rate */
  bool per_core, totals;
};

struct rates {
  struct rates_options options;
  struct merge *merge;
  struct region_tile tile; /* the rows that are being read */
  uint32_t copies; /* 1 or, if the values of cores are wanted, 1 + core_count */
  uint64_t read_ns; /* 0 before the first read */
  struct rate_column *columns;
  size_t columns_len;
  size_t sort_column;
  bool sort_least;   /* put the smallest keys first */
  bool sort_asked;   /* the user has chosen an order that this table has */
  double interval_s; /* time between the last two reads; NaN after the first */
  struct rate_row *rows; /* sorted; if they are not kept, the one at hand */
  bool is_cut; /* the first options.rows rows are sorted; others were dropped */
  uint64_t *cells; /* storage for the cells of all rows */
  bool *has;
  size_t rows_len;
  size_t next; /* of rows or, if they are not kept, of the tile */
  size_t most; /* how many of the rows are shown */
  uint64_t rows_live;
};

/* Prepares to read the rates of a table. Returns 0 or -errno; call rates_close
 * in either case. The columns point into the directory of the first part. */
int rates_open(struct rates *rates, struct merge *merge, uint32_t table,
               const struct rates_options *options);
void rates_close(struct rates *rates);

/* Makes the next reads sort the rows by the column with this title: largest
 * values first, or smallest first if `least` is true. If title is NULL or
 * matches no column, rows are sorted as the options specify. */
void rates_sort(struct rates *rates, const char *title, bool least);

/* Reads the rows. `now_ns` is the current time of CLOCK_MONOTONIC. Returns 0,
 * -ENOMEM, or -EFBIG if the cells of a part's rows need more memory than its
 * bytes_most. */
int rates_read(struct rates *rates, uint64_t now_ns);

/* Before rates_next: goes back to the first of `most` rows that will be shown.
 * If these are all rows and no order was requested, they keep the producer's
 * order, so that they do not change places from one table to the next. If rows
 * are not kept, reads the first; the same merge must then not be read otherwise
 * until the last row. Returns 0 or -errno. */
int rates_begin(struct rates *rates, size_t most);

/* Sets *row to the next row, which is valid until the next call, or to NULL
 * after the last. Returns 0, -ENOMEM, or -EINTR after a request to stop if rows
 * are not kept. */
int rates_next(struct rates *rates, const struct rate_row **row);

/* Returns a column's cells in a copy of a row, or NULL if it has none. */
const uint64_t *rate_cells(const struct rates *rates,
                           const struct rate_column *column,
                           const struct rate_row *row, uint32_t copy);

/* Returns the value of a column, or NaN if it is unknown. */
double rate_value(const struct rates *rates, const struct rate_column *column,
                  const struct rate_row *row, uint32_t copy);

#endif
