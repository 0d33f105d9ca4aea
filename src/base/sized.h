/* sized: structs of callers whose first member is their size, so that newer
 * versions can have more members. */
#ifndef PERCORE_BASE_SIZED_H
#define PERCORE_BASE_SIZED_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Copies the members that the caller's version has; the others keep their
 * values. NULL has no members. Returns false if the size is not set. */
static inline bool sized_copy(void *into, size_t size, const void *given) {
  size_t given_size = 0;
  if (given == NULL)
    return true;
  memcpy(&given_size, given, sizeof(given_size));
  memcpy(into, given, given_size < size ? given_size : size);
  return given_size >= sizeof(given_size);
}

#endif
