/* grow.h: arrays that grow. */
#ifndef PERCORE_BASE_GROW_H
#define PERCORE_BASE_GROW_H

#include <stdlib.h>

/* Makes room for another element of `size` bytes. Returns the array, which may
 * have moved, or NULL if out of memory; then the array stays as it is. */
static inline void *grow_array(void *array, size_t len, size_t *capacity,
                               size_t size) {
  if (len < *capacity)
    return array;
  size_t more = *capacity > 0 ? 2 * *capacity : 64;
  void *grown = realloc(array, more * size);
  if (grown != NULL)
    *capacity = more;
  return grown;
}

#endif
