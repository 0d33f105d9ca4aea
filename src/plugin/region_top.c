#include "region_top.h"

#include <stdlib.h>

bool region_top_init(struct region_top *top, size_t max) {
  *top = (struct region_top){.max = max};
  top->heap = malloc((max > 0 ? max : 1) * sizeof(*top->heap));
  return top->heap != NULL;
}

void region_top_free(struct region_top *top) {
  free(top->heap);
  *top = (struct region_top){0};
}

static void swap(struct region_challenger *a, struct region_challenger *b) {
  struct region_challenger kept = *a;
  *a = *b;
  *b = kept;
}

static void sink(struct region_challenger *heap, size_t len) {
  for (size_t at = 0, least;; at = least) {
    least = at;
    for (size_t child = 2 * at + 1; child < 2 * at + 3 && child < len; child++)
      if (heap[child].weight < heap[least].weight)
        least = child;
    if (least == at)
      return;
    swap(&heap[at], &heap[least]);
  }
}

static void rise(struct region_challenger *heap, size_t at) {
  for (; at > 0 && heap[at].weight < heap[(at - 1) / 2].weight;
       at = (at - 1) / 2)
    swap(&heap[(at - 1) / 2], &heap[at]);
}

void region_top_offer(struct region_top *top,
                      const struct region_challenger *challenger) {
  if (top->len < top->max) {
    top->heap[top->len] = *challenger;
    rise(top->heap, top->len++);
  } else if (top->len > 0 && challenger->weight > top->heap[0].weight) {
    top->heap[0] = *challenger;
    sink(top->heap, top->len);
  }
}
