#include "text.h"

#include "base/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

size_t text_clean(char *out, size_t size, const char *bytes, size_t length) {
  static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
  return utf8_clean(out, size, bytes, length, replacement, "");
}

char *text_clean_string(char *out, size_t size, const char *text) {
  text_clean(out, size, text, strlen(text));
  return out;
}

void text_append(char *list, size_t size, const char *separator,
                 const char *name) {
  size_t used = strlen(list);
  snprintf(list + used, size - used, "%s%s", used > 0 ? separator : "", name);
}

/* Returns the number of characters in `length` bytes of clean text. */
static int characters(const char *text, size_t length) {
  int count = 0;
  for (size_t i = 0; i < length; i++)
    count += ((uint8_t)text[i] & 0xc0) != 0x80;
  return count;
}

int text_width(const char *text) { return characters(text, strlen(text)); }

int text_lines(const char *text) {
  int lines = 0;
  for (; *text != '\0'; text++)
    lines += *text == '\n';
  return lines;
}

/* Returns a pointer to the text after its first `count` characters. */
static char *after(char *text, int count) {
  while (*text != '\0' && (count > 0 || ((uint8_t)*text & 0xc0) == 0x80))
    count -= ((uint8_t)*text++ & 0xc0) != 0x80;
  return text;
}

void text_shorten(char *text, int width) {
  static const char gap[] = "...";
  int kept = width - (int)strlen(gap), length = text_width(text);
  if (length <= width)
    return;
  char *end = after(text, (kept + 1) / 2);
  const char *rest = after(text, length - kept / 2);
  memcpy(end, gap, strlen(gap));
  memmove(end + strlen(gap), rest, strlen(rest) + 1);
}

void text_pad(FILE *out, const char *text, int width) {
  int missing = (width < 0 ? -width : width) - text_width(text);
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
