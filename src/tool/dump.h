/* dump: `percore dump` as text and as JSON. dump.c reads a region a few
 * thousand rows at a time and writes each row at once, so that memory use does
 * not grow with the number of rows. */
#ifndef PERCORE_DUMP_H
#define PERCORE_DUMP_H

#include "json.h"
#include "region/reader.h"

/* A row and its values. `shown` counts since the last reset (region_row_shown);
 * the values of cores count since the slots of the core were first used. */
struct dump_row {
  const struct region_directory *directory;
  uint32_t table;
  const char *name; /* untrusted bytes; "" in a single-row table */
  bool torn;
  bool with_total;       /* false in the table `core` */
  const uint64_t *shown; /* [column] */
  int core_count;        /* 0: no values of single cores are shown */
  const uint8_t *core_used;
  const uint64_t *cores; /* values of core 0 */
  size_t core_stride;    /* distance from core to core, in words */
  /* True: show all fields per core; false: only fields without a total. */
  bool all_on_cores;
};

void dump_text_region(struct region_reader *reader);
void dump_text_table(const struct region_directory *directory, uint32_t table,
                     uint32_t live_rows);
void dump_text_row(const struct dump_row *row);

/* dump_json_table leaves the table and the array of its rows open. */
void dump_json_region(struct json *json, struct region_reader *reader);
void dump_json_table(struct json *json,
                     const struct region_directory *directory, uint32_t table,
                     uint32_t rows_in_use);
void dump_json_row(struct json *json, const struct dump_row *row);

#endif
