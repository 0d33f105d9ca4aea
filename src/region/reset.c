/* reset.c: counters show 0 from now on, and nothing else changes. */
#include "percore_config.h"

#include <errno.h>
#include <time.h>

#include "writer.h"

static bool is_reset(const struct region_field *field) {
  return field->kind == PERCORE_COUNTER || field->kind == PERCORE_HISTOGRAM;
}

/* A base that is not of one moment would keep packets and bytes apart for ever,
 * so a reset waits for a worker that was preempted inside a section. Nothing
 * says changing meanwhile. */
static bool sum_patiently(const struct percore_region *region,
                          const struct region_table *table, uint32_t row,
                          uint64_t *sums) {
  enum { LOOKS = 1000, PAUSE_NS = 100000 };
  struct timespec pause = {.tv_nsec = PAUSE_NS};
  for (int i = 0; i < LOOKS; i++) {
    if (region_sum_row(region, table, row, sums))
      return true;
    nanosleep(&pause, NULL);
  }
  /* A row has no owner that could be asked whether it died inside. */
  return (table->flags & REGION_TABLE_CONSISTENT) != 0;
}

/* The word says changing while the base is written, so that a reader takes
 * either the old base or the new one. 0, or -1 with EAGAIN. */
static int reset_row(struct percore_region *region,
                     const struct region_table *table, uint32_t row) {
  uint64_t sums[PERCORE_MAX_COLUMNS];
  uint64_t *generation = region_generation(region, table, row);
  uint64_t *reset = region_base(region, table, table->reset_offset, row);
  if (!sum_patiently(region, table, row, sums)) {
    errno = EAGAIN;
    return -1;
  }
  uint64_t changing = region_changed(*generation, REGION_CHANGING);
  __atomic_store_n(generation, changing, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  for (uint32_t f = 0; f < table->field_count; f++) {
    const struct region_field *field = &region->fields[table->first_field + f];
    for (uint32_t c = 0; is_reset(field) && c < field->cells; c++)
      __atomic_store_n(&reset[field->column + c], sums[field->column + c],
                       __ATOMIC_RELAXED);
  }
  __atomic_store_n(generation, region_changed(changing, REGION_LIVE),
                   __ATOMIC_RELEASE);
  return 0;
}

static int reset_rows(struct percore_region *region, uint32_t t, uint32_t row) {
  const struct region_table *table = &region->tables[t];
  uint64_t rows = region_live(region, table)->rows_in_use;
  errno = ENOTSUP;
  if (table->reset_offset == 0)
    return -1;
  if (row == PERCORE_ALL_ROWS) {
    int rc = 0;
    for (uint32_t r = 0; r < rows && rc == 0; r++)
      if (region_state(*region_generation(region, table, r)) == REGION_LIVE)
        rc = reset_row(region, table, r);
    return rc;
  }
  errno = ENOENT;
  if (row >= rows ||
      region_state(*region_generation(region, table, row)) != REGION_LIVE)
    return -1;
  return reset_row(region, table, row);
}

int region_reset(struct percore_region *region, uint32_t table, uint32_t row) {
  if (!region_lock(region))
    return -1;
  int rc = 0;
  errno = EINVAL;
  if (table != PERCORE_ALL_TABLES)
    rc = table < region->table_count ? reset_rows(region, table, row) : -1;
  else if (row != PERCORE_ALL_ROWS)
    rc = -1;
  else
    for (uint32_t t = 0; t < region->table_count && rc == 0; t++)
      if (region->tables[t].reset_offset != 0)
        rc = reset_rows(region, t, row);
  region_unlock(region);
  return rc;
}

int percore_reset(struct percore_region *region, uint32_t table, uint32_t row) {
  if (table != PERCORE_ALL_TABLES && ++table == PERCORE_ALL_TABLES) {
    errno = EINVAL;
    return -1;
  }
  return region_reset(region, table, row);
}
