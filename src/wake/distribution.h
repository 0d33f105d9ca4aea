/* distribution: counts latencies in a fixed number of buckets, so that
 * percentiles need no sorting. */
#ifndef PERCORE_WAKE_DISTRIBUTION_H
#define PERCORE_WAKE_DISTRIBUTION_H

#include <stddef.h>
#include <stdint.h>

/* Each range between two powers of two is divided into 64 buckets, so a
 * percentile is wrong by at most 0.8 %. The last bucket counts all latencies
 * from 1.07 s upwards. */
#define WAKE_DISTRIBUTION_SUB_BITS 6
#define WAKE_DISTRIBUTION_BITS 30
#define WAKE_DISTRIBUTION_BUCKETS                                              \
  ((WAKE_DISTRIBUTION_BITS - WAKE_DISTRIBUTION_SUB_BITS + 1)                   \
   << WAKE_DISTRIBUTION_SUB_BITS)

struct wake_distribution {
  uint64_t total;
  uint32_t count[WAKE_DISTRIBUTION_BUCKETS];
};

void wake_distribution_add(struct wake_distribution *distribution, uint64_t ns);

/* Returns a percentile in ns, or NAN if fewer than 10 datapoints are above it.
 */
double
wake_distribution_percentile(const struct wake_distribution *distribution,
                             double percent);

#endif
