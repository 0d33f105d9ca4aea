/* utf8.h: checks and cleans untrusted bytes as UTF-8.
 *
 * All other folders may include files from base/. Files in base/ include no
 * files from other folders. */
#ifndef PERCORE_BASE_UTF8_H
#define PERCORE_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True for the C0 and C1 control characters and DEL. */
bool utf8_is_control(uint32_t code);

/* True for characters that control a terminal, that data stores take for the
 * end of a name, or that make text look like other text: control characters,
 * blanks other than U+0020, direction marks and invisible characters. */
bool utf8_is_deceptive(uint32_t code);

/* True if the text is well-formed UTF-8 and is_in_class returns false for each
 * of its characters. */
bool utf8_has_no(const char *text, size_t length,
                 bool (*is_in_class)(uint32_t));

/* Copies bytes to `out` as well-formed UTF-8. Writes `replacement` instead of
 * each deceptive character, each ASCII character listed in `unwanted`, and each
 * byte that is not part of a well-formed character. A result that does not fit
 * in `size` bytes is cut between two characters. The result always ends with a
 * NUL. Returns its length without the NUL. size must be at least 1. */
size_t utf8_clean(char *out, size_t size, const char *bytes, size_t length,
                  const char *replacement, const char *unwanted);

#endif
