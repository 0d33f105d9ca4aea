/* entries: a BPF map's entries as of its last reading, with their values. */
#ifndef PERCORE_MAP_ENTRIES_H
#define PERCORE_MAP_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAP_NO_ROW UINT32_MAX

struct map_entry {
  uint32_t row; /* row number in the region's table, or MAP_NO_ROW; in a removed
                   entry, the index of the next removed entry + 1, or 0 in
                   the last removed entry */
  uint32_t pass; /* number of the last pass that read the entry */
  bool used;
  bool is_new; /* the entry has never had a row */
};

/* A hash table that grows as needed. An entry keeps its number until it is
 * removed. */
struct map_entries {
  size_t key_size, values_len; /* values_len: 64-bit values of each entry */
  uint64_t seed; /* random, so that senders of network traffic cannot choose
                    keys whose hashes collide */
  struct map_entry *list;
  char *keys;
  uint64_t *values;
  /* `len` includes entries in use and removed entries; `capacity` is the number
   * of entries that the arrays have room for. */
  size_t len, capacity;
  size_t live;    /* entries in use */
  size_t removed; /* number of the first entry to reuse + 1; 0: none */
  /* Hash table with linear probing. Each element is an entry number + 1, or 0
   * if the element is free. */
  uint32_t *index;
  size_t index_size; /* a power of two */
};

void map_entries_init(struct map_entries *entries, size_t key_size,
                      size_t values_len);
void map_entries_free(struct map_entries *entries);

/* Returns the index of the entry with this key, or -1 if no entry has it. */
long map_entries_find(const struct map_entries *entries, const void *key);

/* Adds an entry whose values are 0 and whose row is MAP_NO_ROW. No entry may
 * have this key yet. Returns the entry's number, or -1 if out of memory. */
long map_entries_add(struct map_entries *entries, const void *key);

/* Removes every entry for which `is_gone` returns true. New entries reuse the
 * numbers of removed entries. */
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
