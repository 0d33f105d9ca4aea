/* growth: computes how much an entry's values grew between two readings. */
#ifndef PERCORE_MAP_GROWTH_H
#define PERCORE_MAP_GROWTH_H

#include "fields.h"

/* A counter is assumed to be a gauge once the number of its suspect decreases
 * exceeds the number of resets of whole copies by MAP_FALLS_MAX (struct
 * map_falls). */
#define MAP_FALLS_MAX 8

/* What the counters of a map did that counters should not do. */
struct map_falls {
  uint64_t whole; /* how often all counters of a copy decreased together,
                     because the copy was replaced or reset */
  uint64_t suspect[MAP_FIELDS_MAX]; /* how often it decreased otherwise */
  const struct map_field *fast;     /* a counter that once grew by more than a
                                       quarter of its range, so it may wrap
                                       unnoticed; NULL: none */
};

/* Compares the values of an entry with those of the last reading (`last`),
 * writes to `growth` how much each value grew, and updates `last`. Both arrays
 * have copies x fields elements. The growth of a gauge may be negative.
 * Counters of less than 64 bits may wrap.
 *
 * Each copy is compared separately. If all counters of a copy that were not 0
 * have decreased, the copy was replaced or reset, so its growth is its present
 * value. The entries of an array are never replaced, so in an array the
 * decrease is suspect if any counter lost less than half of its value; the
 * counters of the copy do not grow then. If only some counters of a copy have
 * decreased, these decreases are suspect, and the decreased counters do not
 * grow. Adds the resets, the suspect decreases and the fast counters to
 * `falls`; a counter that was 0 is not fast, because it may have grown for
 * long. */
void map_growth(const struct map *map, const struct map_fields *fields,
                const void *values, uint64_t *last, uint64_t *growth,
                struct map_falls *falls);

/* Returns how much a counter grew from `before` to `now`; 0 if it decreased. */
uint64_t map_step(const struct map_field *field, uint64_t before, uint64_t now);

#endif
