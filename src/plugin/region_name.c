#include "region_name.h"

#include "region/layout.h"

#include <string.h>

/* Bytes of a character that may stand as it is, or 0. */
static size_t whole_character(const char *name) {
  unsigned char first = (unsigned char)name[0];
  if (first < 0x80)
    return first > ' ' && first != 0x7f && strchr("/;=\"", first) == NULL;
  size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  char character[5] = {0};
  for (size_t i = 0; i < length && name[i] != '\0'; i++)
    character[i] = name[i];
  return strlen(character) == length && region_text_is_valid(character) ? length
                                                                        : 0;
}

void region_name_clean(char *clean, size_t size, const char *name) {
  size_t used = 0;
  if (name[0] == '\0')
    name = "_";
  while (*name != '\0') {
    size_t length = whole_character(name);
    size_t wanted = length > 0 ? length : 1;
    if (used + wanted >= size)
      break;
    if (length > 0)
      memcpy(clean + used, name, length);
    else
      clean[used] = '_';
    used += wanted;
    name += wanted;
  }
  clean[used] = '\0';
}
