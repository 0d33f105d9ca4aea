/* handles.c: makes the handles of the update paths. If a handle cannot be made,
 * it points to cells that no reader sees: the spare space of slot blocks, or
 * memory that all failed handles share. Its stride is 0, so all its rows are
 * the same. */
#include "percore_config.h"

#include <errno.h>

#include "writer.h"

const char percore_abi_2 = 2;

/* A slot block for sinks (a head, then as many cells as a row can have), and a
 * substitute for a single copy. */
struct sink {
  struct percore_slot_head head;
  uint64_t slot_cells[PERCORE_MAX_COLUMNS];
  uint64_t sequence[8]; /* for percore_row_begin */
  uint64_t cells[PERCORE_MAX_COLUMNS];
};

static struct sink sink __attribute__((aligned(4096)));

struct percore_region region_sink = {
    .is_sink = true,
    .block_stride = offsetof(struct sink, sequence),
    .sink_block = &sink.head,
};

bool region_sink_has(const void *address) {
  return (uintptr_t)address - (uintptr_t)&sink < sizeof(sink);
}

/* Sets of storages. */
enum {
  PER_CORE = 1 << PERCORE_PER_CORE,
  OWNED = 1 << PERCORE_OWNED,
  SHARED = 1 << PERCORE_SHARED
};

/* Finds a table by its index in the array passed to percore_create. Returns
 * NULL with errno if the table does not exist or if its storage is not in the
 * set. The pointer stays valid, because tables never change. */
static const struct region_table *
find_table(struct percore_region *region, uint32_t table, unsigned storages) {
  if (!region_lock_table(region, &table))
    return NULL;
  region_unlock(region);
  const struct region_table *found = &region->tables[table];
  if ((storages & (1u << found->storage)) != 0)
    return found;
  errno = EINVAL;
  return NULL;
}

int percore_core_table(struct percore_region *region, uint32_t table,
                       percore_core_table_t *handle) {
  const struct region_table *record = find_table(region, table, PER_CORE);
  handle->offset = region->block_stride - REGION_SPARE_SIZE;
  handle->stride = handle->max_rows = 0;
  if (record == NULL)
    return -1;
  handle->offset = record->slot_offset;
  handle->stride = record->row_stride;
  handle->max_rows = record->max_rows;
  return 0;
}

int percore_owned_table(struct percore_region *region, uint32_t table,
                        percore_owned_table_t *handle) {
  const struct region_table *record = find_table(region, table, OWNED);
  *handle =
      (percore_owned_table_t){.rows = (unsigned char *)sink.cells,
                              .sequences = (unsigned char *)sink.sequence};
  if (record == NULL)
    return -1;
  handle->rows = (unsigned char *)region_single(region, record, 0);
  handle->stride = record->row_stride;
  handle->max_rows = record->max_rows;
  if (record->flags & REGION_TABLE_CONSISTENT) {
    handle->sequences = region->map + record->single_offset;
    handle->sequence_stride = record->row_stride;
  }
  return 0;
}

int percore_shared_table(struct percore_region *region, uint32_t table,
                         percore_shared_table_t *handle) {
  const struct region_table *record =
      find_table(region, table, PER_CORE | SHARED);
  *handle = (percore_shared_table_t){.rows = (unsigned char *)sink.cells};
  if (record == NULL)
    return -1;
  handle->rows = (unsigned char *)region_single(region, record, 0);
  handle->stride = record->row_stride;
  handle->max_rows = record->max_rows;
  return 0;
}

int percore_histogram(struct percore_region *region, uint32_t table,
                      uint32_t field, percore_histogram_t *handle) {
  const struct region_table *record =
      find_table(region, table, PER_CORE | OWNED | SHARED);
  *handle = (percore_histogram_t){.buckets = 1};
  if (record == NULL)
    return -1;
  const struct region_field *fields = &region->fields[record->first_field];
  if (field >= record->field_count || fields[field].kind != PERCORE_HISTOGRAM)
    return region_failed(EINVAL);
  *handle = (percore_histogram_t){.column = fields[field].column,
                                  .sub_bits = fields[field].sub_bits,
                                  .buckets = fields[field].cells};
  return 0;
}
