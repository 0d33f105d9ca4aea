/* growth: what an entry counted between two readings. */
#ifndef PERCORE_MAP_GROWTH_H
#define PERCORE_MAP_GROWTH_H

#include "fields.h"

/* A field is not a counter once an entry fell suspiciously this often. */
#define MAP_FALLS_MAX 3

#define MAP_NO_FIELD SIZE_MAX

struct map_shape {
  const struct map_field *fields;
  size_t fields_len;
  uint32_t copies; /* copies of the value, stride bytes apart */
  size_t stride;
  bool is_array; /* entries are never deleted and added again */
};

/* Compares the values of an entry with those of the last reading (`last`,
 * copies x fields), writes how much each of them grew, and updates `last`.
 * Gauges grow and shrink. Counters of less than 64 bits wrap. If every counter
 * that was not 0 fell, the entry was replaced or reset: it counted what it
 * holds now.
 *
 * A fall is suspect if other counters of the entry did not fall, or, in arrays,
 * if a counter fell by less than half. A suspect fall counts nothing, and
 * *falls counts suspect falls. Returns a field that is not a counter: in arrays
 * at once if it fell alone, otherwise at the third suspect fall of the entry.
 * Returns MAP_NO_FIELD if there is no such field. */
size_t map_growth(const struct map_shape *shape, const void *values,
                  uint64_t *last, uint64_t *growth, uint8_t *falls);

#endif
