/* reader_rows.c: reads slots, counts rows, and reads the names of rows. */
#include "percore_config.h"

#include <stdio.h>
#include <string.h>

#include "reader.h"
#include "view.h"

/* ---------------------------------------------------------------------------
 * Slots
 */

uint32_t region_reader_slots(const struct region_reader *reader) {
  return reader->view.map != NULL ? reader->view.directory.header.slot_count
                                  : 0;
}

static void copy_slot(const struct region_slot *slot,
                      struct region_slot_view *view) {
  struct region_slot copy;
  (void)region_view_copy_slot(slot, &copy);
  view->state = region_state(copy.generation);
  view->core = copy.core;
  view->tid = copy.tid;
  view->since_boottime_ns = copy.since_boottime_ns;
  memcpy(view->name, copy.name, sizeof(view->name));
  view->name[sizeof(view->name) - 1] = '\0';
}

/* Returns the record of a slot, or NULL if no thread has ever attached to the
 * slot: the record and the head of the slot's block may then not be backed by
 * memory. */
static const struct region_slot *find_slot(struct region_reader *reader,
                                           uint32_t s) {
  struct region_view *view = &reader->view;
  if (s >= region_reader_slots(reader))
    return NULL;
  const struct region_slot *slot = region_view_slot(view, s);
  uint64_t head = sizeof(struct percore_slot_head);
  if (slot == NULL ||
      region_state(region_load_acquire(&slot->generation)) == REGION_FREE ||
      region_view_data(view, region_view_block(view, s), head,
                       &view->slot_known[s * view->directory.table_count]) <
          head)
    return NULL;
  return slot;
}

/* Returns the core that a slot counts for. Each of the first slots belongs to
 * the core with the same number. For other slots, `label` is the core from the
 * slot's record, which is untrusted data: returns -1 if the region has no such
 * core. */
static int core_of(const struct region_header *header, uint32_t s, int label) {
  if (s < header->core_count)
    return (int)s;
  return label >= 0 && (uint32_t)label < header->core_count ? label : -1;
}

bool region_reader_slot_is_used(struct region_reader *reader, uint32_t s,
                                int *core) {
  const struct region_header *header = &reader->view.directory.header;
  const struct region_slot *slot = find_slot(reader, s);
  if (slot == NULL)
    return false;
  struct region_slot_view extra = {.core = -1};
  if (s >= header->core_count)
    copy_slot(slot, &extra);
  *core = core_of(header, s, extra.core);
  return true;
}

void region_reader_slot(struct region_reader *reader, uint32_t s,
                        struct region_slot_view *slot) {
  struct region_view *view = &reader->view;
  const struct region_slot *record = find_slot(reader, s);
  *slot = (struct region_slot_view){.state = REGION_FREE, .core = -1};
  if (record == NULL)
    return;
  copy_slot(record, slot);
  slot->core = core_of(&view->directory.header, s, slot->core);
  if (slot->core < 0) {
    slot->state = REGION_FREE;
    return;
  }
  const struct percore_slot_head *head =
      (const void *)(view->map + region_view_block(view, s));
  slot->quiescent = region_load(&head->quiescent);
  slot->last_tsc = region_load(&head->last_tsc);
  slot->asleep_tsc = region_load(&head->asleep_tsc);
}

/* ---------------------------------------------------------------------------
 * Rows
 */

uint32_t region_rows_with_generations(struct region_reader *reader,
                                      uint32_t t) {
  uint32_t in_use = region_reader_rows(reader, t);
  return in_use > 0 ? region_view_generation_rows(&reader->view, t, in_use) : 0;
}

uint32_t region_reader_live_rows(struct region_reader *reader, uint32_t t) {
  uint32_t rows = region_rows_with_generations(reader, t), live = 0;
  if (rows == 0)
    return 0;
  const uint64_t *generations = region_view_generations(&reader->view, t);
  for (uint32_t row = 0; row < rows; row++)
    live += region_state(region_load(&generations[row])) == REGION_LIVE;
  return live;
}

static void write_key(uint32_t format, uint64_t key, char *name) {
  size_t size = REGION_ROW_NAME_SIZE;
  switch (format) {
  case PERCORE_KEY_HEX:
    snprintf(name, size, "%016llx", (unsigned long long)key);
    break;
  case PERCORE_KEY_IPV4:
    snprintf(name, size, "%u.%u.%u.%u", (unsigned)(key >> 24 & 0xff),
             (unsigned)(key >> 16 & 0xff), (unsigned)(key >> 8 & 0xff),
             (unsigned)(key & 0xff));
    break;
  case PERCORE_KEY_MAC:
    snprintf(name, size, "%02x:%02x:%02x:%02x:%02x:%02x",
             (unsigned)(key >> 40 & 0xff), (unsigned)(key >> 32 & 0xff),
             (unsigned)(key >> 24 & 0xff), (unsigned)(key >> 16 & 0xff),
             (unsigned)(key >> 8 & 0xff), (unsigned)(key & 0xff));
    break;
  default:
    snprintf(name, size, "%llu", (unsigned long long)key);
  }
}

bool region_reader_row_name(struct region_reader *reader, uint32_t t,
                            uint32_t row, uint64_t generation,
                            char name[REGION_ROW_NAME_SIZE]) {
  name[0] = '\0';
  if (row >= region_reader_rows(reader, t))
    return false;
  struct region_view *view = &reader->view;
  const struct region_table *table = &view->directory.tables[t];
  uint64_t words[REGION_LABEL_WORDS];
  if (region_view_generation_rows(view, t, row + 1) <= row ||
      !region_view_label(view, t, row, words))
    return false;
  const uint64_t *generation_now = region_view_generations(view, t) + row;
  if (region_incarnation(region_load(generation_now)) !=
      region_incarnation(generation))
    return false;
  if (table->flags & REGION_TABLE_SINGLE)
    return true;
  if (table->row_name_size == 0)
    write_key(table->key, words[0], name);
  else
    memcpy(name, words, sizeof(words)); /* zeros follow the label */
  return true;
}
