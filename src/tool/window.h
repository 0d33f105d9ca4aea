/* window: what a table must fit into, what the keys chose, and the parts that
 * every table has. */
#ifndef PERCORE_WINDOW_H
#define PERCORE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct core_set;

/* All zero: text for a pipe. */
struct window {
  int width;  /* in characters; 0: any */
  int height; /* 0: any; else never more lines than this */
  bool colour;
  const struct core_set *cores; /* only these; NULL: all */
  size_t sort; /* by column sort - 1; 0: as the command line says */
  bool reverse;
};

bool window_shows_core(const struct window *window, int core);

/* Copies the lines of text that fit, each as far as it fits. */
void window_cut(FILE *out, const char *text, struct window window);

/* Colours are for terminals: never in a pipe, with TERM=dumb, or if NO_COLOR
 * is set (no-color.org). */
bool colour_wanted(void);

enum paint {
  PAINT_NONE,
  PAINT_TITLE,
  PAINT_SORTED,
  PAINT_GOOD,
  PAINT_WARN,
  PAINT_BAD
};

/* Prints text padded to `width` characters (negative: flush left), painted if
 * `colour`; the blanks are not painted. */
void paint_pad(FILE *out, bool colour, enum paint paint, const char *text,
               int width);

/* Formats one number as printf does, "-" for NAN, and without the sign of a
 * negative number that rounds to zero. */
void number_text(char *text, size_t size, const char *format, double value)
    __attribute__((format(printf, 3, 0)));

/* "2026-11-20 22:30:02", local time, of nanoseconds of CLOCK_REALTIME. */
#define TIME_TEXT_SIZE 32
void time_text(char text[TIME_TEXT_SIZE], uint64_t realtime_ns);

#endif
