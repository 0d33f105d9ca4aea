/* growth: computes how much an entry's values grew between two readings. */
#ifndef PERCORE_MAP_GROWTH_H
#define PERCORE_MAP_GROWTH_H

#include "fields.h"

/* Compares the values of an entry with those of the last reading (`last`),
 * writes to `growth` how much each value grew, and updates `last`. Both arrays
 * have copies x fields elements. The growth of a gauge may be negative.
 * Counters of less than 64 bits may wrap. Returns a counter that grew by more
 * than a quarter of its range, so it may wrap unnoticed, or NULL.
 *
 * Each copy is compared separately. If all counters of a copy that were not 0
 * have decreased, the copy was replaced or reset, so its growth is its present
 * value. The entries of an array are never replaced, so if any counter of an
 * array's copy lost less than half of its value then, the counters of the copy
 * do not grow. If only some counters of a copy have decreased, these do not
 * grow. */
const struct map_field *map_growth(const struct map *map,
                                   const struct map_fields *fields,
                                   const void *values, uint64_t *last,
                                   uint64_t *growth);

/* Returns how much a counter grew from `before` to `now`; 0 if it decreased. */
uint64_t map_step(const struct map_field *field, uint64_t before, uint64_t now);

#endif
