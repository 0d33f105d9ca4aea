/* row.c: adds and removes rows. */
#include "percore_config.h"

#include <errno.h>
#include <string.h>

#include "writer.h"

enum { NAME_WORDS = 120 / 8 };

/* A name or key in the form of a label, padded with NULs. */
struct padded_name {
  uint64_t words[NAME_WORDS];
};

/* Pads a name or, in a table without names, a key. Returns false with EINVAL if
 * the table does not accept the name. */
static bool pad_name(const struct region_table *table, const char *name,
                     uint64_t key, struct padded_name *padded) {
  memset(padded, 0, sizeof(*padded));
  errno = EINVAL;
  if (table->flags & REGION_TABLE_SINGLE)
    return false;
  if (table->row_name_size == 0) {
    padded->words[0] = key;
    return name == NULL;
  }
  size_t length = name != NULL ? strnlen(name, table->row_name_size) : 0;
  if (length == 0 || length >= table->row_name_size)
    return false;
  memcpy(padded->words, name, length);
  return true;
}

/* ---------------------------------------------------------------------------
 * Making a row live
 *
 * No thread updates the row yet: either it has never been used, or no worker
 * uses it for the previous object any more. The state in its generation word is
 * CHANGING until the row is live.
 */

static void store(uint64_t *word, uint64_t value) {
  __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static bool is_set(const struct region_field *field) {
  return field->kind == PERCORE_GAUGE || field->kind == PERCORE_STATE;
}

static void store_base(struct percore_region *region,
                       const struct region_table *table, uint64_t offset,
                       uint32_t row) {
  uint64_t *base = region_base(region, table, offset, row);
  for (uint32_t c = 0; c < table->columns; c++)
    store(&base[c], region->sums[c]);
}

/* Sets gauges and states to 0, and births and resets to the present sums. No
 * other cell is ever set to 0, because readers would lose counts that they have
 * not read yet. */
static void begin_cells(struct percore_region *region,
                        const struct region_table *table, uint32_t row) {
  uint64_t *cells = region_single(region, table, row);
  for (uint32_t f = 0; f < table->field_count; f++) {
    const struct region_field *field = &region->fields[table->first_field + f];
    if (is_set(field))
      store(&cells[field->column], 0);
  }
  (void)region_row_sum(region, table, row);
  store_base(region, table, table->birth_offset, row);
  if (table->reset_offset != 0)
    store_base(region, table, table->reset_offset, row);
}

static void begin_row(struct percore_region *region,
                      const struct region_table *table, uint32_t row,
                      const struct padded_name *name) {
  uint64_t *generation = region_generation(region, table, row);
  uint64_t *label = region_label(region, table, row);
  struct region_table_live *live = region_live(region, table);
  region_begin_change(generation,
                      region_next_object(*generation, REGION_CHANGING));
  for (uint32_t w = 0; w < region_label_size(table) / 8; w++)
    store(&label[w], name->words[w]);
  if (table->flags & REGION_TABLE_CONSISTENT)
    region_close_section(region_single(region, table, row) - 1);
  begin_cells(region, table, row);
  region_end_change(generation, REGION_LIVE);
  if (live->rows_in_use <= row)
    __atomic_store_n(&live->rows_in_use, (uint64_t)row + 1, __ATOMIC_RELEASE);
}

void region_row_begin_single(struct percore_region *region, uint32_t table) {
  static const struct padded_name no_name;
  begin_row(region, &region->tables[table], 0, &no_name);
}

/* ---------------------------------------------------------------------------
 * Adding
 */

/* Finds a row that has never been used, or else the oldest removed row: if all
 * have been used, or there is no memory for more. */
static int find_room(struct percore_region *region, uint32_t t, uint32_t *row) {
  const struct region_table *table = &region->tables[t];
  struct table_state *state = &region->state[t];
  if (state->next_unused == 0)
    state->next_unused = 1; /* row 0 is a sink */
  while (state->next_unused < state->rows_reserved &&
         *region_generation(region, table, state->next_unused) != 0)
    state->next_unused++; /* skips rows that were added by number */
  int error = ENOSPC;
  if (state->next_unused < table->max_rows) {
    if (region_provide_rows(region, t, state->next_unused + 1) == 0) {
      *row = state->next_unused++;
      return 0;
    }
    error = errno;
  }
  int rc = region_take_removed(region, t, row);
  if (rc != 0 && errno == ENOSPC)
    errno = error;
  return rc;
}

static int refuse(struct percore_region *region, uint32_t t) {
  struct region_table_live *live = region_live(region, &region->tables[t]);
  __atomic_fetch_add(&live->adds_refused, 1, __ATOMIC_RELAXED);
  return -1;
}

static bool has_name(const struct percore_region *region,
                     const struct region_table *table, uint32_t row,
                     const struct padded_name *name) {
  const uint64_t *word = region_generation(region, table, row);
  uint64_t generation = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  bool same = region_state(generation) == REGION_LIVE &&
              memcmp(region_label(region, table, row), name->words,
                     region_label_size(table)) == 0;
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return same && __atomic_load_n(word, __ATOMIC_RELAXED) == generation;
}

/* A child finds the rows of its parent, of which its index does not know those
 * that were added after the fork. */
static int find_in_child(struct percore_region *region, uint32_t t,
                         const struct padded_name *name, uint32_t *row) {
  const struct region_table *table = &region->tables[t];
  uint64_t rows = region_rows_in_use(region, table);
  uint32_t found;
  if (!key_index_find(&region->state[t].names, name->words, &found) ||
      !has_name(region, table, found, name))
    for (found = 0; found < rows && !has_name(region, table, found, name);)
      found++;
  if (found >= rows) {
    __atomic_fetch_add(&region->shared->adds_in_children, 1, __ATOMIC_RELAXED);
    errno = EPERM;
    return refuse(region, t);
  }
  *row = found;
  return region_failed(EEXIST);
}

static int add_named(struct percore_region *region, uint32_t t,
                     const struct padded_name *name, uint32_t *row) {
  struct table_state *state = &region->state[t];
  uint32_t found;
  if (region->is_child)
    return find_in_child(region, t, name, row);
  if (key_index_find(&state->names, name->words, &found)) {
    *row = found;
    return region_failed(EEXIST);
  }
  if (!key_index_reserve(&state->names))
    return -1;
  if (find_room(region, t, &found) != 0)
    return refuse(region, t);
  begin_row(region, &region->tables[t], found, name);
  key_index_add(&state->names, found);
  *row = found;
  return 0;
}

uint32_t percore_row_add(struct percore_region *region, uint32_t t,
                         const char *name, uint64_t key) {
  uint32_t row = 0;
  struct padded_name padded;
  if (!region_lock_table(region, &t, false))
    return 0;
  if (pad_name(&region->tables[t], name, key, &padded) &&
      add_named(region, t, &padded, &row) == 0)
    errno = 0;
  region_unlock(region);
  return row;
}

static int add_at(struct percore_region *region, uint32_t t, uint32_t row,
                  const struct padded_name *name) {
  const struct region_table *table = &region->tables[t];
  if (row == 0 || row >= table->max_rows)
    return region_failed(EINVAL);
  if (region_provide_rows(region, t, row + 1) != 0)
    return refuse(region, t);
  switch (region_state(*region_generation(region, table, row))) {
  case REGION_FREE:
    break;
  case REGION_GONE:
    if (region_take_this_removed(region, t, row) != 0)
      return refuse(region, t);
    break;
  default:
    return region_failed(EEXIST);
  }
  begin_row(region, table, row, name);
  return 0;
}

int percore_row_add_at(struct percore_region *region, uint32_t table,
                       uint32_t row, const char *name, uint64_t key) {
  if (!region_lock_table(region, &table, true))
    return -1;
  struct padded_name padded;
  int rc = pad_name(&region->tables[table], name, key, &padded)
               ? add_at(region, table, row, &padded)
               : -1;
  region_unlock(region);
  return rc;
}

/* ---------------------------------------------------------------------------
 * Removing
 */

/* True if the slots hold gauges or states of the table. Its rows are then not
 * reused: the previous object's gauges would look like those of the next, and
 * only the owners of the slots may write them.
 */
static bool has_gauges_per_core(const struct percore_region *region,
                                const struct region_table *table) {
  for (uint32_t f = 0; f < table->field_count; f++)
    if (is_set(&region->fields[table->first_field + f]))
      return table->storage == PERCORE_PER_CORE;
  return false;
}

void region_clear_gauges(struct percore_region *region, uint32_t slot) {
  for (uint32_t t = 1; t < region->table_count; t++) {
    const struct region_table *table = &region->tables[t];
    if (!has_gauges_per_core(region, table))
      continue;
    unsigned char *rows = region_at(region, region_block_offset(region, slot) +
                                                table->slot_offset);
    for (uint64_t r = 0; r < region_rows_in_use(region, table); r++)
      for (uint32_t f = 0; f < table->field_count; f++) {
        const struct region_field *field =
            &region->fields[table->first_field + f];
        if (is_set(field))
          store((uint64_t *)(rows + r * table->row_stride) + field->column, 0);
      }
  }
}

static int remove_row(struct percore_region *region, uint32_t t, uint32_t row,
                      uint32_t flags) {
  const struct region_table *table = &region->tables[t];
  if ((flags & ~(uint32_t)PERCORE_NO_UPDATE_IN_FLIGHT) != 0)
    return region_failed(EINVAL);
  if ((table->flags & REGION_TABLE_SINGLE) ||
      has_gauges_per_core(region, table))
    return region_failed(ENOTSUP);
  if (!region_row_is_live(region, table, row))
    return region_failed(ENOENT);
  if (region_removed_init(region, t) != 0)
    return -1;
  key_index_remove(&region->state[t].names, row);
  region_remove_later(region, t, row,
                      (flags & PERCORE_NO_UPDATE_IN_FLIGHT) != 0);
  return 0;
}

int percore_row_remove(struct percore_region *region, uint32_t table,
                       uint32_t row, uint32_t flags) {
  if (!region_lock_table(region, &table, true))
    return -1;
  int rc = remove_row(region, table, row, flags);
  region_unlock(region);
  return rc;
}
