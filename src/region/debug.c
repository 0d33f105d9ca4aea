/* debug.c: the checks of programs that are compiled with PERCORE_DEBUG: an
 * update that is a mistake ends the program with a message. What cannot be
 * decided passes: an update while another thread creates a region, or of a row
 * that was removed while the thread might still use it. */
#include "percore_config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "writer.h"

/* Where the program made the call that is being checked. */
static __thread const char *file __attribute__((tls_model("initial-exec"))) =
    "";
static __thread int line __attribute__((tls_model("initial-exec")));

void percore_debug_at_(const char *file_, int line_) {
  file = file_;
  line = line_;
}

static __attribute__((noreturn, format(printf, 1, 2))) void
fail(const char *format, ...) {
  va_list arguments;
  fprintf(stderr, "percore: %s:%d: ", file, line);
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  abort();
}

void percore_debug_fail_(const char *message) { fail("%s", message); }

/* ---------------------------------------------------------------------------
 * What an address is
 */

/* A row of a table in a slot, or outside the slots. */
struct place {
  const struct percore_region *region;
  const struct region_table *table;
  uint32_t number, row, slot;
  bool in_slot;
};

static __attribute__((noreturn)) void fail_of_slot(bool of_parent,
                                                   bool has_owner) {
  fail("%s", of_parent ? "this child of fork(2) has not attached: call "
                         "percore_attach in it"
             : has_owner
                 ? "the slot belongs to another thread: attach each thread"
                 : "the slot has been detached");
}

/* Finds the slot, or fails if the thread does not hold it. Returns false if the
 * slot is a sink. */
static bool find_slot(struct place *place, uint64_t *offset) {
  const struct percore_region *region = place->region;
  place->in_slot = *offset >= region->header.blocks_offset;
  if (!place->in_slot)
    return true;
  *offset -= region->header.blocks_offset;
  place->slot = (uint32_t)(*offset / region->header.block_stride);
  *offset %= region->header.block_stride;
  if (region_slot_is_own(region, place->slot))
    return true;
  fail_of_slot(region_slot_is_of_parent(region, place->slot),
               region_slot_has_owner(region, place->slot));
}

/* Finds the row that begins at an offset. Returns false for row 0, which is a
 * sink, unless it is the only row. */
static bool find_row(struct place *place, uint64_t offset) {
  const struct percore_region *region = place->region;
  for (uint32_t t = 1; t < region->table_count; t++) {
    const struct region_table *table = &region->tables[t];
    bool consistent = (table->flags & REGION_TABLE_CONSISTENT) != 0;
    uint64_t first = place->in_slot ? table->slot_offset
                                    : table->single_offset + 8 * consistent;
    uint64_t row = (offset - first) / table->row_stride;
    if ((place->in_slot && table->storage != PERCORE_PER_CORE) ||
        row >= table->max_rows || (offset - first) % table->row_stride != 0)
      continue;
    place->table = table;
    place->number = t;
    place->row = (uint32_t)row;
    return row > 0 || (table->flags & REGION_TABLE_SINGLE) != 0;
  }
  fail("these are not the cells of a row: is the table one of this region?");
}

/* ---------------------------------------------------------------------------
 * What may be done with it
 */

static const char *string_at(const struct place *place, uint32_t offset) {
  return place->region->strings + offset;
}

static void check_row(const struct place *place) {
  enum region_state state = region_state(__atomic_load_n(
      region_generation(place->region, place->table, place->row),
      __ATOMIC_ACQUIRE));
  const char *table = string_at(place, place->table->name);
  if (state == REGION_FREE)
    fail("table %s has no row %u: add rows with percore_row_add", table,
         place->row);
  if (state == REGION_GONE &&
      !region_row_is_in_use(place->region, place->number, place->row))
    fail("row %u of table %s has been removed", place->row, table);
}

/* Finds the row of an update. Returns false if the address is that of a sink,
 * or cannot be looked up. */
static bool find_live(struct place *place, const void *cells) {
  if (!region_find(cells, &place->region))
    return false;
  if (place->region == NULL)
    fail("no region has these cells: it has been destroyed, or the handle has "
         "not been made");
  if (place->region->is_sink)
    return false;
  uint64_t offset =
      (uint64_t)((const unsigned char *)cells - place->region->map);
  if (!find_slot(place, &offset) || !find_row(place, offset))
    return false;
  check_row(place);
  return true;
}

static const struct region_field *field_of(const struct place *place,
                                           uint32_t column) {
  const struct region_table *table = place->table;
  const struct region_field *field = &place->region->fields[table->first_field];
  if (column >= table->columns)
    fail("there is no such cell: rows of table %s have %u columns, and this is "
         "column %u",
         string_at(place, table->name), table->columns, column);
  while (column >= field->column + field->cells)
    field++;
  return field;
}

void percore_debug_cell_(const void *cells, uint32_t column, int is_set) {
  struct place place;
  if (column >= PERCORE_MAX_COLUMNS)
    fail("there is no such cell: column %u", column);
  if (!find_live(&place, cells))
    return;
  const struct region_field *field = field_of(&place, column);
  bool is_level = field->kind == PERCORE_GAUGE || field->kind == PERCORE_STATE;
  if (is_level != (is_set != 0))
    fail("field %s of table %s %s", string_at(&place, field->name),
         string_at(&place, place.table->name),
         is_level ? "is a gauge or a state: use percore_set"
                  : "counts, and is never set: use percore_add");
}

void percore_debug_observe_(const void *cells, uint32_t field) {
  struct place place;
  if (!find_live(&place, cells))
    return;
  const char *table = string_at(&place, place.table->name);
  if (field >= place.table->field_count)
    fail("table %s has no field %u", table, field);
  const struct region_field *found =
      &place.region->fields[place.table->first_field + field];
  if (found->kind != PERCORE_HISTOGRAM)
    fail("field %s of table %s is no histogram", string_at(&place, found->name),
         table);
}

percore_table_t percore_debug_table_(percore_slot_t slot, uint32_t table) {
  if (slot.seat == NULL)
    fail("the slot has not been attached");
  percore_table_t handle = percore_table(slot, table);
  if (errno == EINVAL)
    fail("the region has no table %u, or it is SHARED: use percore_shared_row",
         table);
  return handle;
}

void percore_debug_row_(const void *cells) {
  struct place place;
  (void)find_live(&place, cells);
}

void percore_debug_slot_(const void *address) {
  const struct seat *seat = address;
  const struct percore_region *region;
  if (!region_find_seat(seat, &region))
    return;
  if (region == NULL && !region_is_no_seat(seat))
    fail("no region has this slot: it has been destroyed");
  if (region == NULL || region->is_sink)
    return;
  uint64_t holder = __atomic_load_n(&seat->thread, __ATOMIC_RELAXED);
  if (holder == region_thread_number())
    return;
  fail_of_slot(holder == REGION_OF_PARENT, holder != 0);
}

/* Threads share the sequence words of sinks, and of row 0. */
void percore_debug_section_(const uint64_t *sequence, int begins) {
  struct place place;
  bool open = (__atomic_load_n(sequence, __ATOMIC_RELAXED) & 1) != 0;
  if (open != (begins != 0) || !region_find(sequence, &place.region) ||
      place.region == NULL || place.region->is_sink)
    return;
  uint64_t offset =
      (uint64_t)((const unsigned char *)sequence - place.region->map);
  if (!find_slot(&place, &offset) ||
      (!place.in_slot && !find_row(&place, offset + sizeof(*sequence))))
    return;
  fail("%s",
       begins ? "sections do not nest" : "a section ends that has not begun");
}
