#include "loadavg.h"

#include <math.h>

const double loadavg_period_s[LOADAVG_PERIODS] = {60, 300, 900};

void loadavg_start(struct loadavg *average, double value) {
  *average = (struct loadavg){value, 1};
}

void loadavg_update(struct loadavg *average, double value, double dt_s,
                    double period_s) {
  if (!isfinite(value) || !isfinite(dt_s) || dt_s <= 0)
    return;
  double share = -expm1(-dt_s / period_s);
  average->sum += (value - average->sum) * share;
  average->weight += (1 - average->weight) * share;
}

double loadavg_get(const struct loadavg *average) {
  return average->weight > 0 ? average->sum / average->weight : NAN;
}
