#include "known.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define CAPACITY_FIRST 64
#define MULTIPLIER UINT64_C(0x9e3779b97f4a7c15) /* 2^64 / golden ratio */

void map_known_init(struct map_known *known, size_t key_size,
                    size_t values_len) {
  *known = (struct map_known){.key_size = key_size, .values_len = values_len};
  if (getrandom(&known->seed, sizeof(known->seed), GRND_NONBLOCK) < 0)
    known->seed = (uintptr_t)known;
}

void map_known_free(struct map_known *known) {
  free(known->list);
  free(known->keys);
  free(known->values);
  free(known->index);
  map_known_init(known, known->key_size, known->values_len);
}

/* ---------------------------------------------------------------------------
 * The index
 */

static uint64_t mix(uint64_t a, uint64_t b) {
  unsigned __int128 product = (unsigned __int128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static size_t hash(const struct map_known *known, const char *key) {
  uint64_t state = known->seed;
  for (size_t at = 0; at < known->key_size; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    size_t left = known->key_size - at;
    memcpy(&word, key + at, left < sizeof(word) ? left : sizeof(word));
    state = mix(state ^ word, MULTIPLIER ^ known->seed);
  }
  return (size_t)mix(state, MULTIPLIER) & (known->index_size - 1);
}

/* Returns the position of `key` in the index or, if the index lacks the key,
 * the free position where it must be inserted. */
static size_t place_of(const struct map_known *known, const void *key) {
  size_t at = hash(known, key);
  while (known->index[at] != 0 &&
         memcmp(map_known_key(known, known->index[at] - 1), key,
                known->key_size) != 0)
    at = (at + 1) & (known->index_size - 1);
  return at;
}

long map_known_find(const struct map_known *known, const void *key) {
  return known->index_size == 0 ? -1
                                : (long)known->index[place_of(known, key)] - 1;
}

static void index_all(struct map_known *known) {
  memset(known->index, 0, known->index_size * sizeof(*known->index));
  for (size_t i = 0; i < known->len; i++)
    known->index[place_of(known, map_known_key(known, i))] = (uint32_t)i + 1;
}

/* ---------------------------------------------------------------------------
 * Adding and removing
 */

static bool grow(struct map_known *known) {
  size_t capacity = known->capacity == 0 ? CAPACITY_FIRST : 2 * known->capacity;
  if (!array_resize(&known->list, capacity, sizeof(*known->list)) ||
      !array_resize(&known->keys, capacity, known->key_size) ||
      !array_resize(&known->values, capacity,
                    known->values_len * sizeof(*known->values)) ||
      !array_resize(&known->index, 2 * capacity, sizeof(*known->index)))
    return false;
  known->capacity = capacity;
  known->index_size = 2 * capacity;
  index_all(known);
  return true;
}

long map_known_add(struct map_known *known, const void *key) {
  if (known->len == known->capacity && !grow(known))
    return -1;
  size_t entry = known->len++;
  known->list[entry] = (struct map_entry){.row = MAP_NO_ROW, .is_new = true};
  memset(map_known_values(known, entry), 0,
         known->values_len * sizeof(*known->values));
  memcpy(map_known_key(known, entry), key, known->key_size);
  known->index[place_of(known, key)] = (uint32_t)entry + 1;
  return (long)entry;
}

void map_known_sweep(struct map_known *known,
                     bool (*is_gone)(void *context,
                                     const struct map_entry *entry),
                     void *context) {
  size_t before = known->len;
  for (size_t i = 0; i < known->len;) {
    if (!is_gone(context, &known->list[i])) {
      i++;
      continue;
    }
    size_t last = --known->len; /* takes the place of the entry */
    known->list[i] = known->list[last];
    memmove(map_known_key(known, i), map_known_key(known, last),
            known->key_size);
    memmove(map_known_values(known, i), map_known_values(known, last),
            known->values_len * sizeof(*known->values));
  }
  if (known->len < before)
    index_all(known);
}
