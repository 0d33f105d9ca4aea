#include "json.h"
#include "top.h"

#include <math.h>

static void put_worker(struct json *json, const struct merge_part *part,
                       uint32_t slot) {
  const struct region_workers *workers = &part->workers;
  const struct region_worker *worker = &workers->list[slot];
  json_open_object(json, NULL);
  if (part->instance[0] != '\0')
    json_text(json, "instance", part->instance);
  json_number(json, "core", worker->slot.core >= 0 ? worker->slot.core : NAN);
  json_integer(json, "slot", slot);
  json_integer(json, "tid", worker->slot.tid);
  json_text(json, "name", worker->slot.name);
  json_bool(json, "polls", worker->polls);
  json_bool(json, "asleep", worker->slot.asleep_tsc != 0);
  json_bool(json, "stuck", worker->still_ns >= TOP_STUCK_NS);
  json_number(json, "still_s", (double)worker->still_ns / 1e9);
  json_percent(json, "useful", worker->useful);
  json_percent(json, "slept", worker->slept);
  json_percent(json, "empty", top_empty(worker));
  json_number(json, "polls_per_s",
              top_per_second(workers, worker, REGION_CORE_POLLS));
  json_number(json, "items_per_s",
              top_per_second(workers, worker, REGION_CORE_ITEMS));
  json_close_object(json);
}

/* As totals, a histogram is one value with all its percentiles. */
static bool is_part(const struct rates *rates, size_t column) {
  return rates->options.totals && rates->columns[column].kind == RATE_QUANTILE;
}

static void put_column(struct json *json, const struct rates *rates,
                       const struct rate_column *column) {
  static const char *const kinds[] = {[RATE_PER_SECOND] = "rate",
                                      [RATE_VALUE] = "value",
                                      [RATE_STATE] = "state",
                                      [RATE_QUANTILE] = "quantile"};
  struct field_ref field = column->field;
  bool is_total = rates->options.totals && column->kind == RATE_PER_SECOND;
  bool is_histogram = field.layout->kind == PERCORE_HISTOGRAM;
  json_open_object(json, NULL);
  json_text(json, "name", column->title);
  json_text(json, "is",
            !is_total      ? kinds[column->kind]
            : is_histogram ? "histogram"
                           : "total");
  if (is_histogram && column->kind == RATE_PER_SECOND && !is_total)
    json_text(json, "unit", "1"); /* it counts values */
  else if (field.described->unit != NULL)
    json_text(json, "unit", field.described->unit);
  json_close_object(json);
}

/* Writes the values of a row, or of one core of it. */
static void put_values(struct json *json, const char *key,
                       const struct rates *rates, const struct rate_row *row,
                       uint32_t copy) {
  json_open_object(json, key);
  for (size_t c = 0; c < rates->columns_len; c++) {
    const struct rate_column *column = &rates->columns[c];
    const uint64_t *cells = rate_cells(rates, column, row, copy);
    if (is_part(rates, c) || (copy == 0 && !column->has_total))
      continue;
    if (cells != NULL && (rates->options.totals || column->kind == RATE_STATE))
      value_json(json, column->title, column->field, cells);
    else
      json_number(json, column->title, rate_value(rates, column, row, copy));
  }
  json_close_object(json);
}

static void put_row(struct json *json, const struct rates *rates,
                    const struct rate_row *row) {
  json_open_object(json, NULL);
  json_text(json, "row", row->name);
  if (row->torn)
    json_bool(json, "torn", true);
  put_values(json, "values", rates, row, 0);
  if (rates->copies > 1)
    json_open_object(json, "cores");
  for (uint32_t copy = 1; copy < rates->copies; copy++) {
    char key[16];
    snprintf(key, sizeof(key), "%u", copy - 1);
    if (row->has[copy])
      put_values(json, key, rates, row, copy);
  }
  if (rates->copies > 1)
    json_close_object(json);
  json_close_object(json);
}

static int put_table(FILE *out, struct json *json, const struct top *top,
                     struct rates *rates) {
  const struct rate_row *row;
  int status = rates_begin(rates, SIZE_MAX);
  json_open_object(json, NULL);
  json_text(json, "name",
            merge_directory(&top->merge)->described[rates->tile.table].name);
  json_number(json, "interval_s", rates->interval_s);
  json_unsigned(json, "rows_live", rates->rows_live);
  json_open_array(json, "columns");
  for (size_t c = 0; c < rates->columns_len; c++)
    if (!is_part(rates, c))
      put_column(json, rates, &rates->columns[c]);
  json_close_array(json);
  json_open_array(json, "rows");
  while (status == 0 && !ferror(out) &&
         (status = rates_next(rates, &row)) == 0 && row != NULL)
    put_row(json, rates, row);
  json_close_array(json);
  json_close_object(json);
  return status;
}

int top_json_write(FILE *out, const void *figures) {
  const struct top *top = figures;
  const struct region_reader *reader = top->merge.parts[0].reader;
  struct json *json = json_begin(out, "top");
  int status = 0;
  json_thousandths(json, "time", (double)top->realtime_ns / 1e9);
  json_text(json, "region", top->merge.region);
  json_text(json, "state", top->alive ? "alive" : "gone");
  if (!top->alive) {
    json_text(json, "why", top->why);
    json_end(json);
    return 0;
  }
  if (!top->merge.is_one)
    json_unsigned(json, "instances", merge_count(&top->merge));
  else if (region_reader_pid(reader) > 0)
    json_integer(json, "pid", region_reader_pid(reader));
  json_integer(json, "uid", region_reader_uid(reader));
  if (top->with_workers) {
    const struct merge_part *part = NULL;
    json_open_array(json, "workers");
    while ((part = merge_next(&top->merge, part)) != NULL)
      for (uint32_t s = 0; s < part->workers.len; s++)
        if (part->workers.list[s].slot.state == REGION_LIVE)
          put_worker(json, part, s);
    json_close_array(json);
  }
  json_open_array(json, "tables");
  for (size_t t = 0; t < top->tables_len && status == 0; t++)
    status = put_table(out, json, top, &top->tables[t]);
  json_close_array(json);
  json_end(json);
  return status;
}
