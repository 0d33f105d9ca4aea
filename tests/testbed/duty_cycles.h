/* duty_cycles: loads of one core against burners of known shares.
 *
 * A burner's log cannot hold what the kernel spends on waking it and letting it
 * sleep; that is true load. It is measured beside every figure by as many
 * rounds without work, and printed as `empty`.
 */
#ifndef TESTBED_DUTY_CYCLES_H
#define TESTBED_DUTY_CYCLES_H

#include "watch.h"

struct duty_terms {
  int core;
  const char *how; /* source and denominator, for the sentences */
  /* So slow a machine that waking up in every tick alone costs more than the
   * tolerance: there it is allowed for. */
  bool slow;
  bool exact; /* nothing else can run: what remains must be empty rounds */
};

void duty_cycles_measure(struct watch *watch, const struct duty_terms *terms);

#endif
