/* reader.h: reads regions, for the plugin, the tool and percore_open.
 *
 *   region_reader    one producer's region: file, directory, liveness
 *   region_tile      cells of some rows of a table, read together
 *
 * A caller that must not lose any count does this whenever it reads:
 *
 *   event = region_reader_refresh(reader);
 *   if there is a region, read its tables;
 *   if the event was REGION_WENT, these were the last values of the region:
 *   refresh again, and if this returns REGION_CAME, read the new region.
 *
 * Only one thread at a time may use a reader. A reader never waits for a
 * producer's threads: every read ends after a limited number of attempts.
 */
#ifndef PERCORE_REGION_READER_H
#define PERCORE_REGION_READER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "allowance.h"
#include "directory.h"

struct region_reader;

struct region_reader_options {
  /* True: forked children do not inherit the mapping. */
  bool keep_from_children;
  /* A region is refused if reading it needs more memory than this has left.
   * NULL: memory is not limited. */
  struct region_allowance *allowance;
};

enum region_event {
  REGION_AS_BEFORE,
  REGION_CAME, /* a new producer: directory, rows and values are new */
  REGION_WENT  /* the producer is gone; its values can still be read */
};

enum region_presence {
  REGION_ABSENT, /* there is no file of it, or it was refused */
  REGION_ALIVE,
  REGION_LEFT /* the producer is gone; its last values can still be read */
};

/* Creates a reader of the newest file of a name: that of a producer that is
 * alive, or else the last counts of one that was. Returns 0, or -1 with EINVAL
 * or ENOMEM. */
int region_reader_open(struct region_reader **reader, const char *name,
                       const char *instance,
                       const struct region_reader_options *options);
/* Creates a reader of one file. */
int region_reader_open_file(struct region_reader **reader, const char *file,
                            const struct region_reader_options *options);
void region_reader_close(struct region_reader *reader);

/* Looks whether somebody can still write to the file, and opens a file if none
 * is read. Takes a microsecond, and never waits for a producer. If the file
 * cannot be opened again now, for want of a descriptor for example, returns
 * REGION_AS_BEFORE, and region_reader_fault the reason: do not read then. */
enum region_event region_reader_refresh(struct region_reader *reader);

/* After a reading: closes the file, which the next reading opens again.
 * give_back also unmaps the pages that have been read, because they count as
 * this process's memory; the next reading maps them again, for which it needs a
 * fifth of its time. */
void region_reader_pause(struct region_reader *reader);
void region_reader_give_back(struct region_reader *reader);

/* True if values could not be read, because the file was truncated or removed:
 * some that were read since the last refresh may be 0 in their place. The next
 * refresh returns REGION_WENT. */
bool region_reader_is_cut(const struct region_reader *reader);

enum region_presence region_reader_presence(const struct region_reader *reader);

/* Return why the reader has no region: as a fault, whose error is 0 if nothing
 * is wrong, and as one line with the path of the file, "" then. The line is
 * valid until region_reader_error is called again. */
const struct region_fault *
region_reader_fault(const struct region_reader *reader);
const char *region_reader_error(struct region_reader *reader);

/* Returns the name of the file that is read or was read last; "": none. */
const char *region_reader_file(const struct region_reader *reader);

/* Returns NULL if the reader has no region. Otherwise the pointer is valid
 * until refresh returns REGION_CAME. */
const struct region_directory *
region_reader_directory(const struct region_reader *reader);

/* Return the producer's pid in this pid namespace (0 if not visible), and its
 * user; -1 before there was a producer. */
pid_t region_reader_pid(const struct region_reader *reader);
uid_t region_reader_uid(const struct region_reader *reader);

/* True if the producer's process is visible here, and is stopped by a signal or
 * a debugger. Its values can be read, but do not change. */
bool region_reader_is_stopped(const struct region_reader *reader);

/* True if the last producer that went away had called percore_destroy. */
bool region_reader_ended(const struct region_reader *reader);

