/* growth: what an entry counted between two looks. */
#ifndef PERCORE_MAP_GROWTH_H
#define PERCORE_MAP_GROWTH_H

#include "fields.h"

/* An entry that falls this often is no counter. */
#define MAP_FALLS_MAX 3

#define MAP_NO_FIELD SIZE_MAX

struct map_shape {
  const struct map_field *fields;
  size_t fields_len;
  uint32_t copies; /* of the value, stride bytes apart */
  size_t stride;
  bool is_array; /* entries are never created again */
};

/* Compares an entry with its values at the last look, copies x fields, which
 * become those of now, and writes how much each of them grew. Gauges grow and
 * shrink. Counters of less than 64 bits wrap. If all counters of an entry fell
 * (those that were not 0), another entry took its place, or it was reset: it
 * counted what it now holds.
 *
 * Returns the field that is no counter, because it fell while others did not
 * (in arrays at once, else the third time in one entry), or because an array
 * fell the third time by less than half; else MAP_NO_FIELD. Such a fall counts
 * nothing. *falls counts them. */
size_t map_growth(const struct map_shape *shape, const void *values,
                  uint64_t *last, uint64_t *growth, uint8_t *falls);

#endif
