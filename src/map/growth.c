#include "growth.h"

struct sums {
  uint64_t before, now;
  bool fell;
};

static uint64_t mask_of(const struct map_field *field) {
  return field->size < 8 ? (UINT64_C(1) << (8 * field->size)) - 1 : UINT64_MAX;
}

/* If a counter of less than 64 bits is lower than its last value, it wrapped if
 * that means growth by less than half of its range. Otherwise it decreased. */
static bool fell_back(const struct map_field *field, uint64_t before,
                      uint64_t now) {
  uint64_t mask = mask_of(field);
  return now < before && ((now - before) & mask) > mask / 2;
}

static struct sums sums_of(const struct map_shape *shape, size_t f,
                           const char *values, const uint64_t *last) {
  const struct map_field *field = &shape->fields[f];
  struct sums sums = {0};
  bool narrow_fell = false;
  for (uint32_t copy = 0; copy < shape->copies; copy++) {
    uint64_t now = map_field_value(field, values + copy * shape->stride);
    uint64_t before = last[copy * shape->fields_len + f];
    sums.before += before;
    sums.now += now;
    narrow_fell |= fell_back(field, before, now);
  }
  sums.fell = field->size == 8 ? sums.now < sums.before : narrow_fell;
  return sums;
}

/* Returns the growth of one counter in one copy. */
static uint64_t step(const struct map_field *field, uint64_t before,
                     uint64_t now) {
  if (now < before && (field->size == 8 || fell_back(field, before, now)))
    return 0;
  return (now - before) & mask_of(field);
}

struct verdict {
  bool all_fell, small;
  size_t alone; /* a field that decreased while others did not */
};

static struct verdict judge(const struct map_shape *shape, const char *values,
                            const uint64_t *last) {
  struct verdict verdict = {.all_fell = true, .alone = MAP_NO_FIELD};
  bool any = false;
  for (size_t f = 0; f < shape->fields_len; f++) {
    if (shape->fields[f].is_gauge)
      continue;
    struct sums sums = sums_of(shape, f, values, last);
    if (sums.fell) {
      any = true;
      verdict.alone = f;
      verdict.small |= sums.now > sums.before / 2;
    } else if (sums.before != 0) {
      verdict.all_fell = false;
    }
  }
  verdict.all_fell &= any;
  return verdict;
}

size_t map_growth(const struct map_shape *shape, const void *values,
                  uint64_t *last, uint64_t *growth, uint8_t *falls) {
  struct verdict verdict = judge(shape, values, last);
  bool suspect = verdict.all_fell ? shape->is_array && verdict.small
                                  : verdict.alone != MAP_NO_FIELD;
  bool begins_again = verdict.all_fell && !suspect;
  for (uint32_t copy = 0; copy < shape->copies; copy++)
    for (size_t f = 0; f < shape->fields_len; f++) {
      const struct map_field *field = &shape->fields[f];
      size_t at = copy * shape->fields_len + f;
      uint64_t now =
          map_field_value(field, (const char *)values + copy * shape->stride);
      if (field->is_gauge)
        growth[at] = now - last[at];
      else if (suspect && (verdict.all_fell || f == verdict.alone))
        growth[at] = 0;
      else
        growth[at] = begins_again ? now : step(field, last[at], now);
      last[at] = now;
    }
  if (!suspect)
    return MAP_NO_FIELD;
  bool at_once = shape->is_array && !verdict.all_fell;
  return ++*falls >= MAP_FALLS_MAX || at_once ? verdict.alone : MAP_NO_FIELD;
}
