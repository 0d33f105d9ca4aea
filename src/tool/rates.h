/* rates: what the rows of one table counted between two reads.
 *
 * Rates are differences of raw cells: a reset never enters a rate, a row that
 * was added between the reads counts from its own start, and nothing is known
 * of the time before the first read. */
#ifndef PERCORE_RATES_H
#define PERCORE_RATES_H

#include "region/reader.h"

enum rate_kind {
  RATE_PER_SECOND, /* counters; histograms: values counted */
  RATE_VALUE,      /* gauges and levels as they are */
  RATE_STATE,      /* the number of a named state */
  RATE_QUANTILE    /* of what a histogram counted since the last read */
};

#define RATE_TITLE_SIZE 96

struct rate_column {
  char title[RATE_TITLE_SIZE]; /* the field, or FIELD_p99 */
  uint32_t field;
  enum rate_kind kind;
  double q;
};

struct rate_row {
  uint32_t row;
  double key; /* what rows are sorted by, the largest first */
  char name[REGION_ROW_NAME_SIZE]; /* foreign bytes */
  double *values;                  /* [column]; NaN: not known */
  double *cores;                   /* [core][column]; NULL if not wanted */
};

struct rates_options {
  size_t rows;      /* how many are kept, those with the largest key */
  const char *sort; /* title of a column, or "row"; NULL: the first rate */
  bool per_core;
  uint64_t bytes_most; /* limit for remembered cells: a region may claim far
                          more rows than it has memory for */
};

struct rates {
  uint32_t table;
  struct rates_options options;
  struct rate_column *columns;
  size_t columns_len;
  int sort_column;       /* -1: by the number of the row */
  bool sort_least;       /* smallest first */
  bool sort_asked;       /* by the options or by rates_sort */
  double interval_s;     /* between the last two reads; NaN after the first */
  struct rate_row *rows; /* sorted */
  size_t rows_len;
  uint64_t rows_live;
  uint32_t core_count;
  uint8_t *core_used;
  struct rates_past *past;
};

/* 0; -ENOMEM; or -ENOENT: no column has the title options->sort. */
int rates_open(struct rates *rates, struct region_reader *reader,
               uint32_t table, const struct rates_options *options);
void rates_close(struct rates *rates);

/* Orders the rows from the next read on: those with the most (or least) of this
 * column first. For NULL, or a title of another table, the options decide. */
void rates_sort(struct rates *rates, const char *title, bool least);

/* Reads the rows at a time of CLOCK_MONOTONIC. 0, -ENOMEM, or -EFBIG: the rows
 * have more cells than options->bytes_most allows. */
int rates_read(struct rates *rates, struct region_reader *reader,
               uint64_t now_ns);

#endif
