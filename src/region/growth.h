/* growth: what was in the cells of a table's rows when they were read last, so
 * that a reader knows what each row has counted since then. Counters never
 * decrease; a row that is used again goes on from its births. For the plugin
 * and the tool. Not thread-safe. */
#ifndef PERCORE_REGION_GROWTH_H
#define PERCORE_REGION_GROWTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct region_growth {
  uint32_t rows;          /* that are remembered: 0 to rows - 1 */
  uint32_t copies, width; /* of a row, and words in each copy */
  uint32_t *incarnations; /* of the object that each row had; 0: none */
  uint64_t *last;         /* [row][copy][word] */
};

static inline uint64_t *region_growth_last(const struct region_growth *growth,
                                           uint32_t row, uint32_t copy) {
  return growth->last + ((size_t)row * growth->copies + copy) * growth->width;
}

/* Returns how much memory a row takes. */
static inline size_t region_growth_of_row(const struct region_growth *growth) {
  return sizeof(*growth->incarnations) +
         (size_t)growth->copies * growth->width * sizeof(*growth->last);
}

/* Makes room for `rows` rows, not fewer than before; new ones are all 0.
 * Returns false if out of memory; nothing has changed then. */
bool region_growth_resize(struct region_growth *growth, uint32_t rows);

/* Keeps only the first copy of each row. */
void region_growth_forget_copies(struct region_growth *growth);

void region_growth_free(struct region_growth *growth);

enum region_grown { REGION_GREW, REGION_LEAPT, REGION_FELL };

/* Compares a counter with its last value. After growth of 2^63 or more, it may
 * also have fallen from a value beyond 2^63, so neither a fall nor a leap is a
 * count. */
static inline enum region_grown region_grown(uint64_t now, uint64_t last) {
  return (int64_t)(now - last) >= 0 ? REGION_GREW
         : now < last               ? REGION_FELL
                                    : REGION_LEAPT;
}

#endif
