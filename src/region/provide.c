/* provide.c: allocates memory for rows, in steps. */
#include "percore_config.h"

#include <errno.h>

#include "memory.h"
#include "writer.h"

/* A part of a region with one element per row. */
struct array {
  uint64_t offset;
  uint64_t stride; /* in bytes */
};

static int provide(struct percore_region *region, uint64_t offset,
                   uint64_t length) {
  if (length == 0)
    return 0;
  return region_memory_provide(region->memfd, region->map, offset, length,
                               region->page_size);
}

static int provide_elements(struct percore_region *region,
                            const struct array *array, uint32_t from,
                            uint32_t to) {
  return provide(region, array->offset + from * array->stride,
                 (to - from) * array->stride);
}

/* True if all memory was allocated when the region was created. */
static bool is_huge(const struct percore_region *region) {
  return region->page_size > 65536;
}

static struct array rows_in_slot(const struct percore_region *region,
                                 uint32_t slot,
                                 const struct region_table *table) {
  uint64_t block =
      region->header->blocks_offset + slot * region->header->block_stride;
  return (struct array){block + table->slot_offset, table->row_stride};
}

static bool has_rows_in_slot(const struct percore_region *region, uint32_t slot,
                             const struct region_table *table) {
  return table->storage == PERCORE_PER_CORE &&
         region_state(region->slots[slot].generation) != REGION_FREE;
}

enum { SHARED_ARRAYS = 5 };

/* Lists the arrays outside the slot blocks. Returns their number. */
static size_t shared_arrays(const struct region_table *table,
                            struct array *arrays) {
  uint64_t bases = 8ull * table->columns;
  size_t count = 0;
  arrays[count++] = (struct array){table->generations_offset, 8};
  arrays[count++] = (struct array){table->labels_offset, table->label_stride};
  arrays[count++] = (struct array){table->single_offset, table->row_stride};
  arrays[count++] = (struct array){table->birth_offset, bases};
  if (table->reset_offset != 0)
    arrays[count++] = (struct array){table->reset_offset, bases};
  return count;
}

int region_provide_slot_rows(struct percore_region *region, uint32_t slot) {
  if (is_huge(region))
    return 0;
  uint64_t block =
      region->header->blocks_offset + slot * region->header->block_stride;
  if (provide(region, block, sizeof(struct percore_slot_head)) != 0)
    return -1;
  for (uint32_t t = 1; t < region->table_count; t++) {
    struct array rows = rows_in_slot(region, slot, &region->tables[t]);
    if (region->tables[t].storage == PERCORE_PER_CORE &&
        provide_elements(region, &rows, 0, region->state[t].rows_reserved) != 0)
      return -1;
  }
  return 0;
}

static int provide_shared_parts(struct percore_region *region,
                                const struct region_table *table, uint32_t from,
                                uint32_t to) {
  struct array arrays[SHARED_ARRAYS];
  size_t count = shared_arrays(table, arrays);
  if (from == 0 && provide(region, table->live_offset,
                           sizeof(struct region_table_live)) != 0)
    return -1;
  for (size_t i = 0; i < count; i++)
    if (provide_elements(region, &arrays[i], from, to) != 0)
      return -1;
  return 0;
}

static int provide_rows(struct percore_region *region,
                        const struct region_table *table, uint32_t from,
                        uint32_t to) {
  if (provide_shared_parts(region, table, from, to) != 0)
    return -1;
  for (uint32_t s = 0; s < region->header->slot_count; s++) {
    struct array rows = rows_in_slot(region, s, table);
    if (has_rows_in_slot(region, s, table) &&
        provide_elements(region, &rows, from, to) != 0)
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
  uint32_t step = REGION_HUGE_PAGE / table->row_stride;
  uint64_t to = ((uint64_t)rows + step - 1) / step * step;
  if (to > table->max_rows)
    to = table->max_rows;
  if (!is_huge(region) &&
      provide_rows(region, table, state->rows_reserved, (uint32_t)to) != 0)
    return -1;
  state->rows_reserved = (uint32_t)to;
  return 0;
}

static void make_huge(struct percore_region *region,
                      const struct region_table *table, uint32_t rows) {
  struct array arrays[SHARED_ARRAYS];
  size_t count = shared_arrays(table, arrays);
  for (size_t i = 0; i < count; i++)
    region_memory_make_huge(region->map, arrays[i].offset,
                            rows * arrays[i].stride);
  for (uint32_t s = 0; s < region->header->slot_count; s++) {
    struct array in_slot = rows_in_slot(region, s, table);
    if (has_rows_in_slot(region, s, table))
      region_memory_make_huge(region->map, in_slot.offset,
                              rows * in_slot.stride);
  }
}

static int reserve(struct percore_region *region, uint32_t t, uint32_t rows) {
  uint32_t before = region->state[t].rows_reserved;
  if (region_provide_rows(region, t, rows) != 0)
    return -1;
  uint32_t now = region->state[t].rows_reserved;
  if (now > before && !is_huge(region))
    make_huge(region, &region->tables[t], now);
  return 0;
}

int percore_reserve(struct percore_region *region, uint32_t table,
                    uint32_t rows) {
  if (!region_lock(region))
    return -1;
  int rc = -1;
  if (region_user_table(region, &table))
    rc = rows <= region->tables[table].max_rows ? reserve(region, table, rows)
                                                : region_failed(EINVAL);
  region_unlock(region);
  return rc;
}
