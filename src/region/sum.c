/* sum.c: sums a row over all its copies, as a reader does. */
#include "percore_config.h"

#include <string.h>

#include "cells.h"
#include "writer.h"

/* How many times to try to read outside a section. A worker that was preempted
 * inside a section may keep it open for a long time. */
enum { TRIES = 64 };

/* Adds the cells of a copy. sequence is NULL if no section updates them.
 * Returns false if the writer was inside a section at every attempt; the cells
 * may then be from different moments. */
static bool add(const struct percore_region *region, const uint64_t *sequence,
                const uint64_t *cells, uint32_t columns) {
  static const uint64_t no_section;
  bool whole = false;
  if (sequence == NULL)
    sequence = &no_section;
  for (int i = 0; i < TRIES && !whole; i++) {
    /* Pairs with the store-release of percore_end. */
    uint64_t before = region_load_acquire(sequence);
    region_load_cells(cells, columns, cells + columns, region->cells);
    /* Pairs with the release fence of percore_begin. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    whole = !(before & 1) && region_load(sequence) == before;
  }
  for (uint32_t c = 0; c < columns; c++)
    region->sums[c] += region->cells[c];
  return whole;
}

bool region_row_sum(const struct percore_region *region,
                    const struct region_table *table, uint32_t row) {
  const uint64_t *single = region_single(region, table, row);
  bool consistent = (table->flags & REGION_TABLE_CONSISTENT) != 0;
  memset(region->sums, 0, table->columns * sizeof(*region->sums));
  bool whole =
      add(region, consistent ? single - 1 : NULL, single, table->columns);
  if (table->storage != PERCORE_PER_CORE)
    return whole;
  for (uint32_t s = 0; s < region->header.slot_count; s++) {
    if (region_state(region->slots[s].generation) == REGION_FREE)
      continue;
    const struct percore_slot_head *head = region_block(region, s);
    const void *cells = (const unsigned char *)head + table->slot_offset +
                        (uint64_t)row * table->row_stride;
    if (!add(region, &head->sequence, cells, table->columns))
      whole &= !region_slot_has_owner(region, s);
  }
  return whole;
}
