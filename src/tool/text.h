/* text: foreign bytes made fit for a terminal and for JSON. */
#ifndef PERCORE_TEXT_H
#define PERCORE_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* A byte may become a replacement character of three bytes. */
#define TEXT_GROWTH 3

/* Copies bytes as valid UTF-8 that cannot steer a terminal or the order in
 * which text is shown: deceptive characters (base/utf8.h) and each byte that is
 * not part of a well-formed character become U+FFFD. Always NUL-terminated;
 * what does not fit is cut after a whole character. Returns the length without
 * NUL. size must be at least 1. */
size_t text_clean(char *out, size_t size, const char *bytes, size_t length);

/* The same of a whole string; returns out. */
char *text_clean_string(char *out, size_t size, const char *text);

/* Prints clean text at the right of so many characters; at the left, if width
 * is negative. */
void text_pad(FILE *out, const char *text, int width);

/* Prints text in lines of at most `width` characters (0: any), broken between
 * words; all but the first begin with `indent` blanks, and the first is taken
 * to stand behind as many characters already. */
void text_wrap(FILE *out, const char *text, int indent, int width);

#endif
