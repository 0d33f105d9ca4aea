#include "region_top.h"

#include <stdlib.h>

bool region_top_init(struct region_top *top, size_t most) {
  *top = (struct region_top){.most = most};
  top->heap = malloc((most > 0 ? most : 1) * sizeof(*top->heap));
  return top->heap != NULL;
}

void region_top_free(struct region_top *top) {
  free(top->heap);
  *top = (struct region_top){0};
}

static bool ranks_before(const struct region_top_entry *a,
                         const struct region_top_entry *b) {
  return a->weight != b->weight ? a->weight > b->weight : a->shown && !b->shown;
}

static void swap(struct region_top_entry *a, struct region_top_entry *b) {
  struct region_top_entry kept = *a;
  *a = *b;
  *b = kept;
}

static void sink(struct region_top_entry *heap, size_t len) {
  for (size_t at = 0, least;; at = least) {
    least = at;
    for (size_t child = 2 * at + 1; child < 2 * at + 3 && child < len; child++)
      if (ranks_before(&heap[least], &heap[child]))
        least = child;
    if (least == at)
      return;
    swap(&heap[at], &heap[least]);
  }
}

static void rise(struct region_top_entry *heap, size_t at) {
  for (; at > 0 && ranks_before(&heap[(at - 1) / 2], &heap[at]);
       at = (at - 1) / 2)
    swap(&heap[(at - 1) / 2], &heap[at]);
}

bool region_top_wants(const struct region_top *top, int64_t weight,
                      bool shown) {
  struct region_top_entry entry = {.weight = weight, .shown = shown};
  return top->len < top->most ||
         (top->len > 0 && ranks_before(&entry, &top->heap[0]));
}

uint32_t region_top_keep(struct region_top *top, int64_t weight, bool shown,
                         uint32_t item) {
  struct region_top_entry entry = {weight, shown, item};
  if (top->len < top->most) {
    top->heap[top->len] = entry;
    rise(top->heap, top->len++);
    return REGION_TOP_NONE;
  }
  uint32_t gone = top->heap[0].item;
  top->heap[0] = entry;
  sink(top->heap, top->len);
  return gone;
}
