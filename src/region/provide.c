/* provide.c: memory for rows, in steps. */
#include "percore_config.h"

#include <errno.h>

#include "memory.h"
#include "writer.h"

/* Rows come with their neighbours up to this many bytes of cells. */
enum { STEP_BYTES = 2 << 20 };

static int provide(struct percore_region *region, uint64_t offset,
                   uint64_t length) {
  if (length == 0)
    return 0;
  return region_memory_provide(region->memfd, region->map, offset, length,
                               region->page_size);
}

/* Everything was provided when the region was made. */
static bool is_huge(const struct percore_region *region) {
  return region->page_size > 65536;
}

static int provide_in_slot(struct percore_region *region, uint32_t slot,
                           const struct region_table *table, uint32_t from,
                           uint32_t to) {
  uint64_t block =
      region->header->blocks_offset + slot * region->header->block_stride;
  return provide(
      region, block + table->slot_offset + (uint64_t)from * table->row_stride,
      (uint64_t)(to - from) * table->row_stride);
}

int region_provide_slot_rows(struct percore_region *region, uint32_t slot) {
  if (is_huge(region))
    return 0;
  uint64_t block =
      region->header->blocks_offset + slot * region->header->block_stride;
  if (provide(region, block, sizeof(struct percore_slot_head)) != 0)
    return -1;
  for (uint32_t t = 1; t < region->table_count; t++)
    if (region->tables[t].storage == PERCORE_PER_CORE &&
        provide_in_slot(region, slot, &region->tables[t], 0,
                        region->state[t].rows_reserved) != 0)
      return -1;
  return 0;
}

static int provide_shared_parts(struct percore_region *region,
                                const struct region_table *table, uint32_t from,
                                uint32_t to) {
  uint64_t rows = to - from, bases = 8ull * table->columns;
  if (from == 0 && provide(region, table->live_offset,
                           sizeof(struct region_table_live)) != 0)
    return -1;
  if (provide(region,
              table->records_offset + (uint64_t)from * table->record_size,
              rows * table->record_size) != 0)
    return -1;
  if (table->birth_offset != 0 &&
      (provide(region, table->birth_offset + from * bases, rows * bases) != 0 ||
       provide(region, table->reset_offset + from * bases, rows * bases) != 0))
    return -1;
  return provide(region,
                 table->single_offset + (uint64_t)from * table->row_stride,
                 rows * table->row_stride);
}

int region_provide_rows(struct percore_region *region, uint32_t t,
                        uint32_t rows) {
  const struct region_table *table = &region->tables[t];
  struct table_state *state = &region->state[t];
  if (rows <= state->rows_reserved)
    return 0;
  uint32_t step = STEP_BYTES / table->row_stride;
  uint64_t to = ((uint64_t)rows + step - 1) / step * step;
  if (to > table->max_rows)
    to = table->max_rows;
  if (!is_huge(region)) {
    if (provide_shared_parts(region, table, state->rows_reserved,
                             (uint32_t)to) != 0)
      return -1;
    for (uint32_t s = 0; s < region->header->slot_count; s++)
      if (table->storage == PERCORE_PER_CORE &&
          region_state(region->slots[s].generation) != REGION_FREE &&
          provide_in_slot(region, s, table, state->rows_reserved,
                          (uint32_t)to) != 0)
        return -1;
  }
  state->rows_reserved = (uint32_t)to;
  return 0;
}

int percore_reserve(struct percore_region *region, uint32_t table,
                    uint32_t rows) {
  if (!region_lock(region))
    return -1;
  int rc = -1;
  if (region_user_table(region, &table)) {
    errno = EINVAL;
    if (rows <= region->tables[table].max_rows)
      rc = region_provide_rows(region, table, rows);
  }
  region_unlock(region);
  return rc;
}
