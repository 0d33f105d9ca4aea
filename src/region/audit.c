#include "percore_config.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "audit.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "view.h"

/* The maximum number of waits for the producer in one audit, and the length of
 * each wait. */
enum { WAITS = 200, WAIT_NS = 1000000 };

struct state {
  const struct region_audit *audit;
  struct region_reader *reader;
  struct region_view *view;
  const struct region_directory *directory;
  int waits_left;
  /* For each rule: how many slots, rows or cells have broken it since the last
   * report, and a description of the first of them. */
  uint64_t count[REGION_RULE_COUNT];
  struct region_fault first[REGION_RULE_COUNT];
};

/* Counts a breach of a rule, and describes the first breach. */
#define FOUND(state, rule, ...)                                                \
  do {                                                                         \
    if ((state)->count[rule]++ == 0)                                           \
      region_breaks(&(state)->first[rule], rule, __VA_ARGS__);                 \
  } while (0)

/* Reports the rules that have been found broken since the last call. These
 * rules concern table t or, if t is -1, the header and the slots. */
static void report(struct state *state, int64_t t) {
  for (int rule = 0; rule < REGION_RULE_COUNT; rule++) {
    if (state->count[rule] == 0)
      continue;
    struct region_fault *fault = &state->first[rule];
    if (t >= 0)
      region_blame_table(fault, state->directory->described[t].name,
                         (uint32_t)t);
    state->audit->report(state->audit->context, fault, state->count[rule]);
    state->count[rule] = 0;
  }
}

/* Waits for WAIT_NS, so that the producer can finish a change. Returns false,
 * without waiting, if this audit has already waited WAITS times. */
static bool wait_a_little(struct state *state) {
  struct timespec pause = {.tv_nsec = WAIT_NS};
  if (state->waits_left == 0)
    return false;
  state->waits_left--;
  nanosleep(&pause, NULL);
  return true;
}

static bool stays_changing(struct state *state, const uint64_t *word) {
  uint64_t before = region_load(word);
  while (region_state(before) == REGION_CHANGING && region_load(word) == before)
    if (!wait_a_little(state))
      return true;
  return false;
}

static bool is_clean_text(const char *text, size_t length) {
  return utf8_has_no(text, length, utf8_is_deceptive);
}

/* ---------------------------------------------------------------------------
 * The region's id and start times
 */

static void check_start(struct state *state) {
  static const uint8_t zeros[16];
  const struct region_header *header = &state->directory->header;
  if (memcmp(header->region_id, zeros, sizeof(zeros)) == 0)
    FOUND(state, REGION_RULE_REGION_ID,
          "the region id is 0; it must be random, because readers take a "
          "region with the same id for the same region");
  uint64_t now_ns = clock_now_ns(CLOCK_BOOTTIME);
  if (header->start_realtime_ns == 0 || header->start_boottime_ns == 0)
    FOUND(state, REGION_RULE_START_TIMES,
          "a start time is 0; readers recognize a new producer by it");
  else if (state->audit->running && header->start_boottime_ns > now_ns)
    FOUND(state, REGION_RULE_START_TIMES,
          "its start time is %.3f s in the future by CLOCK_BOOTTIME",
          (double)(header->start_boottime_ns - now_ns) / 1e9);
}

/* ---------------------------------------------------------------------------
 * Slots
 */

/* The head of a free slot's block must be 0, because readers ignore counts in
 * free slots. */
static void check_free_slot(struct state *state, uint32_t s) {
  enum { WORDS = sizeof(struct percore_slot_head) / sizeof(uint64_t) };
  uint64_t block = region_view_block(state->view, s), known = 0;
  if (region_view_data(state->view, block, 8 * WORDS, &known) < 8 * WORDS)
    return;
  const uint64_t *words = region_view_words(state->view, block);
  for (uint32_t w = 0; w < WORDS; w++)
    if (region_load(&words[w]) != 0) {
      FOUND(state, REGION_RULE_FREE_SLOT,
            "slot %u is free, but the head of its block is not 0; readers "
            "ignore the counts of free slots",
            s);
      return;
    }
}

