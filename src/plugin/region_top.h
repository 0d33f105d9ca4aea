/* region_top: the rows of a table that want to be shown: of many that are
 * offered the greatest are kept, in a heap whose root is the least of them. */
#ifndef PERCORE_PLUGIN_REGION_TOP_H
#define PERCORE_PLUGIN_REGION_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct region_challenger {
  int64_t weight;
  uint64_t generation;
  uint32_t row;
  bool again; /* it was one in the pass before, too */
};

struct region_top {
  struct region_challenger *heap;
  size_t len, max;
};

/* Weights are foreign: their sum stays within what a weight can be. */
static inline int64_t region_weights_add(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum))
    return b < 0 ? INT64_MIN : INT64_MAX;
  return sum;
}

/* False if out of memory. */
bool region_top_init(struct region_top *top, size_t max);
void region_top_free(struct region_top *top);

/* Among equals those that were offered first stay. */
void region_top_offer(struct region_top *top,
                      const struct region_challenger *challenger);

#endif
