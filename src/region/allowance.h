/* allowance.h: limits what one region may take of something that all regions
 * share: memory, or values. A region may always take `own`. Beyond that, it may
 * never have taken more than it leaves for others. Not thread-safe. */
#ifndef PERCORE_REGION_ALLOWANCE_H
#define PERCORE_REGION_ALLOWANCE_H

#include <stdbool.h>
#include <stddef.h>

struct region_pool {
  size_t max, used, own;
};

struct region_allowance {
  struct region_pool *pool;
  size_t used;
};

/* Returns how much more can be taken. */
static inline size_t
region_allowance_left(const struct region_allowance *allowance) {
  const struct region_pool *pool = allowance->pool;
  size_t used = allowance->used;
  size_t own = used < pool->own ? pool->own - used : 0;
  size_t all = pool->used < pool->max ? pool->max - pool->used : 0;
  size_t fair = used < all ? (all - used) / 2 : 0;
  return own > fair ? own : fair;
}

/* Takes `amount`. If less is left, takes nothing and returns false. */
static inline bool region_allowance_take(struct region_allowance *allowance,
                                         size_t amount) {
  if (amount > region_allowance_left(allowance))
    return false;
  allowance->used += amount;
  allowance->pool->used += amount;
  return true;
}

static inline void region_allowance_give(struct region_allowance *allowance,
                                         size_t amount) {
  allowance->used -= amount;
  allowance->pool->used -= amount;
}

#endif