static void check_owner(struct state *state, uint32_t s,
                        const struct region_slot *slot) {
  const struct region_header *header = &state->directory->header;
  char name[sizeof(slot->name)];
  memcpy(name, slot->name, sizeof(name));
  if (region_incarnation(slot->generation) == 0)
    FOUND(state, REGION_RULE_SLOT_STATE,
          "slot %u has incarnation 0; owners are counted from 1", s);
  if (s < header->core_count && slot->core != (int32_t)s)
    FOUND(state, REGION_RULE_SLOT_CORE,
          "slot %u counts for core %d; it must be %u, its own number", s,
          slot->core, s);
  else if (slot->core < 0 || (uint32_t)slot->core >= header->core_count)
    FOUND(state, REGION_RULE_SLOT_CORE,
          "slot %u counts for core %d; cores are 0 to %u", s, slot->core,
          header->core_count - 1);
  bool owned = region_state(slot->generation) == REGION_LIVE;
  if (owned ? slot->tid <= 0 : slot->tid != 0)
    FOUND(state, REGION_RULE_SLOT_OWNER,
          owned ? "slot %u is live, but its tid is %d; it must be the owner's"
                : "slot %u was given back, but its tid is %d; it must be 0",
          s, slot->tid);
  size_t length = strnlen(name, sizeof(name));
  if (length == sizeof(name) || !is_clean_text(name, length))
    FOUND(state, REGION_RULE_SLOT_NAME,
          "slot %u: the thread's name must end with a NUL and be UTF-8 without "
          "control and format characters",
          s);
}

static void check_slot(struct state *state, uint32_t s) {
  const struct region_slot *slot = region_view_slot(state->view, s);
  struct region_slot copy;
  if (slot == NULL) {
    check_free_slot(state, s);
    return;
  }
  if (!region_view_copy_slot(slot, &copy)) {
    if (stays_changing(state, &slot->generation))
      FOUND(state, REGION_RULE_SLOT_STATE,
            "slot %u stays in state 1 (changing)", s);
    return;
  }
  if (region_state(copy.generation) != REGION_FREE)
    check_owner(state, s, &copy);
  else if (copy.generation != 0)
    FOUND(state, REGION_RULE_SLOT_STATE,
          "slot %u was used and is free again; a slot that was given back must "
          "have state 3",
          s);
  else
    check_free_slot(state, s);
}

/* ---------------------------------------------------------------------------
 * Rows
 */

static bool is_single(const struct region_table *table) {
  return (table->flags & REGION_TABLE_SINGLE) != 0;
}

/* True if rows of the table must not be removed, because their gauges and
 * states in the slots would remain. */
static bool keeps_rows(const struct state *state, uint32_t t) {
  const struct region_table *table = &state->directory->tables[t];
  return table->storage == PERCORE_PER_CORE && !is_single(table) &&
         !state->view->known[t].all_sums;
}

static void check_key(struct state *state, const struct region_table *table,
                      uint32_t row, uint64_t key) {
  uint64_t most = table->key == PERCORE_KEY_IPV4  ? UINT32_MAX
                  : table->key == PERCORE_KEY_MAC ? (UINT64_C(1) << 48) - 1
                                                  : UINT64_MAX;
  if (key > most)
    FOUND(state, REGION_RULE_ROW_LABEL,
          "row %u: key %#llx has more bits than its format can show", row,
          (unsigned long long)key);
}

static void check_name(struct state *state, const struct region_table *table,
                       uint32_t row, const char *name) {
  uint32_t size = table->row_name_size;
  size_t length = strnlen(name, size);
  bool padded = length > 0 && length < size;
  for (size_t i = length; padded && i < size; i++)
    padded = name[i] == '\0';
  if (!padded)
    FOUND(state, REGION_RULE_ROW_LABEL,
          "row %u: its name must have 1 to %u bytes and be padded with NULs to "
          "%u",
          row, size - 1, size);
  if (!is_clean_text(name, length))
    FOUND(state, REGION_RULE_ROW_TEXT,
          "row %u: its name must be UTF-8 without control and format "
          "characters; readers replace other characters",
          row);
}

