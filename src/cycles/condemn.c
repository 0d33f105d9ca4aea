#include "condemn.h"

#include <math.h>

#define STEAL_MAX 0.02
#define BRACKET_MAX_NS UINT64_C(5000000)

bool condemn_judge(struct condemn *condemn, double hardware, double kernel,
                   double steal, uint64_t bracket_ns, bool tick_sampled) {
  if (tick_sampled || bracket_ns > BRACKET_MAX_NS || !isfinite(hardware) ||
      !isfinite(kernel) || !(steal <= STEAL_MAX))
    return false;
  if (hardware >= kernel - CONDEMN_POINTS) {
    condemn->windows = 0;
    return false;
  }
  if (++condemn->windows < CONDEMN_WINDOWS)
    return false;
  condemn->windows = 0;
  return true;
}
