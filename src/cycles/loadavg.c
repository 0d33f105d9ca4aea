#include "loadavg.h"

#include <math.h>
#include <stdio.h>

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

void loadavg_name(char name[LOADAVG_NAME_SIZE], const char *what,
                  double period_s) {
  bool in_minutes = fmod(period_s, 60) == 0;
  snprintf(name, LOADAVG_NAME_SIZE, "%s_%.0f%c", what,
           in_minutes ? period_s / 60 : period_s, in_minutes ? 'm' : 's');
}
