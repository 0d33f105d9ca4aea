/* percore_reader.h: reads the regions that programs publish. C99, C++98 and
 * later. Link with -lpercore (pkg-config percore). percore(3) is the manual.
 *
 * One thread at a time may use a reader. No call is a cancellation point
 * (pthreads(7)). Pointers that a reader returns are valid until percore_refresh
 * returns 1, or until percore_close. */
#ifndef PERCORE_PUBLIC_READER_H
#define PERCORE_PUBLIC_READER_H

#include "percore.h"

#ifdef __cplusplus
extern "C" {
#endif

struct percore_reader;

enum percore_reader_state {
  PERCORE_ABSENT = 0, /* no process publishes the region, or it was refused */
  PERCORE_ALIVE = 1,
  /* The producer has ended; its last values can still be read. */
  PERCORE_GONE = 2
};

/* Creates a reader of a region, which need not exist yet; instance may be NULL.
 * A region of any size is read: it takes address space, not memory.
 * Returns 0, or -1 with errno: EINVAL, ENAMETOOLONG or ENOMEM;
 * *reader is then NULL. */
int percore_open(struct percore_reader **reader, const char *region,
                 const char *instance);

/* Opens the newest file of the region if the reader has none, and checks
 * whether its producer is alive. Returns 1 if the producer has changed since
 * the last call (it may be gone: see percore_reader_state), 0 if it is the
 * same, or -1 with errno; percore_reader_state has the reason:
 *   ENOENT, ECONNRESET   there is no region, or its producer is gone
 *   EACCES               this user may not read the file
 *   EIO                  the file was truncated or removed
 *   EPROTO               the region breaks a rule of percore-region(7) */
int percore_refresh(struct percore_reader *reader);

/* Returns the state. Unless why is NULL, *why receives one line that describes
 * why the reader has no region or no living producer, or "" if nothing is
 * wrong. The text is valid until the next call for this reader. */
enum percore_reader_state
percore_reader_state(const struct percore_reader *reader, const char **why);

/* The number of the built-in table `core` for the calls below. Other tables
 * have the numbers that they have in percore_create. */
#define PERCORE_TABLE_CORE (UINT32_MAX - 1)

/* Returns the description of a table. Returns NULL after the last table or if
 * the reader has no region. max_rows is 0 for single-row tables. */
const struct percore_table *percore_reader_table(struct percore_reader *reader,
                                                 uint32_t table);

/* Returns one more than the highest row that has ever been used. Rows are
 * numbered from 1, and lower rows may have been removed. The row of a
 * single-row table is row 0. */
uint32_t percore_reader_rows(struct percore_reader *reader, uint32_t table);

/* Returns the first column of a field; for the number of fields of the table,
 * the number of its columns. */
uint32_t percore_reader_column(struct percore_reader *reader, uint32_t table,
                               uint32_t field);

enum percore_find {
  PERCORE_FIND_TABLE = 0, /* PERCORE_TABLE_CORE for `core` */
  PERCORE_FIND_FIELD = 1,
  PERCORE_FIND_ROW =
      2 /* a live row, by the name that percore_read_row copies */
};

/* Returns the number of the table, of the field of a table, or of the row of a
 * table that has this name, or -1 if nothing has. When a table is sought,
 * `table` is ignored. */
int64_t percore_reader_find(struct percore_reader *reader,
                            enum percore_find what, uint32_t table,
                            const char *name);

/* Returns how many objects have used a row, including the present one; 0 if the
 * row is not live. If it has changed between two reads, the row belongs to
 * another object. */
uint32_t percore_reader_incarnation(struct percore_reader *reader,
                                    uint32_t table, uint32_t row);

/* Returns the smallest value that a bucket of a histogram counts: the column of
 * the bucket is that of the field plus its number. The next bucket begins where
 * this one ends. 0 if the field is not a histogram. */
uint64_t percore_reader_bucket(struct percore_reader *reader, uint32_t table,
                               uint32_t field, uint32_t bucket);

/* Returns the quantile q (0 to 1) of a histogram, as the middle of its bucket,
 * from all values of a row that percore_read_row copied; -1 if nothing was
 * counted or the field is not a histogram. */
double percore_reader_quantile(struct percore_reader *reader, uint32_t table,
                               uint32_t field, const uint64_t *values,
                               double q);

#define PERCORE_NO_SLOT (-3)

/* Returns the user who owns the region's file, or (unsigned)-1 while the reader
 * has no region. */
unsigned percore_reader_uid(const struct percore_reader *reader);

/* Returns the core that a slot counts for: PERCORE_NO_CORE, -1 if the slot has
 * never been used, or PERCORE_NO_SLOT after the last slot. */
int percore_reader_slot_core(struct percore_reader *reader, uint32_t slot);

#define PERCORE_TOTAL (-1) /* the sum over all slots and the shared block */

/* Reads a row: the total (PERCORE_TOTAL) or one slot. Copies the row's name,
 * cut to name_size bytes, unless name is NULL, and at most count values, one
 * per column. A total counts from when the row was added or last reset; values
 * of one slot count from when the region was created. Returns 0; 1 if the
 * values may be from different moments, because the writer was inside a section
 * at every attempt; or -1 with errno ENOENT (no such row), EAGAIN (the row is
 * just being added, removed or reset), EINVAL, ENODEV (no region). */
int percore_read_row(struct percore_reader *reader, uint32_t table,
                     uint32_t row, int slot, char *name, size_t name_size,
                     uint64_t *values, uint32_t count);

void percore_close(struct percore_reader *reader);

#ifdef __cplusplus
}
#endif

#endif
