/* loadavg: exponentially weighted averages without an initial bias. */
#ifndef PERCORE_LOADAVG_H
#define PERCORE_LOADAVG_H

#include <stdint.h>

/* How often a load enters the averages: every 60/13 s = 4.615 s. This interval
 * divides a minute evenly, and its fractional part is close to the golden
 * ratio, so jobs that start every few seconds are neither always nor never
 * sampled (Klaus Ripke 2011). */
#define LOADAVG_INTERVAL_NS (UINT64_C(60000000000) / 13)

/* The periods of all averages, in seconds: 60, 300 and 900. */
#define LOADAVG_PERIODS 3
extern const double loadavg_period_s[LOADAVG_PERIODS];

/* The average is sum / weight. Initialise with zeros. */
struct loadavg {
  double sum;
  double weight;
};

/* Starts the average at `value`, as if the value had never changed before. */
void loadavg_start(struct loadavg *average, double value);

/* Adds a value that was held for dt_s seconds to an average over period_s
 * seconds. Ignores dt_s <= 0 and values that are not finite. */
void loadavg_update(struct loadavg *average, double value, double dt_s,
                    double period_s);

/* Returns the average, or NAN before the first update. */
double loadavg_get(const struct loadavg *average);

#endif
