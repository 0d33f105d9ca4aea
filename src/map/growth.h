/* growth: how much an entry counted between two readings. */
#ifndef PERCORE_MAP_GROWTH_H
#define PERCORE_MAP_GROWTH_H

#include "fields.h"

/* A field is taken for a gauge once the number of its decreases without the
 * other fields of an entry exceeds the number of decreases of whole entries by
 * MAP_FALLS_MAX. */
#define MAP_FALLS_MAX 8

/* How often the values of a map decreased. */
struct map_falls {
  uint64_t whole; /* how often all counters of a copy decreased together */
  uint64_t suspect[MAP_FIELDS_MAX];
};

/* Compares the values of an entry with those of the last reading (`last`,
 * copies x fields), writes how much each of them grew, and updates `last`. The
 * growth of a gauge may be negative. Counters of less than 64 bits wrap.
 *
 * Each copy is compared separately. If every counter of a copy that was not 0
 * decreased, the copy was replaced or reset, and has grown by its present
 * value. In arrays, where no entry is replaced, such a decrease is suspect if
 * any counter lost less than half of its value; nothing is counted then. If
 * only some counters of a copy decreased, these are suspect and do not grow. */
void map_growth(const struct map *map, const struct map_fields *fields,
                const void *values, uint64_t *last, uint64_t *growth,
                struct map_falls *falls);

/* Returns how much a counter grew from one value to the next; 0 if it
 * decreased. */
uint64_t map_step(const struct map_field *field, uint64_t before, uint64_t now);

#endif
