/* histogram: counts positive values of any size, for percentiles in constant
 * memory. */
#ifndef PERCORE_BASE_HISTOGRAM_H
#define PERCORE_BASE_HISTOGRAM_H

#include <stdint.h>

/* Buckets of equal width between two powers of 2: their limits are floats with
 * these bits of mantissa, so a bucket is at most 0.2 % wide. The first limit is
 * 2^-10; smaller values are in the first bucket, larger ones in the last. */
#define HISTOGRAM_BITS 9
#define HISTOGRAM_BUCKETS (37 << HISTOGRAM_BITS)

/* All members are 0 at first. */
struct histogram {
  uint64_t count;
  double min, max, mean;
  double squares;    /* sum of squares of differences from the mean */
  int first, last;   /* the range of buckets that are not empty */
  uint32_t *buckets; /* HISTOGRAM_BUCKETS; NULL if nothing was ever added */
};

/* Adds a value that is not negative. Returns 0 or -ENOMEM. */
int histogram_add(struct histogram *histogram, float value);

/* Forgets all values, and keeps the memory. */
void histogram_clear(struct histogram *histogram);

/* Returns a quantile of at least one value, by linear interpolation between the
 * two closest values, as numpy and pandas do, within 0.1 %. */
double histogram_quantile(const struct histogram *histogram, double fraction);

#endif
