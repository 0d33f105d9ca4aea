#include "label.h"

#include <string.h>

#include "layout.h"

bool region_label_split(struct region_label *label, const char *text) {
  size_t length = strlen(text);
  if (length >= sizeof(label->name))
    return false;
  memcpy(label->name, text, length + 1);
  label->instance = strchr(label->name, '@');
  if (label->instance != NULL)
    *label->instance++ = '\0';
  return region_name_is_valid(label->name, false) &&
         (label->instance == NULL || region_instance_is_valid(label->instance));
}

size_t region_label_of_socket(const char *file) {
  static const char suffix[] = ".sock";
  size_t length = strlen(file), suffix_length = sizeof(suffix) - 1;
  return length > suffix_length &&
                 strcmp(file + length - suffix_length, suffix) == 0
             ? length - suffix_length
             : 0;
}
