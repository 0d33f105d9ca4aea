/* merge: what top and dump read: a region, or all files of a name, with all of
 * its instances. Rows that have the same name are added up as collectd does it.
 * Files of other users than the first, and tables with other fields than those
 * of the first, are left out. */
#ifndef PERCORE_MERGE_H
#define PERCORE_MERGE_H

#include "base/key_index.h"
#include "region/growth.h"
#include "region/name.h"
#include "region/worker.h"
#include "target.h"

/* "ROW", or "ROW@INSTANCE" if instances are told apart. Untrusted bytes. */
#define MERGE_ROW_SIZE (REGION_ROW_NAME_SIZE + 64)

/* What the rows of a table had counted when they were read last (rates.c). */
struct merge_past {
  bool is_known;              /* false before the first read */
  struct region_growth cells; /* all columns */
};

struct merge_part {
  /* What tells it from other parts: its instance, or else its pid. */
  char instance[REGION_MAX_INSTANCE + 1];
  struct region_reader *reader;
  bool is_new;  /* its producer was not there at the look before */
  bool is_over; /* its producer is gone, and its last values were read */
  struct region_workers workers;
  /* The maximum size of the past cells of a table: a region may claim far more
   * rows than are backed by memory. */
  uint64_t bytes_most;
  struct merge_past pasts[REGION_MAX_TABLES];
};

struct merge {
  /* The first part describes the tables; it stays when it is over. */
  struct merge_part *parts;
  size_t len;
  bool is_one;        /* the first part is read alone */
  bool each;          /* tell instances apart */
  const char *region; /* as on the command line: NAME or NAME@INSTANCE */
  uint64_t looked_boottime_ns;
  /* Of the tile that was read last: the names of the rows, and which copies
   * they have, [copy][row]. */
  char (*names)[MERGE_ROW_SIZE];
  struct key_index index; /* of the names, while rows are added up */
  bool *added;
};

/* Opens a region as target_open does. A name without an instance stands
 * for all of its instances, if there are any. */
int merge_open(struct merge *merge, const char *command, const char *region,
               bool each);
void merge_close(struct merge *merge);

/* Looks for files that have come or gone. If a single one was read, returns
 * what has happened to it, or REGION_CAME if there are several now; otherwise
 * returns REGION_AS_BEFORE. */
enum region_event merge_refresh(struct merge *merge);

/* Returns the next part that is read, after `part` (NULL: the first), or NULL.
 */
struct merge_part *merge_next(const struct merge *merge,
                              const struct merge_part *part);
size_t merge_count(const struct merge *merge);

static inline const struct region_directory *
merge_directory(const struct merge *merge) {
  return region_reader_directory(merge->parts[0].reader);
}

/* True if the field has values: sums of rows lack states, and gauges that are
 * declared to have no sum. */
bool merge_has_field(const struct merge *merge, uint32_t table, uint32_t field);

/* What to make of a tile of a part: replaces its cells by those that are added
 * up. Returns 0 or -errno. */
typedef int merge_take(struct merge_part *part, struct region_tile *tile);

/* What a sum of counters is if one of them is unknown. */
#define MERGE_UNKNOWN (UINT64_C(1) << 63)

/* Reads rows into the tile, starting with first_row; those of several parts are
 * all read at once. Returns 0 or -errno. */
int merge_read(struct merge *merge, struct region_tile *tile,
               uint32_t first_row, merge_take *take);

/* True if a row has cells of this core. */
static inline bool merge_has_core(const struct merge *merge,
                                  const struct region_tile *tile, uint32_t i,
                                  uint32_t core) {
  return merge->is_one ? tile->core_used[core]
                       : merge->added[(1 + core) * (size_t)tile->capacity + i];
}

/* Writes the name of row i of the tile. Returns false if it is not live. */
bool merge_row_name(const struct merge *merge, const struct region_tile *tile,
                    uint32_t i, char name[MERGE_ROW_SIZE]);

#endif
