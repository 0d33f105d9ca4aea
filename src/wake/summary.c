#include "summary.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BEYOND 10 /* minimum number of datapoints above a known percentile */
#define HISTOGRAMS ((WAKE_STATES_MAX + 1) * WAKE_METRICS)
#define MANTISSA 23
#define FIRST_BUCKET ((127 - 10) << WAKE_BUCKET_BITS) /* 2^-10 us */

const struct wake_figure_name wake_figure_names[WAKE_FIGURES] = {
    [WAKE_MIN] = {"min", "min_us", 0},
    [WAKE_MEAN] = {"mean", "mean_us", 0},
    [WAKE_MEDIAN] = {"median", "median_us", 0},
    [WAKE_STDDEV] = {"stddev", "stddev_us", 0},
    [WAKE_P99] = {"99 %", "p99_us", 99},
    [WAKE_P99_9] = {"99.9 %", "p99_9_us", 99.9},
    [WAKE_P99_99] = {"99.99 %", "p99_99_us", 99.99},
    [WAKE_P99_999] = {"99.999 %", "p99_999_us", 99.999},
    [WAKE_MAX] = {"max", "max_us", 0},
};

/* ---------------------------------------------------------------------------
 * Histograms
 *
 * The bits of a positive float, from its exponent on, grow with its value.
 */

static int bucket_of(float us) {
  uint32_t bits;
  memcpy(&bits, &us, sizeof(bits));
  int bucket = (int)(bits >> (MANTISSA - WAKE_BUCKET_BITS)) - FIRST_BUCKET;
  return bucket < 0 ? 0 : bucket < WAKE_BUCKETS ? bucket : WAKE_BUCKETS - 1;
}

double wake_bucket_us(int bucket) {
  uint32_t bits = (uint32_t)(bucket + FIRST_BUCKET)
                  << (MANTISSA - WAKE_BUCKET_BITS);
  float us;
  memcpy(&us, &bits, sizeof(us));
  return (double)us;
}

static int add(struct wake_histogram *histogram, float us) {
  int bucket = bucket_of(us);
  if (histogram->buckets == NULL)
    histogram->buckets = calloc(WAKE_BUCKETS, sizeof(*histogram->buckets));
  if (histogram->buckets == NULL)
    return -ENOMEM;
  histogram->buckets[bucket]++;
  bool is_first = histogram->count++ == 0;
  if (is_first || bucket < histogram->first)
    histogram->first = bucket;
  if (is_first || bucket > histogram->last)
    histogram->last = bucket;
  histogram->min = is_first ? (double)us : fmin(histogram->min, (double)us);
  histogram->max = is_first ? (double)us : fmax(histogram->max, (double)us);
  /* Welford's algorithm. */
  double difference = (double)us - histogram->mean;
  histogram->mean += difference / (double)histogram->count;
  histogram->squares += difference * ((double)us - histogram->mean);
  return 0;
}

int wake_stats_add(struct wake_stats *stats, const struct wake_point *point) {
  int status = 0;
  for (int metric = 0; metric < WAKE_METRICS; metric++) {
    float us = point->us[metric];
    if (isnan(us) || (metric == WAKE_LATENCY && !point->interrupts_off))
      continue;
    status |= add(&stats->of[point->state][metric], us);
    status |= add(&stats->of[WAKE_ALL_STATES][metric], us);
  }
  return status != 0 ? -ENOMEM : 0;
}

void wake_stats_clear(struct wake_stats *stats) {
  struct wake_histogram *histogram = &stats->of[0][0];
  for (int i = 0; i < HISTOGRAMS; i++, histogram++) {
    if (histogram->count > 0)
      memset(&histogram->buckets[histogram->first], 0,
             sizeof(*histogram->buckets) *
                 (size_t)(histogram->last - histogram->first + 1));
    *histogram = (struct wake_histogram){.buckets = histogram->buckets};
  }
}

void wake_stats_free(struct wake_stats *stats) {
  struct wake_histogram *histogram = &stats->of[0][0];
  for (int i = 0; i < HISTOGRAMS; i++, histogram++)
    free(histogram->buckets);
  *stats = (struct wake_stats){0};
}

enum wake_metric wake_stats_latency(const struct wake_stats *stats, int state) {
  return stats->of[state][WAKE_LATENCY].count > 0 ? WAKE_LATENCY
                                                  : WAKE_INTR_LATENCY;
}

/* ---------------------------------------------------------------------------
 * Figures
 */

/* Returns the value at a place in ascending order, from 0. The values of a
 * bucket are taken to be evenly spread. */
static double value_at(const struct wake_histogram *histogram, uint64_t rank) {
  uint64_t below = 0;
  int bucket = histogram->first;
  for (; bucket < histogram->last && below + histogram->buckets[bucket] <= rank;
       bucket++)
    below += histogram->buckets[bucket];
  double low = wake_bucket_us(bucket), width = wake_bucket_us(bucket + 1) - low;
  double us =
      low + width * ((double)(rank - below) + 0.5) / histogram->buckets[bucket];
  return fmin(fmax(us, histogram->min), histogram->max);
}

/* Of at least one value. */
static double quantile(const struct wake_histogram *histogram,
                       double fraction) {
  double place = fraction * (double)(histogram->count - 1);
  uint64_t rank = (uint64_t)place;
  double us = value_at(histogram, rank);
  if (rank + 1 < histogram->count)
    us += (place - (double)rank) * (value_at(histogram, rank + 1) - us);
  return us;
}

double wake_percentile(const struct wake_histogram *histogram, double percent) {
  double fraction = percent / 100;
  return (double)histogram->count * (1 - fraction) >= BEYOND - 1e-6
             ? quantile(histogram, fraction)
             : NAN;
}

double wake_figure(const struct wake_histogram *histogram,
                   enum wake_figure figure) {
  double percent = wake_figure_names[figure].percent;
  uint64_t count = histogram->count;
  if (count == 0 || percent > 0)
    return wake_percentile(histogram, percent);
  const double values[WAKE_FIGURES] = {
      [WAKE_MIN] = histogram->min,
      [WAKE_MEAN] = histogram->mean,
      [WAKE_MEDIAN] = quantile(histogram, 0.5),
      [WAKE_STDDEV] =
          count > 1 ? sqrt(histogram->squares / (double)(count - 1)) : NAN,
      [WAKE_MAX] = histogram->max};
  return values[figure];
}
