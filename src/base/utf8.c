#include "utf8.h"

#include <string.h>

/* Well-formed sequences by their first byte (Unicode 15, table 3-7): length,
 * and the range of the second byte, which excludes overlong forms, surrogates,
 * and code points beyond U+10FFFF. */
static const struct sequence {
  uint8_t first, last;
  uint8_t length;
  uint8_t second_least, second_most;
} sequences[] = {
    {0x00, 0x7f, 1, 0, 0},       {0xc2, 0xdf, 2, 0x80, 0xbf},
    {0xe0, 0xe0, 3, 0xa0, 0xbf}, {0xe1, 0xec, 3, 0x80, 0xbf},
    {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
    {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf},
    {0xf4, 0xf4, 4, 0x80, 0x8f},
};

struct range {
  uint32_t first, last;
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static bool is_in(uint32_t code, const struct range *ranges, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (code >= ranges[i].first && code <= ranges[i].last)
      return true;
  return false;
}

static size_t sequence_length(const uint8_t *bytes, size_t length) {
  for (size_t i = 0; i < COUNT_OF(sequences); i++) {
    const struct sequence *sequence = &sequences[i];
    if (bytes[0] < sequence->first || bytes[0] > sequence->last)
      continue;
    if (sequence->length > length)
      return 0;
    if (sequence->length > 1 &&
        (bytes[1] < sequence->second_least || bytes[1] > sequence->second_most))
      return 0;
    for (size_t at = 2; at < sequence->length; at++)
      if ((bytes[at] & 0xc0) != 0x80)
        return 0;
    return sequence->length;
  }
  return 0;
}

/* Returns the length of the well-formed character at the start of text, and
 * writes its code point. Returns 0 if the text does not start with one. */
static size_t decode(const char *text, size_t available, uint32_t *code) {
  const uint8_t *bytes = (const uint8_t *)text;
  *code = 0;
  if (available == 0)
    return 0;
  size_t length = sequence_length(bytes, available);
  if (length == 0)
    return 0;
  *code = length == 1 ? bytes[0] : bytes[0] & (0x7fu >> length);
  for (size_t at = 1; at < length; at++)
    *code = *code << 6 | (bytes[at] & 0x3fu);
  return length;
}

bool utf8_is_control(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code <= 0x9f);
}

bool utf8_is_deceptive(uint32_t code) {
  static const struct range deceptive[] = {
      {0xad, 0xad},     {0x61c, 0x61c},    {0x180e, 0x180e}, {0x200b, 0x200b},
      {0x200e, 0x200f}, {0x2028, 0x202e},  {0x2060, 0x206f}, {0xfeff, 0xfeff},
      {0xfff9, 0xfffb}, {0xe0000, 0xe0fff}};
  return utf8_is_control(code) || is_in(code, deceptive, COUNT_OF(deceptive));
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
