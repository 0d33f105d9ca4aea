/* entries: the entries of a map as last read, and their values. */
#ifndef PERCORE_MAP_ENTRIES_H
#define PERCORE_MAP_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAP_NO_ROW UINT32_MAX

struct map_entry {
  uint32_t row; /* row in the region's table, or MAP_NO_ROW; of a removed entry:
                   the next removed entry */
  uint32_t pass; /* number of the pass that last read it */
  bool used;
};

/* Grows as needed; entries keep their numbers until they are removed. */
struct map_entries {
  size_t key_size, values_len; /* 64-bit values kept of each entry */
  uint64_t seed;               /* random: keys may come from the network */
  struct map_entry *list;
  char *keys;
  uint64_t *values;
  size_t len, capacity; /* entries in use or removed; allocated */
  size_t live;          /* entries in use */
  size_t removed;       /* first entry to reuse, plus 1; 0: none */
  uint32_t *index;   /* entry number + 1, hashed with linear probing; 0: free */
  size_t index_size; /* a power of two */
};

void map_entries_init(struct map_entries *entries, size_t key_size,
                      size_t values_len);
void map_entries_free(struct map_entries *entries);

/* The number of the entry with this key, or -1. */
long map_entries_find(const struct map_entries *entries, const void *key);

/* Adds an entry with values of 0 and MAP_NO_ROW. The key must be new. Returns
 * its number, or -1 if out of memory. */
long map_entries_add(struct map_entries *entries, const void *key);

/* Removes every entry for which `is_gone` returns true. Their numbers are
 * reused. */
void map_entries_sweep(struct map_entries *entries,
                       bool (*is_gone)(void *context,
                                       const struct map_entry *entry),
                       void *context);

static inline const void *map_entries_key(const struct map_entries *entries,
                                          size_t entry) {
  return entries->keys + entry * entries->key_size;
}

static inline uint64_t *map_entries_values(const struct map_entries *entries,
                                           size_t entry) {
  return entries->values + entry * entries->values_len;
}

#endif
