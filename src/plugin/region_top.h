/* region_top: the greatest of many, in a heap whose root is the least of them.
 */
#ifndef PERCORE_PLUGIN_REGION_TOP_H
#define PERCORE_PLUGIN_REGION_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct region_top_entry {
  int64_t weight;
  bool shown; /* among equals those stay that were shown before */
  uint32_t item;
};

#define REGION_TOP_NONE UINT32_MAX

struct region_top {
  struct region_top_entry *heap;
  size_t len, most;
};

/* False if out of memory. */
bool region_top_init(struct region_top *top, size_t most);
void region_top_free(struct region_top *top);

/* Whether an entry would be kept. */
bool region_top_wants(const struct region_top *top, int64_t weight, bool shown);

/* Keeps an entry that is wanted. Returns the item that had to go for it, or
 * REGION_TOP_NONE. */
uint32_t region_top_keep(struct region_top *top, int64_t weight, bool shown,
                         uint32_t item);

#endif
