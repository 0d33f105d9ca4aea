#include "text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/* Well-formed sequences by their first byte (Unicode 15, table 3-7): how long,
 * and between what the second byte must lie, which keeps out overlong forms,
 * surrogates, and what is beyond U+10FFFF. */
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

/* Length of the well-formed character at the start, 0 if there is none. */
static size_t character_length(const uint8_t *bytes, size_t length) {
  for (size_t i = 0; i < sizeof(sequences) / sizeof(sequences[0]); i++) {
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

static uint32_t code_point(const uint8_t *bytes, size_t length) {
  if (length == 1)
    return bytes[0];
  uint32_t code = bytes[0] & (0x7fu >> length);
  for (size_t at = 1; at < length; at++)
    code = code << 6 | (bytes[at] & 0x3fu);
  return code;
}

static bool is_harmless(uint32_t code) {
  static const struct {
    uint32_t first, last;
  } harmful[] = {
      {0x00, 0x1f},     {0x7f, 0x9f},     {0x061c, 0x061c}, {0x200e, 0x200f},
      {0x2028, 0x202e}, {0x2066, 0x2069}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb},
  };
  for (size_t i = 0; i < sizeof(harmful) / sizeof(harmful[0]); i++)
    if (code >= harmful[i].first && code <= harmful[i].last)
      return false;
  return true;
}

size_t text_clean(char *out, size_t size, const char *bytes, size_t length) {
  const uint8_t *at = (const uint8_t *)bytes;
  size_t written = 0;
  while (length > 0) {
    size_t taken = character_length(at, length);
    const char *from = (const char *)at;
    size_t added = taken;
    if (taken == 0 || !is_harmless(code_point(at, taken))) {
      from = replacement;
      added = sizeof(replacement) - 1;
    }
    if (taken == 0)
      taken = 1;
    if (written + added >= size)
      break;
    memcpy(out + written, from, added);
    written += added;
    at += taken;
    length -= taken;
  }
  out[written] = '\0';
  return written;
}

char *text_clean_string(char *out, size_t size, const char *text) {
  text_clean(out, size, text, strlen(text));
  return out;
}

/* Characters, not bytes. */
static int characters(const char *text, size_t length) {
  int count = 0;
  for (size_t i = 0; i < length; i++)
    count += ((uint8_t)text[i] & 0xc0) != 0x80;
  return count;
}

void text_pad(FILE *out, const char *text, int width) {
  int missing = (width < 0 ? -width : width) - characters(text, strlen(text));
  if (missing < 0)
    missing = 0;
  fprintf(out, "%*s%s%*s", width > 0 ? missing : 0, "", text,
          width < 0 ? missing : 0, "");
}

void text_wrap(FILE *out, const char *text, int indent, int width) {
  int column = indent;
  for (bool first = true; *text != '\0'; first = false) {
    size_t length = strcspn(text, " ");
    int wide = characters(text, length);
    if (!first && width > 0 && column + 1 + wide > width) {
      fprintf(out, "\n%*s", indent, "");
      column = indent;
    } else if (!first) {
      fputc(' ', out);
      column++;
    }
    fwrite(text, 1, length, out);
    column += wide;
    text += length + (text[length] == ' ');
  }
  fputc('\n', out);
}
