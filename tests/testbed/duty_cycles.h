/* duty_cycles: compares loads of one core with burners of known shares.
 *
 * A burner's record does not include the kernel's work to wake the burner and
 * put it to sleep, which is also load. The same number of rounds without work
 * shows this cost for every figure; it is printed as `empty`.
 */
#ifndef TESTBED_DUTY_CYCLES_H
#define TESTBED_DUTY_CYCLES_H

#include "watch.h"

struct duty_terms {
  int core;
  const char *how; /* source and denominator, for the sentences */
  /* The machine is so slow that a wake-up per tick costs more than the
   * tolerance, so this cost is added to the tolerance. */
  bool slow;
  bool exact; /* no other task can run: any other load is the cost of rounds */
};

void duty_cycles_measure(struct watch *watch, const struct duty_terms *terms);

#endif
