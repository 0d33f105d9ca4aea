/* provide.c: allocates memory for rows, in steps. */
#include "percore_config.h"

#include <errno.h>
#include <sys/param.h>

#include "writer.h"

int region_provide(struct percore_region *region, uint64_t offset,
                   uint64_t length) {
  if (length == 0)
    return 0;
  int rc = region_memory_provide(region->map, offset, length,
                                 region->header.page_size, &region->room);
  if (rc == 0 || errno != ENOSPC)
    return rc;
  region->is_full = true;
  return region_failed(ENOMEM);
}

static int make_huge(struct percore_region *region, uint64_t offset,
                     uint64_t length) {
  region_memory_make_huge(region->map, offset, length);
  return 0;
}

/* Calls a function with the offset and length of rows `from` to `to` - 1 in
 * each array of a table: the arrays outside the slot blocks, and the array in
 * each slot block that has ever been used. Returns -1 as soon as the function
 * fails. */
static int for_each_array(struct percore_region *region,
                          const struct region_table *table, uint32_t from,
                          uint32_t to,
                          int (*call)(struct percore_region *region,
                                      uint64_t offset, uint64_t length)) {
  uint64_t rows = to - from;
  struct region_part parts[REGION_TABLE_PARTS];
  region_table_parts(table, parts);
  for (int i = 1; i < REGION_TABLE_PARTS; i++)
    if (parts[i].offset != 0 &&
        call(region, parts[i].offset + from * parts[i].size,
             rows * parts[i].size) != 0)
      return -1;
  if (table->storage != PERCORE_PER_CORE)
    return 0;
  uint64_t in_block = table->slot_offset + from * (uint64_t)table->row_stride;
  for (uint32_t s = 0; s < region->header.slot_count; s++)
    if (region_state(region->slots[s].generation) != REGION_FREE &&
        call(region, region_block_offset(region, s) + in_block,
             rows * table->row_stride) != 0)
      return -1;
  return 0;
}

/* Returns how many rows there is memory for where there is some for so many. */
static uint32_t whole_steps(const struct region_table *table, uint64_t rows) {
  uint32_t step = REGION_HUGE_PAGE / table->row_stride;
  return (uint32_t)MIN((rows + step - 1) / step * step, table->max_rows);
}

int region_provide_slot_rows(struct percore_region *region, uint32_t slot) {
  uint64_t block = region_block_offset(region, slot);
  if (region_provide(region, block, sizeof(struct percore_slot_head)) != 0)
    return -1;
  for (uint32_t t = 1; t < region->table_count; t++) {
    const struct region_table *table = &region->tables[t];
    uint64_t rows = region->state[t].rows_reserved;
    if (region->is_child) /* the parent may have added rows */
      rows = MAX(rows, whole_steps(table, region_rows_in_use(region, table)));
    if (table->storage == PERCORE_PER_CORE &&
        region_provide(region, block + table->slot_offset,
                       MAX(rows, 1) * table->row_stride) != 0)
      return -1;
  }
  return 0;
}

int region_provide_rows(struct percore_region *region, uint32_t t,
                        uint32_t rows) {
  const struct region_table *table = &region->tables[t];
  struct table_state *state = &region->state[t];
  if (rows <= state->rows_reserved)
    return 0;
  uint32_t to = whole_steps(table, rows);
  if (for_each_array(region, table, state->rows_reserved, to, region_provide) !=
      0)
    return -1;
  state->rows_reserved = to;
  region->is_full = false;
  return 0;
}

static int reserve(struct percore_region *region, uint32_t t, uint32_t rows) {
  const struct region_table *table = &region->tables[t];
  uint32_t before = region->state[t].rows_reserved;
  if (rows >= table->max_rows && !(table->flags & REGION_TABLE_SINGLE))
    return region_failed(EINVAL);
  if (region_provide_rows(region, t, MIN(rows + 1, table->max_rows)) != 0)
    return -1;
  uint32_t now = region->state[t].rows_reserved;
  if (now > before)
    (void)for_each_array(region, table, 0, now, make_huge);
  return 0;
}

int percore_reserve(struct percore_region *region, uint32_t table,
                    uint32_t rows) {
  if (!region_lock_table(region, &table, true))
    return -1;
  int rc = reserve(region, table, rows);
  region_unlock(region);
  return rc;
}
