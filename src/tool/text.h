/* text: makes untrusted bytes safe for terminals and for JSON, and writes what
 * all tables share: padded and coloured words, numbers, dates, lines that fit a
 * screen. */
#ifndef PERCORE_TEXT_H
#define PERCORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* One byte may become a replacement character of three bytes. */
#define TEXT_GROWTH 3

/* Copies bytes as valid UTF-8 that can change neither a terminal's state nor
 * the order in which text is shown. Deceptive characters (base/utf8.h), and
 * bytes that are not part of a well-formed character, become U+FFFD. The result
 * is always NUL-terminated; if it does not fit, it is cut between two
 * characters. Returns the length of the result without the NUL. size must be at
 * least 1. */
size_t text_clean(char *out, size_t size, const char *bytes, size_t length);

/* Cleans a string as text_clean does. Returns `out`. */
char *text_clean_string(char *out, size_t size, const char *text);

/* Appends a name to a list such as "a, b". Text that does not fit is cut off.
 */
void text_append(char *list, size_t size, const char *separator,
                 const char *name);

/* Returns the number of characters in clean text. */
int text_width(const char *text);

/* Shortens clean text to at most `width` characters by replacing its middle
 * with "...". width must be at least 5. */
void text_shorten(char *text, int width);

/* Prints clean text, padded to `width` characters: flush right, or flush left
 * if width is negative. */
void text_pad(FILE *out, const char *text, int width);

/* Makes text safe as text_clean does, and prints it in lines of at most `width`
 * characters (0: unlimited), broken between words. Lines after the first begin
 * with `indent` blanks. The caller has already printed `indent` characters on
 * the first line. */
void text_wrap(FILE *out, const char *text, int indent, int width);

/* ---------------------------------------------------------------------------
 * Screens
 */

/* All members are 0 or NULL if the output is not a terminal. */
struct screen {
  int width;  /* in characters; 0: unlimited */
  int height; /* in lines; 0: unlimited */
  bool colour;
  const char *line_end; /* NULL: a newline */
  size_t sort;          /* column to sort by, from 1; 0: default order */
  bool reverse;
};

/* Calls `write` and passes its output on to `out`: only the lines that fit into
 * the screen, each cut to the width and without trailing blanks. Returns
 * -ENOMEM or what `write` returned; if `out` fails, ferror tells `write`. */
int screen_write(FILE *out, struct screen screen,
                 int (*write)(FILE *out, const void *figures,
                              struct screen screen),
                 const void *figures);

/* Returns the size of the terminal and whether to use colours. If stdout is not
 * a terminal that understands escape sequences (TERM is not "dumb"), all
 * members are 0. `colour` is false if the environment variable NO_COLOR is set
 * (no-color.org). */
struct screen terminal_screen(void);

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
