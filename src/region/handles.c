/* handles.c: what the update paths hold. On failure: the spare space of slot
 * blocks, or memory that all failures share. A stride of 0 makes every row the
 * same. */
#include "percore_config.h"

#include <errno.h>

#include "writer.h"

const char percore_abi_2 = 2;

/* A slot block's head and then as many cells as a row can have, twice: for
 * slots of regions that could not be made, and for all single copies. */
struct sink {
  struct percore_slot_head head;
  uint64_t slot_cells[PERCORE_MAX_COLUMNS];
  uint64_t sequence[8]; /* what percore_row_begin may touch */
  uint64_t cells[PERCORE_MAX_COLUMNS];
};

static struct sink sink __attribute__((aligned(4096)));

struct percore_region region_sink = {
    .is_sink = true,
    .memfd = -1,
    .block_stride = offsetof(struct sink, sequence),
    .sink_block = (unsigned char *)&sink,
};

unsigned char *region_sink_cells(void) { return (unsigned char *)sink.cells; }

bool region_user_table(const struct percore_region *region, uint32_t *table) {
  if (*table >= region->table_count - 1) {
    errno = EINVAL;
    return false;
  }
  (*table)++;
  return true;
}

static bool has_storage(const struct percore_region *region, uint32_t table,
                        enum percore_storage storage) {
  errno = EINVAL;
  return region->tables[table].storage == storage;
}

int percore_core_table(struct percore_region *region, uint32_t table,
                       percore_core_table_t *handle) {
  handle->offset = region->block_stride - REGION_SPARE_SIZE;
  handle->stride = 0;
  if (!region_lock(region))
    return -1;
  int rc = -1;
  if (region_user_table(region, &table) &&
      has_storage(region, table, PERCORE_PER_CORE)) {
    handle->offset = region->tables[table].slot_offset;
    handle->stride = region->tables[table].row_stride;
    rc = 0;
  }
  region_unlock(region);
  return rc;
}

int percore_owned_table(struct percore_region *region, uint32_t table,
                        percore_owned_table_t *handle) {
  handle->rows = region_sink_cells();
  handle->stride = 0;
  handle->sequences = (unsigned char *)sink.sequence;
  handle->sequence_stride = 0;
  if (!region_lock(region))
    return -1;
  int rc = -1;
  if (region_user_table(region, &table) &&
      has_storage(region, table, PERCORE_OWNED)) {
    const struct region_table *record = &region->tables[table];
    handle->rows = (unsigned char *)region_single(region, record, 0);
    handle->stride = record->row_stride;
    if (record->flags & REGION_TABLE_CONSISTENT) {
      handle->sequences = region->map + record->single_offset;
      handle->sequence_stride = record->row_stride;
    }
    rc = 0;
  }
  region_unlock(region);
  return rc;
}

int percore_shared_table(struct percore_region *region, uint32_t table,
                         percore_shared_table_t *handle) {
  handle->rows = region_sink_cells();
  handle->stride = 0;
  if (!region_lock(region))
    return -1;
  int rc = -1;
  if (region_user_table(region, &table) &&
      !has_storage(region, table, PERCORE_OWNED)) {
    handle->rows =
        (unsigned char *)region_single(region, &region->tables[table], 0);
    handle->stride = region->tables[table].row_stride;
    rc = 0;
  }
  region_unlock(region);
  return rc;
}

int percore_histogram(struct percore_region *region, uint32_t table,
                      uint32_t field, percore_histogram_t *handle) {
  *handle = (percore_histogram_t){.column = 0, .sub_bits = 0, .buckets = 1};
  if (!region_lock(region))
    return -1;
  int rc = -1;
  if (region_user_table(region, &table)) {
    const struct region_table *record = &region->tables[table];
    const struct region_field *fields = &region->fields[record->first_field];
    errno = EINVAL;
    if (field < record->field_count &&
        fields[field].kind == PERCORE_HISTOGRAM) {
      handle->column = fields[field].column;
      handle->sub_bits = fields[field].sub_bits;
      handle->buckets = fields[field].cells;
      rc = 0;
    }
  }
  region_unlock(region);
  return rc;
}
