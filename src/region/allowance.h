/* allowance.h: limits how much memory a producer's region can make readers
 * allocate. Allowances nest: bytes used beyond `own` are also charged to the
 * parent, `whole`. Not thread-safe. */
#ifndef PERCORE_REGION_ALLOWANCE_H
#define PERCORE_REGION_ALLOWANCE_H

#include <stdbool.h>
#include <stddef.h>

struct region_allowance {
  struct region_allowance *whole; /* the parent; NULL if there is no parent */
  size_t own;
  size_t max, used;
};

static inline size_t
region_allowance_shared(const struct region_allowance *allowance, size_t used) {
  return used > allowance->own ? used - allowance->own : 0;
}

/* Takes `bytes` bytes from the allowance. If fewer bytes are left, takes none
 * and returns false. */
static inline bool region_allowance_take(struct region_allowance *allowance,
                                         size_t bytes) {
  if (bytes > allowance->max - allowance->used)
    return false;
  size_t used = allowance->used + bytes;
  if (allowance->whole != NULL &&
      !region_allowance_take(
          allowance->whole,
          region_allowance_shared(allowance, used) -
              region_allowance_shared(allowance, allowance->used)))
    return false;
  allowance->used = used;
  return true;
}

/* Returns how many more bytes can be taken. */
static inline size_t
region_allowance_left(const struct region_allowance *allowance) {
  size_t left = allowance->max - allowance->used;
  if (allowance->whole == NULL)
    return left;
  size_t own =
      allowance->used < allowance->own ? allowance->own - allowance->used : 0;
  size_t whole = own + region_allowance_left(allowance->whole);
  return whole < left ? whole : left;
}

static inline void region_allowance_give(struct region_allowance *allowance,
                                         size_t bytes) {
  size_t used = allowance->used - bytes;
  if (allowance->whole != NULL)
    region_allowance_give(allowance->whole,
                          region_allowance_shared(allowance, allowance->used) -
                              region_allowance_shared(allowance, used));
  allowance->used = used;
}

#endif
