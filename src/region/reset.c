/* reset.c: makes counters and histograms show 0 by changing their bases, the
 * values that readers subtract. */
#include "percore_config.h"

#include <errno.h>

#include "writer.h"

static bool is_reset(const struct region_field *field) {
  return field->kind == PERCORE_COUNTER || field->kind == PERCORE_HISTOGRAM;
}

/* Sums the cells of a row. Waits at most 0.1 s for a worker that was preempted
 * inside a section, and returns false if it stays there: if the bases of
 * packets and bytes were taken at different moments, the values shown for them
 * would never match again. During the wait, the row is not CHANGING, so readers
 * do not have to wait. */
static bool sum_patiently(const struct percore_region *region,
                          const struct region_table *table, uint32_t row) {
  enum { TRIES = 100 };
  for (int i = 0; i < TRIES; i++) {
    if (region_row_sum(region, table, row))
      return true;
    region_pause();
  }
  /* Reset an OWNED row anyway: its owner is unknown, and may have died inside a
   * section. */
  return (table->flags & REGION_TABLE_CONSISTENT) != 0;
}

/* Writes the base while the row is CHANGING, so that a reader uses either the
 * old base or the new base. Returns 0, or -1 with EAGAIN. */
static int reset_row(struct percore_region *region,
                     const struct region_table *table, uint32_t row) {
  uint64_t *generation = region_generation(region, table, row);
  uint64_t *reset = region_base(region, table, table->reset_offset, row);
  if (!sum_patiently(region, table, row))
    return region_failed(EAGAIN);
  region_begin_change(generation, region_changed(*generation, REGION_CHANGING));
  for (uint32_t f = 0; f < table->field_count; f++) {
    const struct region_field *field = &region->fields[table->first_field + f];
    for (uint32_t c = 0; is_reset(field) && c < field->cells; c++)
      __atomic_store_n(&reset[field->column + c],
                       region->sums[field->column + c], __ATOMIC_RELAXED);
  }
  region_end_change(generation, REGION_LIVE);
  return 0;
}

static int reset_rows(struct percore_region *region, uint32_t t, uint32_t row) {
  const struct region_table *table = &region->tables[t];
  if (table->reset_offset == 0)
    return region_failed(ENOTSUP);
  if (row != PERCORE_ALL_ROWS)
    return region_row_is_live(region, table, row)
               ? reset_row(region, table, row)
               : region_failed(ENOENT);
  int rc = 0;
  uint64_t rows = region_rows_in_use(region, table);
  for (uint32_t r = 0; r < rows && rc == 0; r++)
    if (region_row_is_live(region, table, r))
      rc = reset_row(region, table, r);
  return rc;
}

int percore_reset(struct percore_region *region, uint32_t table, uint32_t row) {
  bool all = table == PERCORE_ALL_TABLES;
  if (all && row != PERCORE_ALL_ROWS)
    return region_failed(EINVAL);
  if (!region_lock_table(region, all ? NULL : &table, true))
    return -1;
  int rc = all ? 0 : reset_rows(region, table, row);
  for (uint32_t t = 0; all && t < region->table_count && rc == 0; t++)
    if (region->tables[t].reset_offset != 0)
      rc = reset_rows(region, t, row);
  region_unlock(region);
  return rc;
}
