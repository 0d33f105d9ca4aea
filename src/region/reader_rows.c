/* reader_rows.c: reads slots, counts rows, and reads the names of rows. */
#include "percore_config.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/param.h>

#include "reader.h"
#include "view.h"

/* ---------------------------------------------------------------------------
 * Slots
 */

uint32_t region_reader_slots(const struct region_reader *reader) {
  return reader->view.size > 0 ? reader->view.directory.header.slot_count : 0;
}

/* Returns the core from a slot's record, which is untrusted data, or -1 if the
 * region has no such core. */
static int core_of(const struct region_header *header, int32_t core) {
  return core == PERCORE_NO_CORE ||
                 (core >= 0 && (uint32_t)core < header->core_count)
             ? core
             : -1;
}

static uint64_t slot_offset(const struct region_header *header, uint32_t s) {
  return header->slots_offset + (uint64_t)s * header->slot_size;
}

/* A process that shares the region may have been killed, which only the reader
 * notices at once. */
static enum region_state state_of(const struct region_reader *reader,
                                  uint64_t generation, int32_t tid) {
  enum region_state state = region_state(generation);
  bool is_over = state == REGION_LIVE && tid > 0 && reader->pid > 0 &&
                 kill(tid, 0) != 0 && errno == ESRCH;
  return is_over ? REGION_GONE : state;
}

/* The core of a slot never changes once the slot is used, so it is loaded
 * without a second look at the generation word. */
enum region_state region_reader_slot_state(struct region_reader *reader,
                                           struct region_slot_states *slots,
                                           uint32_t s, int *core) {
  const struct region_header *header = &reader->view.directory.header;
  uint32_t all = region_reader_slots(reader), size = header->slot_size / 8;
  struct region_slot slot;
  if (s >= all)
    return REGION_FREE;
  if (s < slots->first || s >= slots->first + slots->count) {
    slots->first = s;
    slots->count = MIN(all - s, (uint32_t)REGION_SLOT_WORDS / size);
    region_view_load(&reader->view, slot_offset(header, s),
                     (size_t)slots->count * size, 0, slots->words);
  }
  memcpy(&slot, slots->words + (size_t)(s - slots->first) * size, sizeof(slot));
  *core = core_of(header, slot.core);
  return slots->exactly ? state_of(reader, slot.generation, slot.tid)
                        : region_state(slot.generation);
}

/* Copies the record of a slot. If it changes at every attempt, the copy may mix
 * two owners. */
static void copy_slot(struct region_view *view, uint32_t s,
                      struct region_slot *slot) {
  uint64_t offset = slot_offset(&view->directory.header, s);
  bool whole = false;
  for (int i = 0; i < REGION_TRIES && !whole; i++) {
    /* Pairs with the store-release that ends a change. */
    uint64_t before = region_view_word(view, offset);
    region_view_load(view, offset, sizeof(*slot) / 8, 0,
                     (uint64_t *)(void *)slot);
    /* Pairs with the release fence that begins a change. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    whole = region_state(before) != REGION_CHANGING &&
            region_view_word(view, offset) == before;
  }
}

void region_reader_slot(struct region_reader *reader, uint32_t s,
                        struct region_slot_view *slot) {
  struct region_view *view = &reader->view;
  struct region_slot record = {.core = -1};
  struct percore_slot_head head;
  *slot = (struct region_slot_view){.state = REGION_FREE, .core = -1};
  if (s < region_reader_slots(reader))
    copy_slot(view, s, &record);
  int core = core_of(&view->directory.header, record.core);
  if (region_state(record.generation) == REGION_FREE || core == -1)
    return;
  *slot = (struct region_slot_view){
      .state = state_of(reader, record.generation, record.tid),
      .core = core,
      .tid = record.tid,
      .since_boottime_ns = record.since_boottime_ns};
  memcpy(slot->name, record.name, sizeof(slot->name));
  slot->name[sizeof(slot->name) - 1] = '\0';
  region_view_load(view, region_view_block(view, s), sizeof(head) / 8, 0,
                   (uint64_t *)(void *)&head);
  slot->polled_tsc = percore_polled_(&head);
  slot->asleep_tsc = head.asleep_tsc;
  slot->checked_tsc = head.checked_tsc;
  slot->checked_cpu_ns = head.checked_cpu_ns;
  slot->checked_sleep = head.checked_sleep;
}

/* ---------------------------------------------------------------------------
 * Rows
 */

uint32_t region_reader_live_rows(struct region_reader *reader, uint32_t t) {
  enum { AT_ONCE = 512 };
  uint64_t words[AT_ONCE];
  uint32_t rows = region_reader_rows(reader, t), live = 0;
  for (uint32_t row = 0, count; row < rows; row += count) {
    uint64_t all = reader->view.directory.tables[t].generations_offset;
    count = rows - row < AT_ONCE ? rows - row : AT_ONCE;
    region_view_load(&reader->view, all + 8ull * row, count, all + 8ull * rows,
                     words);
    for (uint32_t i = 0; i < count; i++)
      live += region_state(words[i]) == REGION_LIVE;
  }
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

/* The load pairs with the store-release that ended the change to this word. */
uint64_t region_reader_generation(struct region_reader *reader, uint32_t t,
                                  uint32_t row) {
  return row < region_reader_rows(reader, t)
             ? region_view_word(
                   &reader->view,
                   reader->view.directory.tables[t].generations_offset +
                       8ull * row)
             : 0;
}

bool region_reader_row_name(struct region_reader *reader, uint32_t t,
                            uint32_t row, uint64_t generation,
                            char name[REGION_ROW_NAME_SIZE]) {
  memset(name, 0, REGION_ROW_NAME_SIZE);
  if (row >= region_reader_rows(reader, t))
    return false;
  struct region_view *view = &reader->view;
  const struct region_table *table = &view->directory.tables[t];
  uint64_t words[REGION_ROW_NAME_SIZE / 8] = {0};
  uint64_t label =
      table->labels_offset + (uint64_t)row * region_label_size(table);
  region_view_load(view, label, region_label_size(table) / 8, label, words);
  /* Pairs with the release fence after the generation word became CHANGING. */
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (region_incarnation(region_reader_generation(reader, t, row)) !=
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

int64_t region_reader_find_row(struct region_reader *reader, uint32_t t,
                               const char *name) {
  char found[REGION_ROW_NAME_SIZE];
  for (uint32_t row = 0; row < region_reader_rows(reader, t); row++) {
    uint64_t generation = region_reader_generation(reader, t, row);
    if (region_state(generation) == REGION_LIVE &&
        region_reader_row_name(reader, t, row, generation, found) &&
        strcmp(found, name) == 0)
      return row;
  }
  return -1;
}
