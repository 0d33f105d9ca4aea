/* Linear probing in a table that is at most half full. A removal moves later
 * numbers into the gap, so no marks of removed numbers are needed. */
#include "percore_config.h"

#include "key_index.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define MULTIPLIER UINT64_C(0x9e3779b97f4a7c15) /* 2^64 / golden ratio */

void key_index_init(struct key_index *index, const void *keys, size_t size) {
  *index = (struct key_index){.keys = keys, .size = size};
  if (getrandom(&index->seed, sizeof(index->seed), GRND_NONBLOCK) < 0)
    index->seed = (uintptr_t)index;
}

void key_index_init_names(struct key_index *index, const void *names,
                          const char *(*name_of)(const void *names,
                                                 uint32_t number)) {
  key_index_init(index, names, 0);
  index->name_of = name_of;
}

void key_index_free(struct key_index *index) {
  free(index->cells);
  index->cells = NULL;
  index->count = 0;
}

static uint64_t mix(uint64_t a, uint64_t b) {
  unsigned __int128 product = (unsigned __int128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Returns the cell where the search for a key begins. */
static uint32_t home_of(const struct key_index *index, const char *key) {
  size_t left = index->size > 0 ? index->size : strlen(key);
  uint64_t state = index->seed ^ left, word;
  for (; left >= sizeof(word); left -= sizeof(word), key += sizeof(word)) {
    memcpy(&word, key, sizeof(word));
    state = mix(state ^ word, MULTIPLIER ^ index->seed);
  }
  word = 0;
  memcpy(&word, key, left);
  return (uint32_t)mix(state ^ word, MULTIPLIER) & index->mask;
}

static const char *key_of(const struct key_index *index, uint32_t number) {
  return index->size > 0
             ? (const char *)index->keys + (size_t)number * index->size
             : index->name_of(index->keys, number);
}

static const char *key_at(const struct key_index *index, uint32_t at) {
  return key_of(index, index->cells[at] - 1);
}

bool key_index_find(const struct key_index *index, const void *key,
                    uint32_t *number) {
  if (index->cells == NULL)
    return false;
  uint32_t at = home_of(index, key);
  for (; index->cells[at] != 0; at = (at + 1) & index->mask)
    if (index->size > 0 ? memcmp(key_at(index, at), key, index->size) == 0
                        : strcmp(key_at(index, at), key) == 0) {
      *number = index->cells[at] - 1;
      return true;
    }
  return false;
}

void key_index_add(struct key_index *index, uint32_t number) {
  uint32_t at = home_of(index, key_of(index, number));
  while (index->cells[at] != 0)
    at = (at + 1) & index->mask;
  index->cells[at] = number + 1;
  index->count++;
}

bool key_index_reserve(struct key_index *index) {
  size_t size = index->cells != NULL ? (size_t)index->mask + 1 : 0;
  if (index->count < size / 2)
    return true;
  struct key_index larger = *index;
  size_t larger_size = size != 0 ? size * 2 : 64;
  larger.cells = calloc(larger_size, sizeof(*larger.cells));
  if (larger.cells == NULL)
    return false;
  larger.mask = (uint32_t)(larger_size - 1);
  larger.count = 0;
  for (size_t i = 0; i < size; i++)
    if (index->cells[i] != 0)
      key_index_add(&larger, index->cells[i] - 1);
  free(index->cells);
  *index = larger;
  return true;
}

void key_index_remove(struct key_index *index, uint32_t number) {
  if (index->cells == NULL)
    return;
  uint32_t hole = home_of(index, key_of(index, number));
  while (index->cells[hole] != number + 1) {
    if (index->cells[hole] == 0)
      return;
    hole = (hole + 1) & index->mask;
  }
  index->count--;
  for (uint32_t at = (hole + 1) & index->mask; index->cells[at] != 0;
       at = (at + 1) & index->mask) {
    uint32_t home = home_of(index, key_at(index, at));
    /* A number may move to the hole unless its home is after the hole. */
    if (((at - home) & index->mask) >= ((at - hole) & index->mask)) {
      index->cells[hole] = index->cells[at];
      hole = at;
    }
  }
  index->cells[hole] = 0;
}

void key_index_renumber(struct key_index *index, uint32_t count) {
  if (index->cells != NULL)
    memset(index->cells, 0, ((size_t)index->mask + 1) * sizeof(*index->cells));
  index->count = 0;
  for (uint32_t number = 0; number < count; number++)
    key_index_add(index, number);
}
