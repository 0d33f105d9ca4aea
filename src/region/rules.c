/* rules.c: checks names and shapes, and makes paths, for producers and readers.
 */
#include "percore_config.h"

#include <errno.h>
#include <stdio.h>
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

uint32_t region_histogram_buckets(uint32_t sub_bits, uint32_t max_bits) {
  if (sub_bits > 8 || max_bits <= sub_bits || max_bits > 64)
    return 0;
  return (max_bits - sub_bits + 1) << sub_bits;
}

uint32_t region_field_cells(uint32_t kind, uint32_t sub_bits,
                            uint32_t max_bits) {
  return kind == PERCORE_HISTOGRAM
             ? region_histogram_buckets(sub_bits, max_bits)
             : 1;
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

#define PART(name, member, count, size, optional)                              \
  {                                                                            \
    name, offsetof(struct region_table, member), table->member, count, size,   \
        optional                                                               \
  }

void region_table_parts(const struct region_table *table,
                        struct region_part parts[REGION_TABLE_PARTS]) {
  uint64_t rows = table->max_rows, bases = 8ull * table->columns;
  const struct region_part all[REGION_TABLE_PARTS] = {
      PART("live words", live_offset, 1, sizeof(struct region_table_live),
           false),
      PART("generations", generations_offset, rows, 8, false),
      PART("labels", labels_offset, rows, table->label_stride, false),
      PART("births", birth_offset, rows, bases, true),
      PART("resets", reset_offset, rows, bases, true),
      PART("single copies", single_offset, rows, table->row_stride, false),
  };
  memcpy(parts, all, sizeof(all));
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
      (instance != NULL && !region_instance_is_valid(instance)))
    return region_failed(EINVAL);
  int length = snprintf(path, size, "%s/%s%s%s.%s", dir, name,
                        instance != NULL ? "@" : "",
                        instance != NULL ? instance : "", suffix);
  return length >= 0 && (size_t)length < size ? 0 : region_failed(ENAMETOOLONG);
}

bool region_label_split(struct region_label *label, const char *text,
                        size_t length) {
  const char *at = memchr(text, '@', length);
  size_t region = at != NULL ? (size_t)(at - text) : length;
  size_t instance = at != NULL ? length - region - 1 : 0;
  if (region >= sizeof(label->region) || instance >= sizeof(label->instance))
    return false;
  *label = (struct region_label){{0}, {0}};
  memcpy(label->region, text, region);
  if (at != NULL)
    memcpy(label->instance, at + 1, instance);
  return region_name_is_valid(label->region, false) &&
         (at == NULL || region_instance_is_valid(label->instance));
}

size_t region_label_length(const char *file) {
  const char *end = strrchr(file, '.');
  return end != NULL && strcmp(end, ".sock") == 0 ? (size_t)(end - file) : 0;
}
