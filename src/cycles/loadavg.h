/* loadavg: exponentially weighted averages that are right from the start. */
#ifndef PERCORE_LOADAVG_H
#define PERCORE_LOADAVG_H

#include <stdbool.h>
#include <stdint.h>

/* How often a load enters the averages: 60/13 s = 4.615 s. This is an integer
 * fraction of a minute, and its fractional second is close to the golden ratio,
 * so that jobs that start every few seconds are not hit always or never (Klaus
 * Ripke 2011). */
#define LOADAVG_INTERVAL_NS (UINT64_C(60000000000) / 13)

/* The average is sum / weight. All zero: no value yet. */
struct loadavg {
  double sum;
  double weight;
};

void loadavg_reset(struct loadavg *average);

/* Starts at a known value, as if it had always been that value. */
void loadavg_start(struct loadavg *average, double value);

/* Adds a value that was held for dt_s seconds to an average over period_s
 * seconds. Ignores dt_s <= 0 and values that are not finite. */
void loadavg_update(struct loadavg *average, double value, double dt_s,
                    double period_s);

/* NAN before the first update. */
double loadavg_get(const struct loadavg *average);

/* The run queue's average over period_s, interpolated over log(period) between
 * the kernel's averages over 60, 300 and 900 s. Outside this range the end
 * value is returned, because an extrapolation can be negative. */
double loadavg_interpolate(const double kernel[3], double period_s);

#endif
