/* duty_cycles: compares the loads of one core with the known busy shares of
 * burners.
 *
 * A burner's record does not include the kernel's work to wake the burner and
 * put it to sleep, which is also load. To measure this cost, each burner is
 * also run without work, with the same number of rounds; the resulting load is
 * printed as `empty`.
 */
#ifndef TESTBED_DUTY_CYCLES_H
#define TESTBED_DUTY_CYCLES_H

#include "watch.h"

struct duty_terms {
  int core;
  const char *how; /* names the source and its divisor */
  /* True if the machine is so slow that a wake-up per tick costs more than the
   * tolerance. This cost is then added to the tolerance. */
  bool slow;
  bool exact; /* true if no other task can run, so only rounds cause other
               * load */
};

void duty_cycles_measure(struct watch *watch, const struct duty_terms *terms);

#endif