/* Returns how many row_add calls found no free row or memory. */
uint64_t region_reader_adds_refused(struct region_reader *reader,
                                    uint32_t table);

/* ---------------------------------------------------------------------------
 * Slots
 */

struct region_slot_view {
  enum region_state state; /* FREE: never used; GONE: released */
  int core;                /* PERCORE_NO_CORE: of none; -1: never used */
  int32_t tid;             /* in the producer's pid namespace */
  char name[8 * REGION_SLOT_NAME_WORDS]; /* untrusted bytes, NUL-terminated */
  uint64_t since_boottime_ns;
  uint64_t polled_tsc; /* up to when total_cycles has the thread's time */
  uint64_t asleep_tsc; /* when the thread called percore_sleep; 0: awake */
  /* The last check of the thread's CPU time: when it was, the CPU time so far,
   * and sleep_cycles at that time. */
  uint64_t checked_tsc, checked_cpu_ns, checked_sleep;
};

/* What the producer refused; zeros if the reader has no region. */
void region_reader_refusals(struct region_reader *reader,
                            struct region_refusals *refusals);

uint32_t region_reader_slots(const struct region_reader *reader);

/* The records of some slots, which are loaded together. */
enum { REGION_SLOT_WORDS = 128 };
struct region_slot_states {
  bool exactly; /* finds threads of killed processes, for a system call each */
  uint32_t first, count;
  uint64_t words[REGION_SLOT_WORDS];
};

/* Returns the state of a slot. Sets *core to the core that the slot counts for,
 * to PERCORE_NO_CORE, or to -1 if the region has no such core. */
enum region_state region_reader_slot_state(struct region_reader *reader,
                                           struct region_slot_states *slots,
                                           uint32_t slot, int *core);
/* Describes a slot. The state is REGION_FREE if the slot has never been used,
 * or if the slot counts for a core that the region does not have. */
void region_reader_slot(struct region_reader *reader, uint32_t slot,
                        struct region_slot_view *view);

/* ---------------------------------------------------------------------------
 * Rows
 */

/* Returns the number of rows in use: rows with this number or a higher number
 * have never been used. */
uint32_t region_reader_rows(struct region_reader *reader, uint32_t table);

/* Returns the number of live rows: rows in use that have not been removed.
 * Reads the generation word of every row. */
uint32_t region_reader_live_rows(struct region_reader *reader, uint32_t table);

#define REGION_ROW_NAME_SIZE 128

/* Copies the name that the row had when `generation` was its generation word.
 * The name consists of untrusted bytes and a NUL; in a single-row table it is
 * "". Returns false if the row now belongs to another object. */
bool region_reader_row_name(struct region_reader *reader, uint32_t table,
                            uint32_t row, uint64_t generation,
                            char name[REGION_ROW_NAME_SIZE]);

/* Returns the generation word of a row, or 0 if there is no such row. */
uint64_t region_reader_generation(struct region_reader *reader, uint32_t table,
                                  uint32_t row);

/* Returns the number of the live row with this name, or -1. */
int64_t region_reader_find_row(struct region_reader *reader, uint32_t table,
                               const char *name);

/* What a tile holds in addition to the totals. */
enum region_want {
  REGION_WANT_BIRTHS = 1,
  REGION_WANT_RESETS = 2,
  REGION_WANT_CORES = 4
};

/* The cells of rows first_row to first_row + rows - 1. Values are raw: since an
 * object was added, it has counted total - birth, and tools show total - reset
 * (region_row_shown). In tables without births, the births are 0; in tables
 * without resets, the resets equal the births. `cores` is indexed
 * [core][row][column], and all other arrays [row][column]. */
