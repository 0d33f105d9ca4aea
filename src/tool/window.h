/* window: the size of a table, the user's choices, and what all tables share:
 * colours, and the format of numbers and dates. */
#ifndef PERCORE_WINDOW_H
#define PERCORE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* All members are 0 or NULL if the output is not a terminal. */
struct window {
  int width;  /* in characters; 0: unlimited */
  int height; /* in lines; 0: unlimited */
  bool colour;
  size_t sort; /* column to sort by, from 1; 0: default order */
  bool reverse;
};

/* Calls `write` and copies its output to `out`: only the lines that fit into
 * the window, each cut to the width and without trailing blanks. Returns 0,
 * -ENOMEM, or what `write` returned. */
int window_write(FILE *out, struct window window,
                 int (*write)(FILE *out, const void *figures,
                              struct window window),
                 const void *figures);

/* True if stdout is a terminal that understands escape sequences (TERM is not
 * "dumb"). */
bool is_terminal(void);

/* True if is_terminal() is true and the environment variable NO_COLOR is not
 * set (no-color.org). */
bool colour_wanted(void);

enum paint {
  PAINT_NONE,
  PAINT_TITLE,
  PAINT_SORTED,
  PAINT_GOOD,
  PAINT_WARN,
  PAINT_BAD
};

/* Prints text padded to `width` characters: flush right, or flush left if width
 * is negative. If `colour` is true, paints the text but not the padding. */
void paint_pad(FILE *out, bool colour, enum paint paint, const char *text,
               int width);

/* Formats one number as printf does, except that NAN becomes "-", and that a
 * negative number that rounds to zero loses its sign. */
void number_text(char *text, size_t size, const char *format, double value)
    __attribute__((format(printf, 3, 0)));

/* Formats nanoseconds of CLOCK_REALTIME as local time, such as "2026-11-20
 * 22:30:02". */
#define TIME_TEXT_SIZE 32
void time_text(char text[TIME_TEXT_SIZE], uint64_t realtime_ns);

#endif
