/* board/ joins cycles and region: it publishes the loads that one sampler
 * measures as a region named "board", and reads them there, so that a program
 * learns which core has room without rights and without counters of its own.
 *
 *   board.h     what the board contains, described once
 *   publish     writes the board; used by the plugin and `percore load`
 *   read        reads the board
 *   choose      which core to choose
 *   load, best  the public loads of percore.h
 *
 * The board is an ordinary region: `percore top board` shows it. A core whose
 * source is "none" has no load; its other figures mean nothing. Other figures
 * that are unknown are those of the load, or 0. */
#ifndef PERCORE_BOARD_BOARD_H
#define PERCORE_BOARD_BOARD_H

#include "cycles/figures.h"

#define BOARD_NAME "board"

/* The tables. `core` of every region is table 0 for readers, so a reader
 * adds 1.
 */
enum board_table {
  BOARD_PICTURE, /* a single row: about all cores */
  BOARD_CORES,   /* a row for each core: row number and key are its number */
  BOARD_TABLES
};

/* One row of each table. */
struct board_picture {
  double time_ns;     /* CLOCK_MONOTONIC at the end of the interval */
  double interval_ns; /* as configured */
  double cores;       /* how many the machine has, offline ones included */
};

struct board_core {
  double load, load_min, load_max; /* of the interval, 0 to 1 */
  double load_low, load_high;      /* its bounds, see percore_load_get_low */
  double useful;                   /* of the fast path, 0 to 1; else the load */
  double steal, frequency_hz;      /* frequency 0: unknown */
  double node;                     /* of memory */
  double sibling;  /* the next hardware thread of the same physical core */
  double isolated; /* 0 or 1 */
  double source;   /* enum source_kind - SOURCE_NONE */
  double proof;    /* enum proof */
  double time_ns;  /* as in board_picture */
  double average[FIGURES_PERIODS_MAX];
};

/* A field of a table and where its value is in a row. */
struct board_field {
  char name[24];
  const char *unit, *help;
  double scale; /* a cell is the value times this */
  double max;   /* a larger value is false; 0: no limit */
  size_t offset;
  const char *const *states; /* names of the values; NULL: it is a gauge */
  uint32_t states_len;
};

#define BOARD_FIELDS_MAX (14 + FIGURES_PERIODS_MAX)

/* Fills in the fields of a table, with the averages of these periods, and
 * returns how many there are. */
size_t board_fields(struct board_field fields[BOARD_FIELDS_MAX],
                    enum board_table table, const double *period_s,
                    size_t periods_len);

const char *board_table_name(enum board_table table);

/* The value of a field in a row of its table. */
static inline double *board_value(void *row, const struct board_field *field) {
  return (double *)(void *)((char *)row + field->offset);
}

#endif
