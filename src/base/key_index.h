/* key_index: a hash table that finds numbers by their keys. The keys stay with
 * their owner. The hash is seeded: keys may come from other programs, or from
 * senders of network traffic, who could otherwise choose keys that collide. */
#ifndef PERCORE_BASE_KEY_INDEX_H
#define PERCORE_BASE_KEY_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct key_index {
  const void *keys; /* an array with the key of each number, or `names` */
  size_t size;      /* of a key, in bytes; 0: keys are strings */
  const char *(*name_of)(const void *names, uint32_t number);
  uint64_t seed;
  uint32_t *cells; /* number + 1; 0 if empty */
  uint32_t mask;
  uint32_t count;
};

/* For keys of `size` bytes. If their array moves, set `keys` again. */
void key_index_init(struct key_index *index, const void *keys, size_t size);

/* For keys that are strings, which name_of returns. */
void key_index_init_names(struct key_index *index, const void *names,
                          const char *(*name_of)(const void *names,
                                                 uint32_t number));

void key_index_free(struct key_index *index);

/* Finds the number that has this key. Returns false if no number has it. */
bool key_index_find(const struct key_index *index, const void *key,
                    uint32_t *number);

/* Makes room for one more number. Returns false with ENOMEM. */
bool key_index_reserve(struct key_index *index);

/* Adds a number, whose key no other number may have. Call key_index_reserve
 * first. */
void key_index_add(struct key_index *index, uint32_t number);

/* Removes a number; call this before its key changes. Does nothing if the
 * number is not in the index. */
void key_index_remove(struct key_index *index, uint32_t number);

/* Removes all numbers, and adds 0 to count - 1. There must have been at least
 * as many before. */
void key_index_renumber(struct key_index *index, uint32_t count);

#endif
