#include "known.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

#define CAPACITY_FIRST 64

void map_known_init(struct map_known *known, size_t key_size,
                    size_t values_len) {
  *known = (struct map_known){.key_size = key_size, .values_len = values_len};
  key_index_init(&known->index, NULL, key_size);
}

void map_known_free(struct map_known *known) {
  free(known->list);
  free(known->keys);
  free(known->values);
  key_index_free(&known->index);
  map_known_init(known, known->key_size, known->values_len);
}

long map_known_find(const struct map_known *known, const void *key) {
  uint32_t entry;
  return key_index_find(&known->index, key, &entry) ? (long)entry : -1;
}

/* ---------------------------------------------------------------------------
 * Adding and removing
 */

static bool grow(struct map_known *known) {
  size_t capacity = known->capacity == 0 ? CAPACITY_FIRST : 2 * known->capacity;
  bool has_grown = array_resize(&known->list, capacity, sizeof(*known->list)) &&
                   array_resize(&known->keys, capacity, known->key_size) &&
                   array_resize(&known->values, capacity,
                                known->values_len * sizeof(*known->values));
  known->index.keys = known->keys;
  if (has_grown)
    known->capacity = capacity;
  return has_grown;
}

long map_known_add(struct map_known *known, const void *key) {
  if ((known->len == known->capacity && !grow(known)) ||
      !key_index_reserve(&known->index))
    return -1;
  size_t entry = known->len++;
  known->list[entry] = (struct map_entry){.row = MAP_NO_ROW, .is_new = true};
  memset(map_known_values(known, entry), 0,
         known->values_len * sizeof(*known->values));
  memcpy(map_known_key(known, entry), key, known->key_size);
  key_index_add(&known->index, (uint32_t)entry);
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
    key_index_renumber(&known->index, (uint32_t)known->len);
}
