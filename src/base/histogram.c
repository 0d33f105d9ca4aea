#include "histogram.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MANTISSA 23
#define FIRST_BUCKET ((127 - 10) << HISTOGRAM_BITS) /* 2^-10 */

/* The bits of a positive float, from its exponent on, grow with its value. */
static int bucket_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  int bucket = (int)(bits >> (MANTISSA - HISTOGRAM_BITS)) - FIRST_BUCKET;
  return bucket < 0                   ? 0
         : bucket < HISTOGRAM_BUCKETS ? bucket
                                      : HISTOGRAM_BUCKETS - 1;
}

/* Returns the smallest value of a bucket. */
static double limit_of(int bucket) {
  uint32_t bits = (uint32_t)(bucket + FIRST_BUCKET)
                  << (MANTISSA - HISTOGRAM_BITS);
  float value;
  memcpy(&value, &bits, sizeof(value));
  return (double)value;
}

int histogram_add(struct histogram *histogram, float added) {
  double value = (double)added;
  int bucket = bucket_of(added);
  if (histogram->buckets == NULL)
    histogram->buckets = calloc(HISTOGRAM_BUCKETS, sizeof(uint32_t));
  if (histogram->buckets == NULL)
    return -ENOMEM;
  histogram->buckets[bucket]++;
  bool is_first = histogram->count++ == 0;
  if (is_first || bucket < histogram->first)
    histogram->first = bucket;
  if (is_first || bucket > histogram->last)
    histogram->last = bucket;
  histogram->min = is_first ? value : fmin(histogram->min, value);
  histogram->max = is_first ? value : fmax(histogram->max, value);
  /* Welford's algorithm. */
  double difference = value - histogram->mean;
  histogram->mean += difference / (double)histogram->count;
  histogram->squares += difference * (value - histogram->mean);
  return 0;
}

void histogram_clear(struct histogram *histogram) {
  if (histogram->count > 0)
    memset(&histogram->buckets[histogram->first], 0,
           sizeof(uint32_t) * (size_t)(histogram->last - histogram->first + 1));
  *histogram = (struct histogram){.buckets = histogram->buckets};
}

/* Returns the value at a place in ascending order, from 0. The values of a
 * bucket are taken to be evenly spread. */
static double value_at(const struct histogram *histogram, uint64_t rank) {
  uint64_t below = 0;
  int bucket = histogram->first;
  for (; bucket < histogram->last && below + histogram->buckets[bucket] <= rank;
       bucket++)
    below += histogram->buckets[bucket];
  double low = limit_of(bucket);
  double width = limit_of(bucket + 1) - low;
  double value =
      low + width * ((double)(rank - below) + 0.5) / histogram->buckets[bucket];
  return fmin(fmax(value, histogram->min), histogram->max);
}

double histogram_quantile(const struct histogram *histogram, double fraction) {
  double place = fraction * (double)(histogram->count - 1);
  uint64_t rank = (uint64_t)place;
  double value = value_at(histogram, rank);
  if (rank + 1 < histogram->count)
    value += (place - (double)rank) * (value_at(histogram, rank + 1) - value);
  return value;
}