static void check_label(struct state *state, uint32_t t, uint32_t row,
                        const uint64_t *generation, uint64_t before) {
  const struct region_table *table = &state->directory->tables[t];
  uint64_t words[REGION_LABEL_WORDS];
  (void)region_view_label(state->view, t, row, words);
  if (region_load(generation) != before)
    return;
  if (table->row_name_size == 0)
    check_key(state, table, row, words[0]);
  else
    check_name(state, table, row, (const char *)words);
}

static void check_object(struct state *state, uint32_t t, uint32_t row,
                         const uint64_t *generation, uint64_t word) {
  const struct region_table *table = &state->directory->tables[t];
  uint32_t incarnation = region_incarnation(word);
  bool gone = region_state(word) == REGION_GONE;
  if (incarnation == 0)
    FOUND(state, REGION_RULE_ROW_STATE,
          "row %u has incarnation 0; objects are counted from 1", row);
  if (table->birth_offset == 0 && incarnation > 1)
    FOUND(state, REGION_RULE_ROW_REUSED,
          "row %u has incarnation %u; in a table without births no row may be "
          "reused",
          row, incarnation);
  if (keeps_rows(state, t) && (gone || incarnation > 1))
    FOUND(state, REGION_RULE_ROW_REMOVED,
          "row %u was removed; rows of a PER_CORE table with gauges or states "
          "must not be removed",
          row);
  if (is_single(table) && (gone || incarnation > 1))
    FOUND(state, REGION_RULE_SINGLE_ROW,
          "its row was removed; it must be live from the start");
  if (!gone && !is_single(table))
    check_label(state, t, row, generation, word);
}

static void check_row(struct state *state, uint32_t t, uint32_t row,
                      const uint64_t *generation) {
  uint64_t word = region_load_acquire(generation);
  switch (region_state(word)) {
  case REGION_CHANGING:
    if (stays_changing(state, generation))
      FOUND(state, REGION_RULE_ROW_CHANGING,
            "row %u stays in state 1 (changing); readers skip it", row);
    return;
  case REGION_FREE:
    if (word != 0)
      FOUND(
          state, REGION_RULE_ROW_STATE,
          "row %u was used and is free again; a removed row must have state 3",
          row);
    return;
  default:
    check_object(state, t, row, generation, word);
  }
}

static uint64_t rows_in_use(struct state *state, uint32_t t) {
  const struct region_table_live *live = region_view_live(state->view, t);
  return live != NULL ? region_load_acquire(&live->rows_in_use) : 0;
}

/* Returns true if the row is not among the rows in use, even after a wait. The
 * wait is necessary because a running producer makes a row live a moment before
 * it increases rows_in_use. */
static bool stays_beyond(struct state *state, uint32_t t, uint32_t row) {
  while (rows_in_use(state, t) <= row)
    if (!wait_a_little(state))
      return true;
  return false;
}

static void check_rows(struct state *state, uint32_t t) {
  const struct region_table *table = &state->directory->tables[t];
  const uint64_t *generations = region_view_generations(state->view, t);
  uint64_t in_use = rows_in_use(state, t);
  uint32_t rows = region_view_generation_rows(state->view, t, table->max_rows);
  if (in_use > table->max_rows)
    FOUND(state, REGION_RULE_ROWS_IN_USE,
          "%llu rows are in use; there may be at most %u",
          (unsigned long long)in_use, table->max_rows);
  if (is_single(table) &&
      (in_use != 1 || rows == 0 ||
       region_state(region_load(generations)) == REGION_FREE))
    FOUND(
        state, REGION_RULE_SINGLE_ROW,
        "its row must be live from the start: rows in use must be 1 (they are "
        "%llu), and the generation word must have state 2 and incarnation 1",
        (unsigned long long)in_use);
  for (uint32_t row = 0; row < rows; row++) {
    if (row < in_use)
      check_row(state, t, row, &generations[row]);
    else if (region_load(&generations[row]) != 0 && stays_beyond(state, t, row))
      FOUND(state, REGION_RULE_ROW_BEYOND,
            "row %u is used, but only %llu rows are in use; readers do not see "
            "it",
            row, (unsigned long long)in_use);
  }
}

