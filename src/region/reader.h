/* reader.h: reading regions, for the plugin, the tool and percore_open.
 *
 *   region_reader    one producer's region: connection, directory, liveness
 *   region_tile      cells of some rows of a table, read together
 *
 * A round of a caller that wants every last count:
 *
 *   event = region_reader_refresh(reader);
 *   read tables if there is a region: with REGION_WENT for the last time
 *   if REGION_WENT: refresh once more; with REGION_CAME read the new one, too
 *
 * One thread at a time per reader. A reader never waits for a producer's
 * threads: every look has a bounded number of tries.
 */
#ifndef PERCORE_REGION_READER_H
#define PERCORE_REGION_READER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "allowance.h"
#include "directory.h"

struct region_reader;
struct region_receiver;

struct region_reader_options {
  const char *runtime_dir;  /* NULL: the usual one */
  uint64_t max_region_size; /* 0: 4 GiB */
  int hello_wait_ms;        /* how long refresh may wait for a new producer */
  /* Receives what producers send; it outlives the reader. NULL: the reader
   * itself receives, which a hostile producer may hold up forever (receiver.h).
   */
  struct region_receiver *receiver;
  bool
      keep_from_children; /* what is forked later does not inherit the memory */
  /* Whether the producer may be one of this user; NULL: any. */
  bool (*may_read)(uid_t uid, void *argument);
  void *argument;
};

enum region_event {
  REGION_AS_BEFORE,
  REGION_CAME, /* another producer: directory, rows and values are new */
  REGION_WENT  /* gone since the last refresh; its values can still be read */
};

enum region_presence {
  REGION_ABSENT, /* nobody serves it, or it was refused */
  REGION_SILENT, /* somebody listens and does not answer */
  REGION_ALIVE,
  REGION_LEFT /* gone, its last values can still be read */
};

/* Nothing is connected yet. 0, or -1 with EINVAL, ENAMETOOLONG, ENOMEM. */
int region_reader_open(struct region_reader **reader, const char *name,
                       const char *instance,
                       const struct region_reader_options *options);
void region_reader_close(struct region_reader *reader);

/* The region in a file, such as a copy of one, or a memfd: for tools. It has no
 * producer, region_reader_refresh must not be called. Takes the descriptor
 * over. 0, or -1 with a fault. */
int region_reader_open_file(struct region_reader **reader, int fd,
                            struct region_fault *fault);

/* Directories, and what else a region claims with few bytes, are refused where
 * this has no room for them; without it, never. It outlives the reader. */
void region_reader_use_allowance(struct region_reader *reader,
                                 struct region_allowance *allowance);

/* Connects, if that is still to be done, for the next refresh to go on with. 0,
 * or -1 with errno: nobody serves it (ENOENT, ECONNREFUSED, ENOTSOCK), ... */
int region_reader_connect(struct region_reader *reader);

/* The user who listened at the last try to connect; -1 if that failed. */
uid_t region_reader_listener(const struct region_reader *reader);

/* Looks whether the producer lives; connects where there is none. A producer
 * ends a connection if it has too many, so the end of the connection alone does
 * not mean that it is gone: its process has ended, nobody listens, or another
 * region answers. Until one of these is known, or the reader is connected
 * again, the producer counts as alive, and the errno is that of connecting. */
enum region_event region_reader_refresh(struct region_reader *reader);

/* For a region of this process, without a connection: takes its memory over,
 * and later says that it is gone. Not between the two: region_reader_refresh.
 * false if it is refused. */
bool region_reader_adopt(struct region_reader *reader, int memfd,
                         uint64_t size);
void region_reader_leave(struct region_reader *reader);

enum region_presence region_reader_presence(const struct region_reader *reader);

/* Why there is no region, or no connection to it: the whole reason, its errno
 * (0 if there is both), and a line with the path of the socket. */
const struct region_fault *
region_reader_fault(const struct region_reader *reader);
int region_reader_errno(const struct region_reader *reader);
const char *region_reader_error(const struct region_reader *reader);

/* Of the socket. */
const char *region_reader_path(const struct region_reader *reader);

/* NULL without a region; else valid until refresh returns REGION_CAME. */
const struct region_directory *
region_reader_directory(const struct region_reader *reader);

/* Counts producers, from 1; 0 without a region. */
uint64_t region_reader_producer(const struct region_reader *reader);

/* The producer's pid as seen from here (0: not to be seen), and user. */
pid_t region_reader_pid(const struct region_reader *reader);
uid_t region_reader_uid(const struct region_reader *reader);

/* Whether the last producer that went did so by percore_destroy. */
bool region_reader_ended(const struct region_reader *reader);

/* Asks the producer to reset a table (or UINT32_MAX: all) and row (or
 * UINT32_MAX: all), by a receiver of its own if the reader has none. 0, or -1
 * with errno: EPERM, ETIMEDOUT, ENODEV, ... */
int region_reader_reset(struct region_reader *reader, uint32_t table,
                        uint32_t row, int wait_ms);

