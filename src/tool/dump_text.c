#include "dump.h"
#include "target.h"
#include "text.h"
#include "values.h"
#include "window.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void write_slots(struct region_reader *reader) {
  char name[TEXT_GROWTH * sizeof(((struct region_slot_view *)0)->name)];
  for (uint32_t s = 0; s < region_reader_slots(reader); s++) {
    struct region_slot_view slot;
    region_reader_slot(reader, s, &slot);
    if (slot.state == REGION_FREE)
      continue;
    printf("# slot %" PRIu32 ": core %d, ", s, slot.core);
    if (slot.state == REGION_LIVE)
      printf("thread %d '%s'%s\n", slot.tid,
             text_clean_string(name, sizeof(name), slot.name),
             slot.asleep ? ", asleep" : "");
    else
      printf("detached by '%s'\n",
             text_clean_string(name, sizeof(name), slot.name));
  }
}

void dump_text_region(struct region_reader *reader) {
  const struct region_directory *directory = region_reader_directory(reader);
  char name[TARGET_NAME_SIZE], user[USER_TEXT_SIZE], size[SIZE_TEXT_SIZE];
  char time[TIME_TEXT_SIZE], pid[PID_TEXT_SIZE];
  target_name(name, directory);
  user_text(user, region_reader_uid(reader));
  size_text(size, directory->header.region_size);
  time_text(time, directory->header.start_realtime_ns);
  pid_text(pid, region_reader_pid(reader));
  printf("# region %s: pid %s, user %s, since %s, %s\n", name, pid, user, time,
         size);
  write_slots(reader);
}

void dump_text_table(const struct region_directory *directory, uint32_t t,
                     uint32_t rows) {
  const struct percore_table *table = &directory->described[t];
  char help[512];
  printf("# table %s (%s, ", table->name, storage_name(table->storage));
  if (table->max_rows == 0)
    printf("one row)");
  else
    printf("%" PRIu32 " of %" PRIu32 " rows)", rows, table->max_rows);
  printf("%s%s\n", table->help != NULL ? ": " : "",
         table->help != NULL
             ? text_clean_string(help, sizeof(help), table->help)
             : "");
  printf("%-12s %-24s %5s %-28s %20s %s\n", "table", "row", "core", "field",
         "value", "unit");
}

/* `suffix` names the percentile of a histogram. */
static void write_line(const char *table, const char *row, int core,
                       const char *field, const char *suffix, const char *value,
                       const char *unit, bool torn) {
  char name[96], label[16], text[VALUE_TEXT_SIZE * TEXT_GROWTH];
  char unit_text[256];
  snprintf(label, sizeof(label), core < 0 ? "all" : "%d", core);
  snprintf(name, sizeof(name), "%s%s%s", field, suffix[0] != '\0' ? "_" : "",
           suffix);
  printf("%-12s ", table);
  text_pad(stdout, row, -24);
  printf(" %5s %-28s ", label, name);
  text_pad(stdout, text_clean_string(text, sizeof(text), value), 20);
  printf(" %s%s\n", text_clean_string(unit_text, sizeof(unit_text), unit),
         torn ? " (torn)" : "");
}

static void write_histogram(const char *table, const char *row, int core,
                            struct field_ref field, const uint64_t *cells,
                            bool torn) {
  struct histogram_summary summary;
  char value[VALUE_TEXT_SIZE];
  histogram_summarise(&summary, field, cells);
  snprintf(value, sizeof(value), "%" PRIu64, summary.count);
  write_line(table, row, core, field.described->name, "count", value, "", torn);
  for (int i = 0; i < QUANTILES; i++) {
    if (isnan(summary.at[i]))
      continue;
    snprintf(value, sizeof(value), "%.15g", summary.at[i]);
    write_line(table, row, core, field.described->name, quantiles[i].name,
               value, field_unit(field), torn);
  }
}

static void write_value(const char *table, const char *row, int core,
                        struct field_ref field, const uint64_t *cells,
                        bool torn) {
  char value[VALUE_TEXT_SIZE];
  if (field.layout->kind == PERCORE_HISTOGRAM) {
    write_histogram(table, row, core, field, cells, torn);
    return;
  }
  value_text(value, field, cells);
  write_line(table, row, core, field.described->name, "", value,
             field.layout->kind == PERCORE_STATE ? "" : field_unit(field),
             torn);
}

void dump_text_row(const struct dump_row *row) {
  const struct region_directory *directory = row->directory;
  const char *table = directory->described[row->table].name;
  char name[REGION_ROW_NAME_SIZE * TEXT_GROWTH];
  text_clean_string(name, sizeof(name), row->name[0] != '\0' ? row->name : "-");
  uint32_t fields = directory->tables[row->table].field_count;
  for (uint32_t f = 0; f < fields; f++) {
    struct field_ref field = field_of(directory, row->table, f);
    uint32_t column = field.layout->column;
    bool has_total =
        row->with_total && field_has_total(directory, row->table, f);
    if (has_total)
      write_value(table, name, -1, field, row->shown + column, row->torn);
    if (has_total && !row->all_on_cores)
      continue;
    for (int core = 0; core < row->core_count; core++)
      if (row->core_used[core])
        write_value(table, name, core, field,
                    row->cores + (size_t)core * row->core_stride + column,
                    row->torn);
  }
}
