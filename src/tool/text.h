/* text: makes foreign bytes safe for a terminal and for JSON. */
#ifndef PERCORE_TEXT_H
#define PERCORE_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* A byte may become a replacement character of three bytes. */
#define TEXT_GROWTH 3

/* Copies bytes as valid UTF-8 that can change neither a terminal's state nor
 * the order in which text is shown: deceptive characters (base/utf8.h) and each
 * byte that is not part of a well-formed character become U+FFFD. The result is
 * always NUL-terminated, and cut after a whole character if it does not fit.
 * Returns its length without the NUL. size must be at least 1. */
size_t text_clean(char *out, size_t size, const char *bytes, size_t length);

/* The same for a string; returns out. */
char *text_clean_string(char *out, size_t size, const char *text);

/* The number of characters of clean text. */
int text_width(const char *text);

/* The number of newlines. */
int text_lines(const char *text);

/* Shortens clean text to at most `width` characters: the middle becomes "...".
 * width must be at least 5. */
void text_shorten(char *text, int width);

/* Prints clean text, padded to `width` characters: flush right, or flush left
 * if width is negative. */
void text_pad(FILE *out, const char *text, int width);

/* Prints text in lines of at most `width` characters (0: any), broken between
 * words. Lines after the first begin with `indent` blanks; the first line is
 * assumed to follow that many characters. */
void text_wrap(FILE *out, const char *text, int indent, int width);

#endif
