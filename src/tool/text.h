/* text: makes untrusted bytes safe for terminals and for JSON. */
#ifndef PERCORE_TEXT_H
#define PERCORE_TEXT_H

#include <stddef.h>
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

/* Returns the number of newlines. */
int text_lines(const char *text);

/* Shortens clean text to at most `width` characters by replacing its middle
 * with "...". width must be at least 5. */
void text_shorten(char *text, int width);

/* Prints clean text, padded to `width` characters: flush right, or flush left
 * if width is negative. */
void text_pad(FILE *out, const char *text, int width);

/* Prints text in lines of at most `width` characters (0: unlimited), broken
 * between words. Lines after the first begin with `indent` blanks. The caller
 * has already printed `indent` characters on the first line. */
void text_wrap(FILE *out, const char *text, int indent, int width);

#endif
