/* array: growable arrays on the heap. */
#ifndef PERCORE_BASE_ARRAY_H
#define PERCORE_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Resizes an array to `len` elements of `size` bytes each. `array` is the
 * address of the pointer to the elements. Returns false if out of memory; the
 * array is then unchanged. */
static inline bool array_resize(void *array, size_t len, size_t size) {
  void *elements;
  memcpy(&elements, array, sizeof(elements));
  elements = reallocarray(elements, len, size);
  if (elements != NULL)
    memcpy(array, &elements, sizeof(elements));
  return elements != NULL;
}

/* Like array_resize, but also sets all elements after the first old_len
 * elements to zero. A new array takes no time, and memory once it is written.
 */
static inline bool array_grow(void *array, size_t old_len, size_t len,
                              size_t size) {
  char *elements;
  if (old_len == 0) {
    memcpy(&elements, array, sizeof(elements));
    free(elements);
    elements = calloc(len, size);
    memcpy(array, &elements, sizeof(elements));
    return elements != NULL;
  }
  if (!array_resize(array, len, size))
    return false;
  memcpy(&elements, array, sizeof(elements));
  memset(elements + old_len * size, 0, (len - old_len) * size);
  return true;
}

/* Makes room for one more element in an array that contains `len` elements and
 * is allocated for *capacity elements. Doubles the capacity if necessary.
 * Returns false if out of memory; the array is then unchanged. */
static inline bool array_reserve(void *array, size_t len, size_t *capacity,
                                 size_t size) {
  if (len < *capacity)
    return true;
  size_t more = *capacity > 0 ? 2 * *capacity : 64;
  if (!array_resize(array, more, size))
    return false;
  *capacity = more;
  return true;
}

#endif
