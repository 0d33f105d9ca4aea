/* histogram.c: converts buckets back to values, as the inverse of
 * percore_bucket_. */
#include "percore_config.h"

#include "reader.h"

uint64_t region_bucket_least(uint32_t sub_bits, uint32_t bucket) {
  uint32_t per_power = 1u << sub_bits;
  if (bucket < per_power)
    return bucket;
  uint32_t shift = (bucket >> sub_bits) - 1;
  uint64_t mantissa = per_power + (bucket & (per_power - 1));
  return shift < 64 ? mantissa << shift : UINT64_MAX;
}

/* Returns the middle of a bucket; if the bucket counts a single value, returns
 * that value. */
static double middle(uint32_t sub_bits, uint32_t bucket) {
  double least = (double)region_bucket_least(sub_bits, bucket);
  uint32_t power = bucket >> sub_bits;
  if (power <= 1)
    return least;
  return least + ((double)(1ull << (power - 1)) - 1) / 2;
}

double region_histogram_quantile(uint32_t sub_bits, const uint64_t *counts,
                                 uint32_t buckets, double q) {
  double total = 0, below = 0;
  uint32_t last = 0;
  for (uint32_t b = 0; b < buckets; b++)
    total += (double)counts[b];
  if (total == 0)
    return -1;
  for (uint32_t b = 0; b < buckets; b++) {
    if (counts[b] == 0)
      continue;
    last = b;
    below += (double)counts[b];
    if (below >= q * total)
      break;
  }
  return middle(sub_bits, last);
}
