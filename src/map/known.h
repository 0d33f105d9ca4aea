/* known: the entries of a BPF map that have been read before, each with its row
 * and with the values that it had at the last reading. */
#ifndef PERCORE_MAP_KNOWN_H
#define PERCORE_MAP_KNOWN_H

#include "base/key_index.h"

#define MAP_NO_ROW 0

struct map_entry {
  uint32_t row;  /* row number in the region's table, or MAP_NO_ROW */
  uint32_t pass; /* number of the last pass that read the entry */
  bool is_new;   /* the entry has never had a row */
};

/* Grows as needed. Entries are numbered from 0 to len - 1; a
 * sweep changes their numbers. */
struct map_known {
  size_t key_size, values_len; /* values_len: 64-bit values of each entry */
  struct map_entry *list;
  char *keys;
  uint64_t *values;
  size_t len, capacity; /* capacity: the arrays have room for this many */
  struct key_index index;
};

void map_known_init(struct map_known *known, size_t key_size,
                    size_t values_len);
void map_known_free(struct map_known *known);

/* Returns the index of the entry with this key, or -1 if no entry has it. */
long map_known_find(const struct map_known *known, const void *key);

/* Adds an entry whose values are 0 and whose row is MAP_NO_ROW. No entry may
 * have this key yet. Returns the entry's number, or -1 if out of memory. */
long map_known_add(struct map_known *known, const void *key);

/* Removes every entry for which `is_gone` returns true. */
void map_known_sweep(struct map_known *known,
                     bool (*is_gone)(void *context,
                                     const struct map_entry *entry),
                     void *context);

static inline char *map_known_key(const struct map_known *known, size_t entry) {
  return known->keys + entry * known->key_size;
}

static inline uint64_t *map_known_values(const struct map_known *known,
                                         size_t entry) {
  return known->values + entry * known->values_len;
}

#endif
