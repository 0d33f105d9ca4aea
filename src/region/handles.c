/* handles.c: makes the handles of the update paths. If a handle cannot be made,
 * it points to cells that no reader sees, which all failed handles share. Its
 * stride is 0, so all its rows are the same. */
#include "percore_config.h"

#include <errno.h>
#include <stdlib.h>

#include "writer.h"

const char percore_abi_1 = 1;

/* ---------------------------------------------------------------------------
 * Sinks
 */

static struct {
  struct percore_slot_head head;
  uint64_t sequence[8]; /* for percore_begin */
  uint64_t cells[PERCORE_MAX_COLUMNS];
} sink __attribute__((aligned(4096)));

struct percore_slot_head *const region_sink_head = &sink.head;

/* Each poll takes the path of long rounds, which chooses the slot. */
struct percore_slot_head region_undecided __attribute__((aligned(64)));

struct percore_region region_sink = {
    .is_sink = true,
    .no_seat = {.handle = {&sink.head},
                .region = &region_sink,
                .slot = SEAT_SINK},
};

bool region_sink_has(const void *address) {
  return (uintptr_t)address - (uintptr_t)&sink < sizeof(sink);
}

struct seat *region_no_seat(struct percore_region *region) {
  return region != NULL ? &region->no_seat : &region_sink.no_seat;
}

bool region_is_no_seat(const struct seat *seat) {
  return seat == &seat->region->no_seat;
}

/* All observations in a sink count in its first cell, whatever the field. */
static const union {
  struct percore_place_ place;
  struct {
    uintptr_t sequence, mask;
    struct percore_shape_ shapes[REGION_MAX_TABLE_FIELDS];
  } all;
} sink_place = {
    .all = {.sequence = (uintptr_t)sink.sequence,
            .shapes = {[0 ... REGION_MAX_TABLE_FIELDS - 1] = {0, 0, 1}}},
};

static percore_table_t sink_table(void) {
  return (percore_table_t){.rows = (unsigned char *)sink.cells,
                           .place = &sink_place.place};
}

/* ---------------------------------------------------------------------------
 * Places
 */

static struct percore_place_ **place_at(const struct percore_region *region,
                                        uint32_t slot, uint32_t t) {
  return &region->places[(size_t)slot * region->table_count + t];
}

void region_places_free(struct percore_region *region) {
  size_t count = (region->header.slot_count + 1ull) * region->table_count;
  for (size_t i = 0; region->places != NULL && i < count; i++)
    free(region->places[i]);
  free(region->places);
}

static struct percore_place_ *make_place(const struct percore_region *region,
                                         const struct region_table *table,
                                         struct percore_slot_head *head) {
  bool consistent = (table->flags & REGION_TABLE_CONSISTENT) != 0;
  struct percore_place_ *place =
      malloc(sizeof(*place) + table->field_count * sizeof(place->shapes[0]));
  if (place == NULL)
    return NULL;
  place->sequence = consistent     ? (uintptr_t)-8
                    : head != NULL ? (uintptr_t)&head->sequence
                                   : (uintptr_t)sink.sequence;
  place->mask = consistent ? UINTPTR_MAX : 0;
  for (uint32_t f = 0; f < table->field_count; f++) {
    const struct region_field *field = &region->fields[table->first_field + f];
    place->shapes[f] = (struct percore_shape_){.column = field->column,
                                               .sub_bits = field->sub_bits,
                                               .buckets = field->cells};
  }
  return place;
}

bool region_places_make(struct percore_region *region, uint32_t slot) {
  bool in_slot = slot < region->header.slot_count;
  for (uint32_t t = 1; t < region->table_count; t++) {
    const struct region_table *table = &region->tables[t];
    struct percore_place_ **place = place_at(region, slot, t);
    if (*place != NULL || in_slot != (table->storage == PERCORE_PER_CORE))
      continue;
    *place =
        make_place(region, table, in_slot ? region_block(region, slot) : NULL);
    if (*place == NULL)
      return false;
  }
  return true;
}

/* ---------------------------------------------------------------------------
 * Handles
 */

static bool is_single(const struct region_table *table) {
  return (table->flags & REGION_TABLE_SINGLE) != 0;
}

static bool make_table(percore_table_t *handle, const struct seat *seat,
                       uint32_t t) {
  struct percore_region *region = seat->region;
  const struct region_table *table = &region->tables[t];
  uint32_t slot = region->header.slot_count;
  void *rows = NULL;
  errno = EINVAL;
  if (table->storage == PERCORE_SHARED)
    return false;
  if (table->storage == PERCORE_PER_CORE) {
    errno = ENODEV;
    if (seat->slot >= slot)
      return false;
    slot = seat->slot;
    rows = (unsigned char *)region_block(region, slot) + table->slot_offset;
  } else {
    rows = region_single(region, table, 0);
  }
  *handle =
      (percore_table_t){.rows = rows,
                        .place = *place_at(region, slot, t),
                        .stride = is_single(table) ? 0 : table->row_stride,
                        .max_rows = table->max_rows - 1};
  return true;
}

percore_table_t percore_table(percore_slot_t slot, uint32_t t) {
  struct seat *seat = (struct seat *)slot.seat;
  percore_table_t handle = sink_table();
  if (seat->slot == SEAT_UNDECIDED)
    region_decide(seat);
  if (!region_lock_table(seat->region, &t, false))
    return handle;
  bool made = make_table(&handle, seat, t);
  region_unlock(seat->region);
  if (made)
    errno = 0;
  return handle;
}

/* Takes no lock, because signal handlers call it. Tables never change. */
percore_shared_row_t percore_shared_row(struct percore_region *region,
                                        uint32_t t, uint32_t row) {
  percore_shared_row_t handle = {sink.cells};
  int error = ENODEV;
  if (region != NULL && !region->is_sink) {
    const struct region_table *table =
        t < region->table_count - 1 ? &region->tables[t + 1] : NULL;
    if (table != NULL && is_single(table))
      row = 0;
    if (table != NULL && table->storage != PERCORE_OWNED &&
        row < table->max_rows) {
      handle.shared_cells = region_single(region, table, row);
      return handle;
    }
    error = EINVAL;
  }
  errno = error;
  return handle;
}
