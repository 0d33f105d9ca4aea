/* growth: how much an entry counted between two readings. */
#ifndef PERCORE_MAP_GROWTH_H
#define PERCORE_MAP_GROWTH_H

#include "fields.h"

/* After this many suspect falls in one entry, a field is no counter. */
#define MAP_FALLS_MAX 3

#define MAP_NO_FIELD SIZE_MAX

struct map_shape {
  const struct map_field *fields;
  size_t fields_len;
  uint32_t copies; /* number of copies of the value, stride bytes apart */
  size_t stride;
  bool is_array; /* if true, entries are never deleted and added again */
};

/* Compares the values of an entry with those of the last reading (`last`,
 * copies x fields), writes how much each value grew, and updates `last`. Gauges
 * may grow or shrink. Counters of less than 64 bits wrap. If every counter that
 * was not 0 decreased, the entry was replaced or reset, and its growth is what
 * it holds now.
 *
 * A decrease is suspect if other counters of the entry did not decrease or, in
 * arrays, if a counter lost less than half of its value. The growth is then 0,
 * and *falls is incremented. Returns a field that is proven not to be a
 * counter: in arrays at once if that field alone decreased, otherwise at the
 * third suspect decrease in the entry. Returns MAP_NO_FIELD if no field is. */
size_t map_growth(const struct map_shape *shape, const void *values,
                  uint64_t *last, uint64_t *growth, uint8_t *falls);

#endif
