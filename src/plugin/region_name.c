#include "region_name.h"

#include "base/utf8.h"

#include <string.h>

void region_name_clean(char *clean, size_t size, const char *name) {
  if (name[0] == '\0')
    name = "_";
  utf8_clean(clean, size, name, strlen(name), "_", " /;=\"");
}
