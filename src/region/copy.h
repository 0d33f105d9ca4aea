/* copy.h: reads consecutive rows of one copy of a table: the single copy (or
 * shared block), or the copy of a slot. Private to tile.c. */
#ifndef PERCORE_REGION_COPY_H
#define PERCORE_REGION_COPY_H

#include "view.h"

struct region_copy {
  const unsigned char *rows; /* the first row */
  const uint64_t *end;       /* of the rows that will be read soon */
  const uint64_t *sequence;  /* of the slot; NULL for a single copy */
  uint32_t count;            /* rows that have memory; further rows are 0 */
};

/* Rows first to first + count - 1; rows up to in_use will be read soon. */
struct region_copy region_copy_single(struct region_view *view, uint32_t t,
                                      uint32_t first, uint32_t count,
                                      uint32_t in_use);
struct region_copy region_copy_slot(struct region_view *view, uint32_t t,
                                    uint32_t s, uint32_t first, uint32_t count,
                                    uint32_t in_use);

/* Loads consecutive words. end: of the words that will be read soon. */
void region_load_cells(const uint64_t *cells, size_t count, const uint64_t *end,
                       uint64_t *values);

/* Loads row i of a copy. False if it is torn. */
bool region_copy_load_row(const struct region_view *view, uint32_t t,
                          const struct region_copy *copy, uint32_t i,
                          uint64_t *values);

/* Load all rows of a single copy, or rows i to i + count - 1 of a slot. Set
 * torn[] for torn rows and leave it unchanged for others. */
void region_copy_load_single(const struct region_view *view, uint32_t t,
                             const struct region_copy *copy, uint64_t *values,
                             uint8_t *torn);
void region_copy_load_slot(const struct region_view *view, uint32_t t,
                           const struct region_copy *copy, uint32_t i,
                           uint32_t count, uint64_t *values, uint8_t *torn);

#endif
