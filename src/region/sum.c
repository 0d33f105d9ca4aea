/* sum.c: sums a row over all its copies, as a reader does. */
#include "percore_config.h"

#include <string.h>

#include "writer.h"

/* How many times to try to read outside a section. A worker that was preempted
 * inside a section may keep it open for a long time. */
enum { TRIES = 64 };

static void add_cells(const uint64_t *cells, uint32_t columns, uint64_t *sums) {
  for (uint32_t c = 0; c < columns; c++)
    sums[c] += __atomic_load_n(&cells[c], __ATOMIC_RELAXED);
}

static bool add_consistently(const uint64_t *sequence, const uint64_t *cells,
                             uint32_t columns, uint64_t *sums) {
  uint64_t before[PERCORE_MAX_COLUMNS];
  memcpy(before, sums, columns * sizeof(*sums));
  for (int i = 0; i < TRIES; i++) {
    /* Pairs with the store-release of percore_end; the fence pairs with the
     * release fence of percore_begin. */
    uint64_t first = __atomic_load_n(sequence, __ATOMIC_ACQUIRE);
    memcpy(sums, before, columns * sizeof(*sums));
    add_cells(cells, columns, sums);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (!(first & 1) && __atomic_load_n(sequence, __ATOMIC_RELAXED) == first)
      return true;
  }
  return false;
}

bool region_sum_row(const struct percore_region *region,
                    const struct region_table *table, uint32_t row,
                    uint64_t *sums) {
  uint64_t *single = region_single(region, table, row);
  bool whole = true;
  memset(sums, 0, table->columns * sizeof(*sums));
  if (table->flags & REGION_TABLE_CONSISTENT)
    whole = add_consistently(single - 1, single, table->columns, sums);
  else
    add_cells(single, table->columns, sums);
  if (table->storage != PERCORE_PER_CORE)
    return whole;
  for (uint32_t s = 0; s < region->header->slot_count; s++) {
    if (region_state(region->slots[s].generation) == REGION_FREE)
      continue;
    struct percore_slot_head *head = region_block(region, s);
    const unsigned char *cells = (const unsigned char *)head +
                                 table->slot_offset +
                                 (uint64_t)row * table->row_stride;
    if (!add_consistently(&head->sequence,
                          (const uint64_t *)(const void *)cells, table->columns,
                          sums))
      whole &= !region_slot_has_owner(&region->slots[s]);
  }
  return whole;
}
