/* sized: structs of callers whose first member is their size, so that newer
 * versions can have more members. */
#ifndef PERCORE_BASE_SIZED_H
#define PERCORE_BASE_SIZED_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { SIZED_MOST = 4096 }; /* a larger size has not been set */
#define SIZED_NEWER                                                            \
  "a member is set that this version of libpercore does not have: install a "  \
  "newer one"

/* Copies the members that the caller's version has; the others keep their
 * values. Returns false if the caller has set a member that is not known here.
 */
static inline bool sized_take(void *into, size_t size, const void *given,
                              size_t given_size) {
  memcpy(into, given, given_size < size ? given_size : size);
  for (size_t i = size; i < given_size; i++)
    if (((const unsigned char *)given)[i] != 0)
      return false;
  return true;
}

/* Does this for a struct whose first member is its size. NULL has no members.
 * Also returns false if the size is not set. */
static inline bool sized_copy(void *into, size_t size, const void *given) {
  size_t given_size = 0;
  if (given == NULL)
    return true;
  memcpy(&given_size, given, sizeof(given_size));
  return given_size >= sizeof(given_size) && given_size <= SIZED_MOST &&
         sized_take(into, size, given, given_size);
}

#endif
