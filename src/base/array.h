/* array: arrays on the heap that grow. */
#ifndef PERCORE_BASE_ARRAY_H
#define PERCORE_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Gives an array room for `len` elements of `size` bytes. `array` is the
 * address of the pointer to it. Returns false, and changes nothing, if out of
 * memory. */
static inline bool array_resize(void *array, size_t len, size_t size) {
  void *elements;
  memcpy(&elements, array, sizeof(elements));
  elements = reallocarray(elements, len, size);
  if (elements != NULL)
    memcpy(array, &elements, sizeof(elements));
  return elements != NULL;
}

/* The same; the elements from old_len on become zero. */
static inline bool array_grow(void *array, size_t old_len, size_t len,
                              size_t size) {
  char *elements;
  if (!array_resize(array, len, size))
    return false;
  memcpy(&elements, array, sizeof(elements));
  memset(elements + old_len * size, 0, (len - old_len) * size);
  return true;
}

/* Gives an array of *capacity elements, of which `len` are in use, room for
 * another element, by doubling the capacity. Returns as array_resize does. */
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
