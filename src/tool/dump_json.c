#include "dump.h"
#include "json.h"
#include "target.h"
#include "values.h"

#include <stdio.h>

static void put_optional(struct json *json, const char *key, const char *text) {
  if (text != NULL)
    json_text(json, key, text);
}

static void put_slots(struct json *json, struct region_reader *reader) {
  json_open_array(json, "slots");
  for (uint32_t s = 0; s < region_reader_slots(reader); s++) {
    struct region_slot_view slot;
    region_reader_slot(reader, s, &slot);
    if (slot.state == REGION_FREE)
      continue;
    json_open_object(json, NULL);
    json_integer(json, "slot", s);
    json_integer(json, "core", slot.core);
    json_bool(json, "attached", slot.state == REGION_LIVE);
    json_bool(json, "asleep", slot.asleep);
    json_integer(json, "tid", slot.tid);
    json_text(json, "name", slot.name);
    json_close_object(json);
  }
  json_close_array(json);
}

void dump_json_region(struct json *json, struct region_reader *reader) {
  const struct region_directory *directory = region_reader_directory(reader);
  char user[USER_TEXT_SIZE];
  user_text(user, region_reader_uid(reader));
  json_text(json, "region", directory->name);
  put_optional(json, "instance", directory->instance);
  if (region_reader_pid(reader) > 0)
    json_integer(json, "pid", region_reader_pid(reader));
  json_integer(json, "uid", region_reader_uid(reader));
  json_text(json, "user", user);
  json_thousandths(json, "started",
                   (double)directory->header.start_realtime_ns / 1e9);
  json_unsigned(json, "size", directory->header.region_size);
  json_unsigned(json, "tsc_hz", directory->header.tsc_hz);
  json_unsigned(json, "attach_refused", region_reader_attach_refused(reader));
  put_slots(json, reader);
}

static void put_field(struct json *json, struct field_ref field) {
  static const char *const aggregations[] = {"sum", "min", "max", "none"};
  json_open_object(json, NULL);
  json_text(json, "name", field.described->name);
  json_text(json, "kind", kind_name(field.described->kind));
  put_optional(json, "unit", field.described->unit);
  put_optional(json, "help", field.described->help);
  if (field.described->kind == PERCORE_LEVEL)
    json_text(json, "aggregation", aggregations[field.described->aggregation]);
  json_close_object(json);
}

void dump_json_table(struct json *json,
                     const struct region_directory *directory, uint32_t t,
                     uint32_t rows) {
  const struct percore_table *table = &directory->described[t];
  json_open_object(json, NULL);
  json_text(json, "name", table->name);
  put_optional(json, "help", table->help);
  json_text(json, "storage", storage_name(table->storage));
  json_integer(json, "max_rows", table->max_rows);
  json_integer(json, "rows_in_use", rows);
  json_open_array(json, "fields");
  for (uint32_t f = 0; f < table->field_count; f++)
    put_field(json, field_of(directory, t, f));
  json_close_array(json);
  json_open_array(json, "rows");
}

static void put_core(struct json *json, const struct dump_row *row, int core) {
  const struct region_directory *directory = row->directory;
  const uint64_t *cells = row->cores + (size_t)core * row->core_stride;
  char key[16];
  snprintf(key, sizeof(key), "%d", core);
  json_open_object(json, key);
  for (uint32_t f = 0; f < directory->tables[row->table].field_count; f++) {
    struct field_ref field = field_of(directory, row->table, f);
    if (row->all_on_cores || !field_has_total(directory, row->table, f))
      value_json(json, field.described->name, field,
                 cells + field.layout->column);
  }
  json_close_object(json);
}

void dump_json_row(struct json *json, const struct dump_row *row) {
  const struct region_directory *directory = row->directory;
  json_open_object(json, NULL);
  json_text(json, "row", row->name);
  if (row->torn)
    json_bool(json, "torn", true);
  if (row->with_total) {
    json_open_object(json, "values");
    for (uint32_t f = 0; f < directory->tables[row->table].field_count; f++) {
      struct field_ref field = field_of(directory, row->table, f);
      if (field_has_total(directory, row->table, f))
        value_json(json, field.described->name, field,
                   row->shown + field.layout->column);
    }
    json_close_object(json);
  }
  if (row->core_count > 0) {
    json_open_object(json, "cores");
    for (int core = 0; core < row->core_count; core++)
      if (row->core_used[core])
        put_core(json, row, core);
    json_close_object(json);
  }
  json_close_object(json);
}
