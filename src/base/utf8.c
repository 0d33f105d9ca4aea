#include "utf8.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define LAST_CODE 0x10ffff

/* How UTF-8 encodes characters of each length: the bits that mark the first
 * byte, the length in bytes, and the smallest code point that needs this
 * length. */
static const struct form {
  uint8_t mask, bits;
  uint8_t length;
  uint32_t least;
} forms[] = {
    {0x80, 0x00, 1, 0},
    {0xe0, 0xc0, 2, 0x80},
    {0xf0, 0xe0, 3, 0x800},
    {0xf8, 0xf0, 4, 0x10000},
};

static bool is_surrogate(uint32_t code) {
  return code >= 0xd800 && code <= 0xdfff;
}

static const struct form *form_of(uint8_t first) {
  for (size_t i = 0; i < COUNT_OF(forms); i++)
    if ((first & forms[i].mask) == forms[i].bits)
      return &forms[i];
  return NULL;
}

/* Returns the length of the well-formed character at the start of text, and
 * sets *code to its code point. Returns 0 if the text does not start with a
 * well-formed character. */
static size_t decode(const char *text, size_t available, uint32_t *code) {
  const uint8_t *bytes = (const uint8_t *)text;
  const struct form *form = available > 0 ? form_of(bytes[0]) : NULL;
  if (form == NULL || form->length > available)
    return 0;
  *code = bytes[0] & (uint8_t)~form->mask;
  for (size_t at = 1; at < form->length; at++) {
    if ((bytes[at] & 0xc0) != 0x80)
      return 0;
    *code = *code << 6 | (bytes[at] & 0x3fu);
  }
  bool good =
      *code >= form->least && *code <= LAST_CODE && !is_surrogate(*code);
  return good ? form->length : 0;
}

bool utf8_is_control(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code <= 0x9f);
}

bool utf8_is_deceptive(uint32_t code) {
  /* Unicode's White_Space and Default_Ignorable_Code_Point, the Braille blank
   * and marks of annotations. */
  static const struct {
    uint32_t first, last;
  } ranges[] = {{0xa0, 0xa0},       {0xad, 0xad},       {0x34f, 0x34f},
                {0x61c, 0x61c},     {0x115f, 0x1160},   {0x1680, 0x1680},
                {0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x2000, 0x200f},
                {0x2028, 0x202f},   {0x205f, 0x206f},   {0x2800, 0x2800},
                {0x3000, 0x3000},   {0x3164, 0x3164},   {0xfe00, 0xfe0f},
                {0xfeff, 0xfeff},   {0xffa0, 0xffa0},   {0xfff0, 0xfffb},
                {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};
  for (size_t i = 0; i < COUNT_OF(ranges); i++)
    if (code >= ranges[i].first && code <= ranges[i].last)
      return true;
  return utf8_is_control(code);
}

bool utf8_has_no(const char *text, size_t length,
                 bool (*is_in_class)(uint32_t)) {
  while (length > 0) {
    uint32_t code;
    size_t taken = decode(text, length, &code);
    if (taken == 0 || is_in_class(code))
      return false;
    text += taken;
    length -= taken;
  }
  return true;
}

static bool is_wanted(uint32_t code, const char *unwanted) {
  if (utf8_is_deceptive(code))
    return false;
  return code >= 0x80 || strchr(unwanted, (int)code) == NULL;
}

size_t utf8_clean(char *out, size_t size, const char *bytes, size_t length,
                  const char *replacement, const char *unwanted) {
  size_t written = 0;
  while (length > 0) {
    uint32_t code;
    size_t taken = decode(bytes, length, &code);
    bool keep = taken > 0 && is_wanted(code, unwanted);
    const char *from = keep ? bytes : replacement;
    size_t added = keep ? taken : strlen(replacement);
    if (taken == 0)
      taken = 1;
    if (written + added >= size)
      break;
    memcpy(out + written, from, added);
    written += added;
    bytes += taken;
    length -= taken;
  }
  out[written] = '\0';
  return written;
}
