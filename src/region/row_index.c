/* row_index.c: a hash table with linear probing, at most half full. A removal
 * moves later rows into the gap, so no markers for deleted rows are needed. */
#include "percore_config.h"

#include <stdlib.h>
#include <string.h>

#include "row_index.h"

static const unsigned char *name_of(const struct row_index *index,
                                    uint32_t row) {
  return index->names + (size_t)row * index->size;
}

static uint32_t hash(const unsigned char *name, size_t size) {
  uint64_t h = size;
  for (size_t i = 0; i < size; i += 8) {
    uint64_t word;
    memcpy(&word, name + i, 8);
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
  }
  return (uint32_t)h;
}

void row_index_init(struct row_index *index, const void *names, size_t size) {
  *index = (struct row_index){.names = names, .size = size};
}

void row_index_free(struct row_index *index) {
  free(index->cells);
  index->cells = NULL;
}

bool row_index_find(const struct row_index *index, const void *name,
                    uint32_t *row) {
  if (index->cells == NULL)
    return false;
  uint32_t at = hash(name, index->size) & index->mask;
  for (; index->cells[at] != 0; at = (at + 1) & index->mask)
    if (memcmp(name_of(index, index->cells[at] - 1), name, index->size) == 0) {
      *row = index->cells[at] - 1;
      return true;
    }
  return false;
}

static void put(struct row_index *index, uint32_t row) {
  uint32_t at = hash(name_of(index, row), index->size) & index->mask;
  while (index->cells[at] != 0)
    at = (at + 1) & index->mask;
  index->cells[at] = row + 1;
}

int row_index_reserve(struct row_index *index) {
  size_t size = index->cells != NULL ? (size_t)index->mask + 1 : 0;
  if (index->count < size / 2)
    return 0;
  struct row_index larger = *index;
  size_t larger_size = size != 0 ? size * 2 : 64;
  larger.cells = calloc(larger_size, sizeof(*larger.cells));
  if (larger.cells == NULL)
    return -1;
  larger.mask = (uint32_t)(larger_size - 1);
  for (size_t i = 0; i < size; i++)
    if (index->cells[i] != 0)
      put(&larger, index->cells[i] - 1);
  free(index->cells);
  *index = larger;
  return 0;
}

void row_index_add(struct row_index *index, uint32_t row) {
  put(index, row);
  index->count++;
}

void row_index_remove(struct row_index *index, uint32_t row) {
  if (index->cells == NULL)
    return;
  uint32_t hole = hash(name_of(index, row), index->size) & index->mask;
  while (index->cells[hole] != row + 1) {
    if (index->cells[hole] == 0)
      return;
    hole = (hole + 1) & index->mask;
  }
  index->count--;
  for (uint32_t at = (hole + 1) & index->mask; index->cells[at] != 0;
       at = (at + 1) & index->mask) {
    uint32_t home =
        hash(name_of(index, index->cells[at] - 1), index->size) & index->mask;
    /* A row may move to the hole unless its home, the cell that its hash
     * selects, is after the hole. */
    if (((at - home) & index->mask) >= ((at - hole) & index->mask)) {
      index->cells[hole] = index->cells[at];
      hole = at;
    }
  }
  index->cells[hole] = 0;
}
