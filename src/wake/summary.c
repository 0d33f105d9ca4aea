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
    [WAKE_MIN] = {"min", "min_us"},
    [WAKE_MEAN] = {"mean", "mean_us"},
    [WAKE_MEDIAN] = {"median", "median_us"},
    [WAKE_STDDEV] = {"stddev", "stddev_us"},
    [WAKE_P99] = {"99 %", "p99_us"},
    [WAKE_P99_9] = {"99.9 %", "p99_9_us"},
    [WAKE_P99_99] = {"99.99 %", "p99_99_us"},
    [WAKE_P99_999] = {"99.999 %", "p99_999_us"},
    [WAKE_MAX] = {"max", "max_us"},
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

void wake_summarize(struct wake_summary *summary,
                    const struct wake_histogram *histogram) {
  double *us = summary->us, count = (double)histogram->count;
  summary->count = histogram->count;
  bool any = histogram->count > 0;
  us[WAKE_MIN] = any ? histogram->min : NAN;
  us[WAKE_MEAN] = any ? histogram->mean : NAN;
  us[WAKE_MEDIAN] = any ? quantile(histogram, 0.5) : NAN;
  us[WAKE_STDDEV] = count > 1 ? sqrt(histogram->squares / (count - 1)) : NAN;
  us[WAKE_P99] = wake_percentile(histogram, 99);
  us[WAKE_P99_9] = wake_percentile(histogram, 99.9);
  us[WAKE_P99_99] = wake_percentile(histogram, 99.99);
  us[WAKE_P99_999] = wake_percentile(histogram, 99.999);
  us[WAKE_MAX] = any ? histogram->max : NAN;
}
