/* cells.h: loads cells, for readers and for the sums of a writer. */
#ifndef PERCORE_REGION_CELLS_H
#define PERCORE_REGION_CELLS_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t region_load(const uint64_t *word) {
  return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static inline uint64_t region_load_acquire(const uint64_t *word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Loads consecutive words. `end` is the end of the words that will be loaded
 * soon. */
void region_load_cells(const uint64_t *cells, size_t count, const uint64_t *end,
                       uint64_t *values);

#endif
