#include "source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fields_by_place(struct map_source *source, char why[WHY_SIZE]) {
  const struct map_fields *given = &source->table.fields_at;
  uint32_t size = source->map.info.value_size;
  for (size_t i = 0; i < given->len; i++) {
    const struct map_field *field = &given->list[i];
    if (field->size <= size && field->offset <= size - field->size)
      continue;
    return why_fails(why, -ERANGE,
                     "field %s ends beyond the %u bytes of a value",
                     field->name, size);
  }
  source->fields.list = calloc(given->len, sizeof(*given->list));
  if (source->fields.list == NULL)
    return why_fails(why, -ENOMEM, "out of memory");
  source->fields.len = given->len;
  memcpy(source->fields.list, given->list, given->len * sizeof(*given->list));
  return 0;
}

/* True if the field must be read. Global variables may hold secrets, so they
 * are read only if the option Field names them or they are tagged. */
static bool is_wanted(const struct map_source *source,
                      const struct map_field *field) {
  const struct map_table *table = &source->table;
  if (table->fields.len > 0)
    return names_have(&table->fields, field->name);
  return strchr(source->map.info.name, '.') == NULL || field->is_tagged;
}

/* Appends a warning to `why` for each of the names that is not that of a field,
 * because the name is probably misspelt. */
static void check_names(const struct map_fields *fields, const char *option,
                        const struct names *names, char why[WHY_SIZE]) {
  for (size_t i = 0; i < names->len; i++) {
    size_t f = 0;
    while (f < fields->len && strcmp(fields->list[f].name, names->list[i]) != 0)
      f++;
    size_t used = strlen(why);
    if (f == fields->len)
      snprintf(why + used, WHY_SIZE - used, "%sit has no field %s; correct %s",
               used > 0 ? "; " : "", names->list[i], option);
  }
}

static int choose_fields(struct map_source *source, char why[WHY_SIZE]) {
  const struct map_table *table = &source->table;
  size_t kept = 0;
  if (table->has_all_names) {
    check_names(&source->fields, "Field", &table->fields, why);
    check_names(&source->fields, "Gauge", &table->gauges, why);
  }
  for (size_t i = 0; i < source->fields.len; i++) {
    struct map_field *field = &source->fields.list[i];
    field->is_gauge |=
        field->bucket == 0 && names_have(&table->gauges, field->name);
    field->shift = field->is_signed ? 0 : (uint8_t)table->shift;
    if (is_wanted(source, field))
      source->fields.list[kept++] = *field;
  }
  source->fields.len = kept;
  if (kept > 0)
    return 0;
  return why_fails(
      why, -ENOENT,
      "no field is read: name fields with Field, or tag them percore:counter");
}

int map_source_learn(struct map_source *source, char why[WHY_SIZE]) {
  struct bpf_map_info *info = &source->map.info;
  btf_close(&source->types);
  map_fields_free(&source->fields);
  int status = 0;
  if (source->table.fields_at.len > 0) {
    status = fields_by_place(source, why);
  } else {
    status = btf_open(&source->types, info, source->table.object, why);
    if (status == 0)
      status = map_fields_read(&source->fields, &source->types, info, why);
  }
  return status == 0 ? choose_fields(source, why) : status;
}
