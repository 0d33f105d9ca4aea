/* growth: how much an entry counted between two readings. */
#ifndef PERCORE_MAP_GROWTH_H
#define PERCORE_MAP_GROWTH_H

#include "fields.h"

/* A field is taken not to be a counter once it has fallen alone this many times
 * more often than whole entries have fallen. */
#define MAP_FALLS_MAX 8

/* How often values of a map fell. */
struct map_falls {
  uint64_t whole; /* all counters of a copy together */
  uint64_t suspect[MAP_FIELDS_MAX];
};

/* Compares the values of an entry with those of the last reading (`last`,
 * copies x fields), writes how much each of them grew, and updates `last`.
 * Gauges grow and shrink. Counters of less than 64 bits wrap.
 *
 * Each copy is judged by itself. If every counter of a copy that was not 0
 * fell, the copy was replaced or reset: it counted what it holds now. In
 * arrays, where nothing is replaced, such a fall is suspect if a counter fell
 * by less than half, and nothing is counted. If some counters fell and others
 * did not, those that fell are suspect and count nothing. */
void map_growth(const struct map *map, const struct map_fields *fields,
                const void *values, uint64_t *last, uint64_t *growth,
                struct map_falls *falls);

/* How much a counter grew from one value to the next; 0 if it fell. */
uint64_t map_step(const struct map_field *field, uint64_t before, uint64_t now);

#endif
