/* utf8.h: foreign bytes as UTF-8.
 *
 * The folder base/ holds code that every other folder may use; it includes
 * nothing from other folders.
 */
#ifndef PERCORE_BASE_UTF8_H
#define PERCORE_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the well-formed character at the start of bytes, and its code
 * point; 0 if there is none. */
size_t utf8_decode(const char *bytes, size_t length, uint32_t *code);

/* C0, DEL and C1. */
bool utf8_is_control(uint32_t code);

/* Characters that steer a terminal, or make text appear as other text than it
 * is: control characters, line and paragraph separators, marks of direction
 * and invisible format characters. Zero width joiners are not among them:
 * several scripts cannot be written without these. */
bool utf8_is_deceptive(uint32_t code);

/* True if text is well-formed UTF-8 without characters of a class. */
bool utf8_has_no(const char *text, size_t length, bool (*is_in_class)(uint32_t));

/* Copies bytes as well-formed UTF-8 in which each deceptive character, each
 * character of `unwanted` (ASCII) and each byte that is not part of a
 * well-formed character has become `replacement`. Always NUL-terminated; the
 * result is cut after a whole character where it does not fit. Returns its
 * length without NUL. size must be at least 1. */
size_t utf8_clean(char *out, size_t size, const char *bytes, size_t length,
                  const char *replacement, const char *unwanted);

#endif
