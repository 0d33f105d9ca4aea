#include "distribution.h"

#include "summary.h"

#include <math.h>

#define SUB_BITS WAKE_DISTRIBUTION_SUB_BITS
#define PER_POWER (1u << SUB_BITS)

static unsigned bucket_of(uint64_t ns) {
  if (ns < PER_POWER)
    return (unsigned)ns;
  if (ns >> WAKE_DISTRIBUTION_BITS != 0)
    return WAKE_DISTRIBUTION_BUCKETS - 1;
  unsigned shift = 63 - (unsigned)__builtin_clzll(ns) - SUB_BITS;
  return ((shift + 1) << SUB_BITS) +
         ((unsigned)(ns >> shift) & (PER_POWER - 1));
}

void wake_distribution_add(struct wake_distribution *distribution,
                           uint64_t ns) {
  distribution->count[bucket_of(ns)]++;
  distribution->total++;
}

static double middle_of(unsigned bucket) {
  if (bucket < 2 * PER_POWER)
    return bucket;
  unsigned shift = (bucket >> SUB_BITS) - 1;
  double width = (double)(UINT64_C(1) << shift);
  return (PER_POWER + (bucket & (PER_POWER - 1))) * width + (width - 1) / 2;
}

double
wake_distribution_percentile(const struct wake_distribution *distribution,
                             double percent) {
  double total = (double)distribution->total, below = 0;
  if (!wake_percentile_is_known(distribution->total, percent))
    return NAN;
  unsigned bucket = 0;
  while (bucket < WAKE_DISTRIBUTION_BUCKETS - 1 &&
         (below += distribution->count[bucket]) < percent / 100 * total)
    bucket++;
  return middle_of(bucket);
}