struct region_tile {
  uint32_t table, want;
  uint32_t capacity, columns, core_count;
  uint32_t first_row, rows;
  uint32_t in_use; /* number of rows in use when the tile was read */
  /* The generation word of each row; 0 if the row has never been used;
   * REGION_CHANGING if its cells do not belong to a single object. The totals
   * then hold the cells as last loaded, and births and resets are meaningless.
   */
  uint64_t *generations;
  uint8_t *torn; /* 1: the cells may be from different moments */
  uint64_t *totals, *births, *resets;
  /* The values of each core, without the shared block and slots that count for
   * no core. NULL if they are not wanted, or the table has none. */
  uint64_t *cores;
  uint8_t *core_used; /* [core]: 1 if a slot of the core has been used */
  uint64_t *values;   /* scratch for at least one row of a slot */
  uint64_t *again;    /* scratch for the generation words */
  uint32_t cells_at_once;
  void *memory; /* of all arrays */
  size_t size;
};

/* Returns how many rows of a table a tile should hold if it has the values of
 * `copies` cores, or 1: with these, reading takes least time. */
uint32_t region_tile_rows(const struct region_reader *reader, uint32_t table,
                          uint32_t copies);

/* Allocates a tile for a table of the reader's current directory, if necessary
 * with a smaller capacity. Returns 0, or -1 with ENOMEM, or EFBIG (per-core
 * values are requested, and the values of one row for all cores take more than
 * 16 MiB). Free the tile after REGION_CAME. */
int region_tile_init(struct region_tile *tile,
                     const struct region_reader *reader, uint32_t table,
                     uint32_t capacity, uint32_t want);
void region_tile_free(struct region_tile *tile);

/* Like region_tile_init, but uses the memory of a tile that was initialised for
 * any table, or is all 0. Do not free the tile before. */
int region_tile_reuse(struct region_tile *tile,
                      const struct region_reader *reader, uint32_t table,
                      uint32_t capacity, uint32_t want);

/* Gives the tile an empty place for each of `rows` rows, which need not be
 * those of its table. Returns false if out of memory. */
bool region_tile_resize(struct region_tile *tile, uint32_t rows);

/* Reads rows into the tile, starting with first_row: as many as are in use and
 * fit. */
void region_tile_read(struct region_reader *reader, struct region_tile *tile,
                      uint32_t first_row);

/* Reads the births of the tile's row i, which must belong to an object, into a
 * tile that was read without births. Returns false if the row has changed since
 * the tile was read. */
bool region_tile_read_births(struct region_reader *reader,
                             struct region_tile *tile, uint32_t i);

/* Reads one row of one slot, one value per column. The row number must be less
 * than the table's max_rows. Returns 0 if all cells are from the same moment, 1
 * if they may not be, or -1 with ENOENT (the slot has never been used) or
 * EINVAL. */
int region_reader_slot_row(struct region_reader *reader, uint32_t table,
                           uint32_t row, uint32_t slot, uint64_t *values);

/* Returns the value that tools show: counters since the last reset,
 * up-down counters since the row was added, gauges and states unchanged. The
 * tile must have births and resets. */
uint64_t region_row_shown(const struct region_directory *directory,
                          const struct region_tile *tile, uint32_t row,
                          uint32_t column);

/* Combines two values of a gauge (enum percore_aggregation), which are signed.
 */
static inline uint64_t region_combine_gauges(uint32_t aggregation, uint64_t a,
                                             uint64_t b) {
  switch (aggregation) {
  case PERCORE_SUM:
    return a + b;
  case PERCORE_MIN:
    return (int64_t)a < (int64_t)b ? a : b;
  case PERCORE_MAX:
    return (int64_t)a > (int64_t)b ? a : b;
  default:
    return b;
  }
}

/* ---------------------------------------------------------------------------
 * Histograms
 */

/* Returns the smallest value that is counted in a bucket. */
uint64_t region_bucket_least(uint32_t sub_bits, uint32_t bucket);

/* Returns the quantile q (0 to 1) of the counted values, as the middle of its
 * bucket; -1 if nothing was counted. */
double region_histogram_quantile(uint32_t sub_bits, const uint64_t *counts,
                                 uint32_t buckets, double q);

#endif
