/* name.c: names of regions, instances, tables and fields: which are valid, and
 * where the files of a region are. */
#include "percore_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "layout.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

bool region_name_is_valid(const char *name, bool underscores) {
  if (name == NULL || name[0] < 'a' || name[0] > 'z')
    return false;
  size_t length = strspn(name, underscores ? LOWER DIGITS "_" : LOWER DIGITS);
  return name[length] == '\0' && length <= REGION_MAX_PLUGIN_NAME;
}

bool region_table_name_is_valid(const char *name) {
  return region_name_is_valid(name, false) && strcmp(name, "host") != 0 &&
         strcmp(name, "core") != 0;
}

bool region_instance_is_valid(const char *instance) {
  size_t length = strspn(instance, LOWER UPPER DIGITS "-_.");
  return instance[length] == '\0' && length > 0 &&
         length <= REGION_MAX_INSTANCE && instance[0] != '.';
}

bool region_text_is_valid(const char *text) {
  return text == NULL || utf8_has_no(text, strlen(text), utf8_is_control);
}

const char *region_runtime_dir(void) {
  const char *dir = secure_getenv("PERCORE_RUNTIME_DIR");
  return dir != NULL && dir[0] != '\0' ? dir : REGION_RUNTIME_DIR;
}

bool region_title_split(struct region_title *title, const char *text,
                        size_t length) {
  const char *at = memchr(text, '@', length);
  size_t region = at != NULL ? (size_t)(at - text) : length;
  size_t instance = at != NULL ? length - region - 1 : 0;
  if (region >= sizeof(title->region) || instance >= sizeof(title->instance))
    return false;
  *title = (struct region_title){{0}, {0}};
  memcpy(title->region, text, region);
  if (at != NULL)
    memcpy(title->instance, at + 1, instance);
  return region_name_is_valid(title->region, false) &&
         (at == NULL || region_instance_is_valid(title->instance));
}

size_t region_title_length(const char *file) {
  enum { ID_DIGITS = 16 };
  const char *id = strrchr(file, '.');
  return id != NULL && strlen(id + 1) == ID_DIGITS &&
                 strspn(id + 1, DIGITS "abcdef") == ID_DIGITS
             ? (size_t)(id - file)
             : 0;
}
