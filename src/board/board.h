/* board/ joins cycles and region: it publishes the loads that one sampler
 * measures as a region named "board", and reads them there, so that a program
 * learns which core has room without rights and without counters of its own.
 *
 *   board.h     what the board contains, described once
 *   publish     writes the board; used by the plugin and `percore load`
 *   read        reads the board
 *   choose      which core to choose
 *   load, best  the public loads of percore_load.h
 *
 * The board is an ordinary region with one table, `cores`: `percore top board`
 * shows it. Each core that is measured has a row, whose number and key are the
 * core's. The load of a core whose source is "none" is unknown. Where only
 * another figure is unknown, the row has the load in place of a bound, the
 * peak, the trough or an average, what the load leaves in place of the room,
 * and 0 in place of steal or the frequency.
 *
 * A picture is the figures of all cores at the end of an interval. It is
 * written to all rows, and last to row 0, which is always there: the time of
 * row 0 is that of the picture. */
#ifndef PERCORE_BOARD_BOARD_H
#define PERCORE_BOARD_BOARD_H

#include "cycles/figures.h"
#include "percore_load.h"
#include "percore_reader.h"
#include "percore_tune.h"

#include <math.h>
#include <stddef.h>

#define BOARD_NAME "board"

/* One row. The members are the columns, in this order; later versions may add
 * columns at the end. */
struct board_core {
  double load, load_trough, load_peak; /* of the interval, 0 to 1 */
  double load_low, load_high; /* its bounds, see percore_load.h */
  double room;                /* see core_figures; else 1 - load */
  double steal, frequency_hz; /* frequency 0: unknown */
  double node;                /* of memory */
  double sibling;  /* the next hardware thread of the same physical core */
  double isolated; /* 0 or 1 */
  double source;   /* enum source_kind - SOURCE_NONE */
  double proof;    /* enum proof */
  double time_ns;  /* CLOCK_MONOTONIC at the end of the interval */
  double interval_ns;
  double average[LOADAVG_PERIODS];
};

#define BOARD_COLUMNS (sizeof(struct board_core) / sizeof(double))
#define BOARD_COLUMN(member)                                                   \
  (offsetof(struct board_core, member) / sizeof(double))

struct board_column {
  struct percore_field field;
  double scale; /* a cell is the value times this */
  double max;   /* a larger value is false; 0: no limit */
};

extern const struct board_column board_columns[BOARD_COLUMNS];

static inline double board_figure(const struct board_core *row, size_t column) {
  return ((const double *)row)[column];
}

/* For figures that are unknown, which a board cannot say. */
static inline double board_or(double value, double otherwise) {
  return isnan(value) ? otherwise : value;
}

#endif
