#include "growth.h"

static uint64_t mask_of(const struct map_field *field) {
  return UINT64_MAX >> (64 - 8 * field->size);
}

/* True if the counter decreased. A counter of less than 64 bits may have
 * wrapped instead; this is assumed if its growth across the wrap is less than
 * half of its range. */
static bool fell(const struct map_field *field, uint64_t before, uint64_t now) {
  uint64_t mask = mask_of(field);
  return now < before &&
         (field->size == 8 || ((now - before) & mask) > mask / 2);
}

uint64_t map_step(const struct map_field *field, uint64_t before,
                  uint64_t now) {
  return fell(field, before, now) ? 0 : (now - before) & mask_of(field);
}

/* How the counters of one copy have changed since the last reading. */
struct decrease {
  bool any;   /* a counter decreased */
  bool whole; /* all counters that were not 0 decreased */
  bool small; /* a counter decreased by less than half of its value */
};

/* Reads the values of a copy into `now`. */
static struct decrease read_copy(const struct map_fields *fields,
                                 const char *values, const uint64_t *last,
                                 uint64_t *now) {
  struct decrease decrease = {.whole = true};
  for (size_t f = 0; f < fields->len; f++) {
    const struct map_field *field = &fields->list[f];
    now[f] = map_field_value(field, values);
    if (field->is_gauge)
      continue;
    if (fell(field, last[f], now[f])) {
      decrease.any = true;
      decrease.small |= now[f] > last[f] / 2;
    } else if (now[f] >= last[f] && last[f] != 0) {
      decrease.whole = false;
    }
  }
  decrease.whole &= decrease.any;
  return decrease;
}

/* True if a counter that grew by `growth` may wrap unnoticed. A counter that
 * was 0 may have grown for long. */
static bool is_fast(const struct map_field *field, uint64_t last,
                    uint64_t growth) {
  return field->size < 8 && !field->is_gauge && last != 0 &&
         growth > mask_of(field) / 4;
}

/* Returns a fast counter, or NULL. */
static const struct map_field *grow_copy(const struct map_fields *fields,
                                         bool is_array, const char *values,
                                         uint64_t *last, uint64_t *growth) {
  struct decrease decrease = read_copy(fields, values, last, growth);
  bool begins_again = decrease.whole && !(is_array && decrease.small);
  const struct map_field *fast = NULL;
  for (size_t f = 0; f < fields->len; f++) {
    const struct map_field *field = &fields->list[f];
    uint64_t now = growth[f];
    if (field->is_gauge)
      growth[f] = now - last[f];
    else if (decrease.whole)
      growth[f] = begins_again ? map_step(field, 0, now) : 0;
    else
      growth[f] = map_step(field, last[f], now);
    if (!decrease.whole && is_fast(field, last[f], growth[f]))
      fast = field;
    last[f] = now;
  }
  return fast;
}

const struct map_field *map_growth(const struct map *map,
                                   const struct map_fields *fields,
                                   const void *values, uint64_t *last,
                                   uint64_t *growth) {
  const struct map_field *fast = NULL;
  for (uint32_t copy = 0; copy < map->copies; copy++) {
    size_t at = copy * fields->len;
    const struct map_field *found = grow_copy(
        fields, map_is_array(&map->info),
        (const char *)values + copy * map->stride, last + at, growth + at);
    fast = found != NULL ? found : fast;
  }
  return fast;
}
