#include "feed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fields_by_place(struct map_feed *feed, char why[WHY_SIZE]) {
  const struct map_fields *given = &feed->table.fields_at;
  uint32_t size = feed->map.info.value_size;
  for (size_t i = 0; i < given->len; i++) {
    const struct map_field *field = &given->list[i];
    if (field->size <= size && field->offset <= size - field->size)
      continue;
    return why_fails(why, -ERANGE,
                     "field %s ends beyond the %u bytes of a value",
                     field->name, size);
  }
  feed->fields.list = calloc(given->len, sizeof(*given->list));
  if (feed->fields.list == NULL)
    return why_fails(why, -ENOMEM, "out of memory");
  feed->fields.len = given->len;
  memcpy(feed->fields.list, given->list, given->len * sizeof(*given->list));
  return 0;
}

/* True if the field must be read. Global variables may hold secrets, so they
 * are read only if the option Field names them or they are tagged. */
static bool is_wanted(const struct map_feed *feed,
                      const struct map_field *field) {
  const struct map_table *table = &feed->table;
  if (table->fields.len > 0)
    return names_have(&table->fields, field->name);
  return strchr(feed->map.info.name, '.') == NULL || field->is_tagged;
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

static int choose_fields(struct map_feed *feed, char why[WHY_SIZE]) {
  const struct map_table *table = &feed->table;
  size_t kept = 0;
  if (table->has_all_names) {
    check_names(&feed->fields, "Field", &table->fields, why);
    check_names(&feed->fields, "Gauge", &table->gauges, why);
  }
  for (size_t i = 0; i < feed->fields.len; i++) {
    struct map_field *field = &feed->fields.list[i];
    field->is_gauge |=
        field->bucket == 0 && names_have(&table->gauges, field->name);
    if (is_wanted(feed, field))
      feed->fields.list[kept++] = *field;
  }
  feed->fields.len = kept;
  if (kept > 0)
    return 0;
  return why_fails(
      why, -ENOENT,
      "no field is read: name fields with Field, or tag them percore:counter");
}

int map_feed_learn(struct map_feed *feed, char why[WHY_SIZE]) {
  struct bpf_map_info *info = &feed->map.info;
  btf_close(&feed->types);
  map_fields_free(&feed->fields);
  int status = 0;
  if (feed->table.fields_at.len > 0) {
    status = fields_by_place(feed, why);
  } else {
    status = btf_open(&feed->types, info, why);
    if (status == 0)
      status = map_fields_read(&feed->fields, &feed->types, info, why);
  }
  return status == 0 ? choose_fields(feed, why) : status;
}
