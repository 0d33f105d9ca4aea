/* rules.c: what producers and readers both hold to: names, shapes, paths. */
#include "percore_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"

static bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool region_name_is_valid(const char *name, bool underscores) {
  if (name == NULL || !is_lower(name[0]))
    return false;
  for (const char *c = name; *c != '\0'; c++)
    if (!is_lower(*c) && !is_digit(*c) && !(underscores && *c == '_'))
      return false;
  return strlen(name) <= REGION_MAX_PLUGIN_NAME;
}

bool region_instance_is_valid(const char *instance) {
  size_t length = strlen(instance);
  if (length == 0 || length > 63 || instance[0] == '.')
    return false;
  for (const char *c = instance; *c != '\0'; c++)
    if (!is_lower(*c) && !is_digit(*c) && !(*c >= 'A' && *c <= 'Z') &&
        strchr("-_.", *c) == NULL)
      return false;
  return true;
}

/* Bytes of the UTF-8 character at text, 0 if it is none. */
static size_t character(const unsigned char *text) {
  static const struct {
    unsigned char first, last; /* of the first byte */
    unsigned char second, to;  /* of the second */
    unsigned char size;
  } forms[] = {
      {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
      {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
      {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
      {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
  };
  if (text[0] >= ' ' && text[0] < 0x7f)
    return 1;
  for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
    if (text[0] < forms[i].first || text[0] > forms[i].last)
      continue;
    if (text[1] < forms[i].second || text[1] > forms[i].to)
      return 0;
    for (size_t k = 2; k < forms[i].size; k++)
      if ((text[k] & 0xc0) != 0x80)
        return 0;
    /* U+0080 to U+009F are control characters, too */
    return text[0] == 0xc2 && text[1] < 0xa0 ? 0 : forms[i].size;
  }
  return 0;
}

bool region_text_is_valid(const char *text) {
  if (text == NULL)
    return true;
  while (*text != '\0') {
    size_t size = character((const unsigned char *)text);
    if (size == 0)
      return false;
    text += size;
  }
  return true;
}

uint32_t region_histogram_buckets(uint32_t sub_bits, uint32_t max_bits) {
  if (sub_bits > 8 || max_bits <= sub_bits || max_bits > 64)
    return 0;
  return (max_bits - sub_bits + 1) << sub_bits;
}

uint32_t region_row_stride(uint32_t columns, bool consistent, uint32_t align) {
  if (align > 4096 || (align & (align - 1)) != 0)
    return 0;
  uint32_t bytes = (columns + (consistent ? 1 : 0)) * 8;
  uint32_t stride = 8;
  while (stride < bytes && stride < 64)
    stride *= 2;
  if (bytes > 64)
    stride = (bytes + 63) / 64 * 64;
  if (align > 8)
    stride = (stride + align - 1) / align * align;
  return stride;
}

const char *region_runtime_dir(void) {
  const char *dir = secure_getenv("PERCORE_RUNTIME_DIR");
  return dir != NULL && dir[0] != '\0' ? dir : "/run/percore";
}

int region_path(char *path, size_t size, const char *dir, const char *name,
                const char *instance, const char *suffix) {
  if (dir == NULL)
    dir = region_runtime_dir();
  if (!region_name_is_valid(name, false) ||
      (instance != NULL && !region_instance_is_valid(instance))) {
    errno = EINVAL;
    return -1;
  }
  int length = snprintf(path, size, "%s/%s%s%s.%s", dir, name,
                        instance != NULL ? "@" : "",
                        instance != NULL ? instance : "", suffix);
  if (length < 0 || (size_t)length >= size) {
    errno = ENAMETOOLONG;
    return -1;
  }
  return 0;
}
