/* copy.h: reads consecutive rows of one copy of a table: its single copy (or
 * shared block), or the copy in a slot. Private to tile.c. */
#ifndef PERCORE_REGION_COPY_H
#define PERCORE_REGION_COPY_H

#include "view.h"

struct region_copy {
  const unsigned char *rows; /* the first row */
  const uint64_t *end;       /* end of the rows that will be read soon */
  /* Sequence counter of the slot; NULL for a single copy. */
  const uint64_t *sequence;
  uint32_t count; /* rows that are backed by memory; rows after them are 0 */
};

/* Return rows first to first + count - 1 of the single copy, or of the copy in
 * slot s. The caller will soon read all rows up to in_use, so they may be
 * prefetched. */
struct region_copy region_copy_single(struct region_view *view, uint32_t t,
                                      uint32_t first, uint32_t count,
                                      uint32_t in_use);
struct region_copy region_copy_slot(struct region_view *view, uint32_t t,
                                    uint32_t s, uint32_t first, uint32_t count,
                                    uint32_t in_use);

/* Loads consecutive words. `end` is the end of the words that will be read
 * soon. */
void region_load_cells(const uint64_t *cells, size_t count, const uint64_t *end,
                       uint64_t *values);

/* Loads row i of a copy. Returns false if the row is torn: its cells may be
 * from different moments. */
bool region_copy_load_row(const struct region_view *view, uint32_t t,
                          const struct region_copy *copy, uint32_t i,
                          uint64_t *values);

/* Load all rows of a single copy, or rows i to i + count - 1 of a slot. Set
 * torn[] to 1 for torn rows, and do not change it for others. */
void region_copy_load_single(const struct region_view *view, uint32_t t,
                             const struct region_copy *copy, uint64_t *values,
                             uint8_t *torn);
void region_copy_load_slot(const struct region_view *view, uint32_t t,
                           const struct region_copy *copy, uint32_t i,
                           uint32_t count, uint64_t *values, uint8_t *torn);

#endif
