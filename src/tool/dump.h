/* dump: the two faces of `percore dump`. A region is walked once, some rows at
 * a time, and each face writes what it is shown; neither keeps anything. */
#ifndef PERCORE_DUMP_H
#define PERCORE_DUMP_H

#include "region/reader.h"

/* A row, and where its values are: shown as since the last reset (gauges: since
 * the row was added), cores as the slots of each core have counted them. */
struct dump_row {
  const struct region_directory *directory;
  uint32_t table;
  const char *name; /* foreign bytes; "" in a table of a single row */
  bool torn;
  bool with_total;       /* false in the table `core` */
  const uint64_t *shown; /* [column] */
  int core_count;        /* 0: no values of single cores */
  const uint8_t *core_used;
  const uint64_t *cores; /* that of core 0 */
  size_t core_stride;    /* words from core to core */
  bool all_on_cores;     /* else only fields without a total */
};

struct dump_face {
  /* 0 or -ENOMEM. *face is for the functions below. */
  int (*begin)(void **face, struct region_reader *reader);
  void (*begin_table)(void *face, const struct region_directory *directory,
                      uint32_t table, uint32_t rows_in_use, uint32_t live_rows);
  void (*row)(void *face, const struct dump_row *row);
  void (*end_table)(void *face);
  /* 0 or -ENOMEM. */
  int (*end)(void *face);
};

extern const struct dump_face dump_text, dump_json;

#endif