/* Attach calls that found no slot; row_add calls of a table without room. */
uint64_t region_reader_attach_refused(const struct region_reader *reader);
uint64_t region_reader_adds_refused(struct region_reader *reader,
                                    uint32_t table);

/* ---------------------------------------------------------------------------
 * Slots
 */

struct region_slot_view {
  enum region_state state; /* FREE: never used; GONE: given back */
  int core;                /* -1 if never used */
  int32_t tid;             /* as the producer sees it */
  char name[8 * REGION_SLOT_NAME_WORDS]; /* foreign bytes */
  uint64_t since_boottime_ns;
  uint64_t quiescent;
  uint64_t last_tsc;
  bool asleep; /* between percore_sleep and percore_wake */
};

uint32_t region_reader_slots(const struct region_reader *reader);

/* Whether a slot was ever used; then *core is the core that it counts for, or
 * -1 if its label names no core of the region. */
bool region_reader_slot_is_used(struct region_reader *reader, uint32_t slot,
                                int *core);
void region_reader_slot(struct region_reader *reader, uint32_t slot,
                        struct region_slot_view *view);

/* ---------------------------------------------------------------------------
 * Rows
 */

/* Rows from here on were never used. */
uint32_t region_reader_rows(struct region_reader *reader, uint32_t table);

#define REGION_ROW_NAME_SIZE 128

/* The name of the row whose generation word this is: foreign bytes, ended by a
 * NUL, "" for the row of a single-row table. false if the row is another one by
 * now. */
bool region_reader_row_name(struct region_reader *reader, uint32_t table,
                            uint32_t row, uint64_t generation,
                            char name[REGION_ROW_NAME_SIZE]);

/* What a tile is to hold besides totals. */
enum region_want {
  REGION_WANT_BIRTHS = 1,
  REGION_WANT_RESETS = 2,
  REGION_WANT_CORES = 4
};

/* Cells of rows first_row to first_row + rows - 1. Values are raw: what a row
 * has counted is total - birth, in every table; people see total - reset, what
 * it has counted since the last reset (region_row_shown). In tables without
 * births these are 0, in tables without resets those are the births. Arrays are
 * indexed [row][column], cores [core][row][column]. */
struct region_tile {
  uint32_t table, want;
  uint32_t capacity, columns, core_count;
  uint32_t first_row, rows;
  uint32_t in_use; /* rows there were when it was read */
  /* 0: of no one object, or never used. Totals hold the raw cells even so, as
   * they were when loaded last; births and resets do not count. */
  uint64_t *generations;
  uint8_t *torn; /* 1: cells may be of different moments */
  uint64_t *totals, *births, *resets;
  uint64_t *cores;    /* by label; cells of the shared block, and of slots
                         whose label is no core, are in no core */
  uint8_t *core_used; /* [core]: has a slot that was used */
};

/* Cells of a tile that stays in the first-level cache, 8 KiB, or 32 KiB where a
 * run of each slot is read for it. In tiles of 1 MiB a cell takes 1.3 (rows of
 * 4), 0.8 (of 16) and 0.7 ns (16 slots) where it takes 0.7, 0.5 and 0.5 so
 * (tests/bench/region_reads). */
enum { REGION_TILE_CELLS = 1024, REGION_TILE_CELLS_PER_CORE = 4096 };

/* The tile may get a smaller capacity than asked for. 0, or -1 with ENODEV,
 * ENOMEM, or EFBIG (cores are wanted and one row of all cores takes more than
 * 16 MiB). A tile is of one directory: free it when another producer comes. */
int region_tile_init(struct region_tile *tile,
                     const struct region_reader *reader, uint32_t table,
                     uint32_t capacity, uint32_t want);
void region_tile_free(struct region_tile *tile);

/* Reads the rows from first_row on, as many as there are and fit. */
void region_tile_read(struct region_reader *reader, struct region_tile *tile,
                      uint32_t first_row);

/* Reads one row of one slot. values: one per column. 0, 1 if torn, or -1 with
 * ENOENT (slot never used) or EINVAL. */
int region_reader_slot_row(struct region_reader *reader, uint32_t table,
                           uint32_t row, uint32_t slot, uint64_t *values);

/* The same of the shared block of a PER_CORE table, or the single copy. */
int region_reader_single_row(struct region_reader *reader, uint32_t table,
                             uint32_t row, uint64_t *values);

/* What people see of a row: since the last reset, or for gauges since the row
 * was added. The tile has births and resets. */
uint64_t region_row_shown(const struct region_directory *directory,
                          const struct region_tile *tile, uint32_t row,
                          uint32_t column);

/* ---------------------------------------------------------------------------
 * Histograms
 */

/* Least value counted in a bucket. */
uint64_t region_bucket_least(uint32_t sub_bits, uint32_t bucket);

/* The least value such that a fraction q (0 to 1) of what was counted is not
 * greater, as the middle of its bucket; -1 if nothing was counted. */
double region_histogram_quantile(uint32_t sub_bits, const uint64_t *counts,
                                 uint32_t buckets, double q);

#endif