/* ---------------------------------------------------------------------------
 * Values
 */

/* True if a counter's value is lower than its base. Counters wrap at 2^64, so a
 * value that is lower by more than 2^63 has wrapped. */
static bool is_behind(uint64_t value, uint64_t base) {
  return base != 0 && value - base > INT64_MAX;
}

static void blame_field(struct state *state, enum region_rule rule, uint32_t t,
                        uint32_t f) {
  if (state->count[rule] == 1)
    region_blame_field(&state->first[rule],
                       state->directory->described[t].fields[f].name, f);
}

static void check_count(struct state *state, const struct region_tile *tile,
                        uint32_t i, uint32_t f, uint32_t column) {
  size_t at = (size_t)i * tile->columns + column;
  unsigned long long total = tile->totals[at], birth = tile->births[at],
                     reset = tile->resets[at];
  uint32_t row = tile->first_row + i;
  if (is_behind(total, birth)) {
    FOUND(state, REGION_RULE_BIRTH,
          "row %u: birth %llu is greater than the sum of its cells, %llu", row,
          birth, total);
    blame_field(state, REGION_RULE_BIRTH, tile->table, f);
  } else if (is_behind(total, reset) || is_behind(reset, birth)) {
    FOUND(state, REGION_RULE_RESET,
          "row %u: reset %llu is not between birth %llu and the sum of its "
          "cells, %llu",
          row, reset, birth, total);
    blame_field(state, REGION_RULE_RESET, tile->table, f);
  }
}

static void check_field(struct state *state, const struct region_tile *tile,
                        uint32_t i, uint32_t f) {
  const struct region_table *table = &state->directory->tables[tile->table];
  const struct region_field *field =
      &state->directory->fields[table->first_field + f];
  uint64_t value = tile->totals[(size_t)i * tile->columns + field->column];
  switch (field->kind) {
  case PERCORE_COUNTER:
  case PERCORE_HISTOGRAM:
    for (uint32_t c = 0; c < field->cells; c++)
      check_count(state, tile, i, f, field->column + c);
    return;
  case PERCORE_STATE:
    if (value >= field->state_count) {
      FOUND(state, REGION_RULE_STATE_VALUE,
            "row %u: state %llu has no name; the field has %u states",
            tile->first_row + i, (unsigned long long)value, field->state_count);
      blame_field(state, REGION_RULE_STATE_VALUE, tile->table, f);
    }
    return;
  default:
    return; /* up-down counters and gauges may have any value */
  }
}

static void check_values(struct state *state, uint32_t t) {
  const struct region_table *table = &state->directory->tables[t];
  struct region_tile tile;
  uint32_t capacity = REGION_TILE_CELLS / table->columns;
  if (region_tile_init(&tile, state->reader, t, capacity > 0 ? capacity : 1,
                       REGION_WANT_BIRTHS | REGION_WANT_RESETS) != 0) {
    state->count[REGION_NO_RULE]++;
    region_fails(&state->first[REGION_NO_RULE], errno,
                 "its values cannot be read");
    return;
  }
  for (uint32_t first = 0;; first += tile.rows) {
    region_tile_read(state->reader, &tile, first);
    if (tile.rows == 0)
      break;
    for (uint32_t i = 0; i < tile.rows; i++)
      for (uint32_t f = 0; f < table->field_count; f++)
        if (region_state(tile.generations[i]) == REGION_LIVE && !tile.torn[i])
          check_field(state, &tile, i, f);
  }
  region_tile_free(&tile);
}

void region_audit(struct region_reader *reader,
                  const struct region_audit *audit) {
  struct state state = {.audit = audit,
                        .reader = reader,
                        .view = &reader->view,
                        .directory = region_reader_directory(reader),
                        .waits_left = audit->running ? WAITS : 0};
  check_start(&state);
  for (uint32_t s = 0; s < region_reader_slots(reader); s++)
    check_slot(&state, s);
  report(&state, -1);
  for (uint32_t t = 0; t < state.directory->table_count; t++) {
    check_rows(&state, t);
    check_values(&state, t);
    report(&state, t);
  }
}
