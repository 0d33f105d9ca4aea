/* window: the room for a table, what the keys chose, and what all tables share:
 * colour, numbers, times. */
#ifndef PERCORE_WINDOW_H
#define PERCORE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct core_set;

/* All zero: for a pipe. */
struct window {
  int width;  /* in characters; 0: any */
  int height; /* in lines; 0: any */
  bool colour;
  const struct core_set *cores; /* only these; NULL: all */
  size_t sort; /* column to sort by, from 1; 0: default order */
  bool reverse;
};

bool window_shows_core(const struct window *window, int core);

/* Copies what `write` prints of the figures: the lines that fit, each cut to
 * the width, without blanks at the end. Returns 0, -ENOMEM, or what `write`
 * returned. */
int window_write(FILE *out, struct window window,
                 int (*write)(FILE *out, const void *figures,
                              struct window window),
                 const void *figures);

/* True on a terminal, unless TERM is dumb or NO_COLOR is set (no-color.org). */
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
