/* pmu: the guest's core PMU, and counters for the tests. */
#ifndef TESTBED_PMU_H
#define TESTBED_PMU_H

#include "cycles/machine.h"

#include <stdbool.h>
#include <stdint.h>

bool core_pmu_present(void);

/* Returns this machine with the event inst_retired of its core PMU under the
 * name cnt_cycles. With -icount, it counts instructions_per_s while a core is
 * not halted, as cnt_cycles does on real machines. */
const struct machine *pmu_machine(double instructions_per_s);

/* Opens a raw event that competes for the counters of a core. Returns its
 * descriptor, or -1 on error. */
int competitor_open(int core, uint64_t config, bool pinned);
void competitors_close(const int *fds, int fds_len);
/* Returns false if the event is pinned and received no counter. */
bool competitor_counts(int fd);

#endif
