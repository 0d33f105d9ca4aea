/* loadavg: exponentially weighted averages that are right from the start. */
#ifndef PERCORE_LOADAVG_H
#define PERCORE_LOADAVG_H

#include <stdbool.h>
#include <stdint.h>

/* How often a load enters the averages: 60/13 s = 4.615 s. An integer fraction
 * of a minute whose fractional seconds lie close to the golden ratio, so that
 * jobs which start every so many seconds are not caught always or never (Klaus
 * Ripke 2011). */
#define LOADAVG_INTERVAL_NS (UINT64_C(60000000000) / 13)

/* Sum and weight; sum / weight is the average. A fresh one has no value. */
struct loadavg {
  double sum;
  double weight;
};

void loadavg_reset(struct loadavg *average);

/* Starts at a value known from elsewhere, as if it had been so for ever. */
void loadavg_start(struct loadavg *average, double value);

/* A value held over dt_s seconds, for an average over period_s seconds.
 * Nothing happens for dt_s <= 0 or a value that is not finite. */
void loadavg_update(struct loadavg *average, double value, double dt_s,
                    double period_s);

/* NAN before the first update. */
double loadavg_get(const struct loadavg *average);

/* The run queue's average over period_s as getloadavg(3)'s three values have
 * it: interpolated over log(period) between 60, 300 and 900 s, the end value
 * outside (going on beyond the ends can turn negative). */
double loadavg_interpolate(const double kernel[3], double period_s);

#endif
