#include "entries.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define CAPACITY_FIRST 64
#define MULTIPLIER UINT64_C(0x9e3779b97f4a7c15) /* 2^64 / golden ratio */

void map_entries_init(struct map_entries *entries, size_t key_size,
                      size_t values_len) {
  *entries =
      (struct map_entries){.key_size = key_size, .values_len = values_len};
  if (getrandom(&entries->seed, sizeof(entries->seed), GRND_NONBLOCK) < 0)
    entries->seed = (uintptr_t)entries;
}

void map_entries_free(struct map_entries *entries) {
  free(entries->list);
  free(entries->keys);
  free(entries->values);
  free(entries->index);
  map_entries_init(entries, entries->key_size, entries->values_len);
}

/* ---------------------------------------------------------------------------
 * The index
 */

static uint64_t mix(uint64_t a, uint64_t b) {
  unsigned __int128 product = (unsigned __int128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static size_t hash(const struct map_entries *entries, const char *key) {
  uint64_t state = entries->seed;
  for (size_t at = 0; at < entries->key_size; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    size_t left = entries->key_size - at;
    memcpy(&word, key + at, left < sizeof(word) ? left : sizeof(word));
    state = mix(state ^ word, MULTIPLIER ^ entries->seed);
  }
  return (size_t)mix(state, MULTIPLIER) & (entries->index_size - 1);
}

/* Returns the position of `key` in the index or, if the index lacks the key,
 * the free position where it must be inserted. */
static size_t place_of(const struct map_entries *entries, const void *key) {
  size_t at = hash(entries, key);
  while (entries->index[at] != 0 &&
         memcmp(map_entries_key(entries, entries->index[at] - 1), key,
                entries->key_size) != 0)
    at = (at + 1) & (entries->index_size - 1);
  return at;
}

long map_entries_find(const struct map_entries *entries, const void *key) {
  return entries->index_size == 0
             ? -1
             : (long)entries->index[place_of(entries, key)] - 1;
}

static void index_all(struct map_entries *entries) {
  memset(entries->index, 0, entries->index_size * sizeof(*entries->index));
  for (size_t i = 0; i < entries->len; i++)
    if (entries->list[i].used)
      entries->index[place_of(entries, map_entries_key(entries, i))] =
          (uint32_t)i + 1;
}

/* ---------------------------------------------------------------------------
 * Adding and removing
 */

static bool grow(struct map_entries *entries) {
  size_t capacity =
      entries->capacity == 0 ? CAPACITY_FIRST : 2 * entries->capacity;
  if (!array_resize(&entries->list, capacity, sizeof(*entries->list)) ||
      !array_resize(&entries->keys, capacity, entries->key_size) ||
      !array_resize(&entries->values, capacity,
                    entries->values_len * sizeof(*entries->values)) ||
      !array_resize(&entries->index, 2 * capacity, sizeof(*entries->index)))
    return false;
  entries->capacity = capacity;
  entries->index_size = 2 * capacity;
  index_all(entries);
  return true;
}

long map_entries_add(struct map_entries *entries, const void *key) {
  size_t entry = entries->removed;
  if (entry > 0) {
    entries->removed = entries->list[--entry].row;
  } else {
    if (entries->len == entries->capacity && !grow(entries))
      return -1;
    entry = entries->len++;
  }
  entries->live++;
  entries->list[entry] =
      (struct map_entry){.row = MAP_NO_ROW, .used = true, .is_new = true};
  memset(map_entries_values(entries, entry), 0,
         entries->values_len * sizeof(*entries->values));
  memcpy(entries->keys + entry * entries->key_size, key, entries->key_size);
  entries->index[place_of(entries, key)] = (uint32_t)entry + 1;
  return (long)entry;
}

void map_entries_sweep(struct map_entries *entries,
                       bool (*is_gone)(void *context,
                                       const struct map_entry *entry),
                       void *context) {
  bool any = false;
  for (size_t i = 0; i < entries->len; i++) {
    struct map_entry *entry = &entries->list[i];
    if (!entry->used || !is_gone(context, entry))
      continue;
    *entry = (struct map_entry){.row = (uint32_t)entries->removed};
    entries->removed = i + 1;
    entries->live--;
    any = true;
  }
  if (any)
    index_all(entries);
}
