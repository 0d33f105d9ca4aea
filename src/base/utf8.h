/* utf8.h: checks and cleans foreign bytes as UTF-8.
 *
 * The folder base/ holds code that every other folder may use; it includes
 * nothing from other folders.
 */
#ifndef PERCORE_BASE_UTF8_H
#define PERCORE_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The C0 and C1 control characters and DEL. */
bool utf8_is_control(uint32_t code);

/* Characters that control a terminal or make text look like other text: control
 * characters, line and paragraph separators, direction marks and invisible
 * format characters. Zero width joiners are not among them, because several
 * scripts need them. */
bool utf8_is_deceptive(uint32_t code);

/* True if text is well-formed UTF-8 without characters of this class. */
bool utf8_has_no(const char *text, size_t length,
                 bool (*is_in_class)(uint32_t));

/* Copies bytes as well-formed UTF-8: replaces each deceptive character, each
 * character of `unwanted` (ASCII) and each byte that is not part of a
 * well-formed character. Cuts the result after a whole character if it does not
 * fit, and terminates it with a NUL. Returns its length without the NUL. size
 * must be at least 1. */
size_t utf8_clean(char *out, size_t size, const char *bytes, size_t length,
                  const char *replacement, const char *unwanted);

#endif
