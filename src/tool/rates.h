/* rates: what the rows of one table did between two looks.
 *
 * Made of the raw cells: a reset of the producer's never enters a rate, a row
 * that was added meanwhile counts from its own start, and nothing is known of
 * the time before the first look. */
#ifndef PERCORE_RATES_H
#define PERCORE_RATES_H

#include "region/reader.h"

enum rate_kind {
  RATE_PER_SECOND, /* counters; histograms: values counted */
  RATE_VALUE,      /* gauges and levels as they stand */
  RATE_STATE,      /* the number of a named state */
  RATE_QUANTILE    /* of what a histogram counted since the last look */
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
  uint64_t bytes_most; /* to remember cells from look to look: a region may
                          claim many more than it has memory for */
};

struct rates {
  uint32_t table;
  struct rates_options options;
  struct rate_column *columns;
  size_t columns_len;
  int sort_column;       /* -1: by the number of the row */
  double interval_s;     /* between the last two looks; NaN after the first */
  struct rate_row *rows; /* sorted */
  size_t rows_len;
  uint64_t rows_live;
  uint32_t core_count;
  uint8_t *core_used;
  struct rates_past *past;
};

/* 0; -ENOMEM; or -ENOENT: no column is called as options->sort says. */
int rates_open(struct rates *rates, struct region_reader *reader,
               uint32_t table, const struct rates_options *options);
void rates_close(struct rates *rates);

/* Looks at a time of CLOCK_MONOTONIC. 0, -ENOMEM, or -EFBIG: the rows there
 * are have more cells than options->bytes_most allows. */
int rates_read(struct rates *rates, struct region_reader *reader,
               uint64_t now_ns);

#endif
