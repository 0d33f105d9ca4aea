/* pmu: the name of the guest's core PMU, and counters for the tests. */
#ifndef TESTBED_PMU_H
#define TESTBED_PMU_H

#include <stdbool.h>
#include <stdint.h>

bool core_pmu_present(void);

/* Returns the text for `event` of the core PMU, such as
 * "armv8_pmuv3/inst_retired/". If sysfs shows no core PMU, uses the usual name.
 * The string is static: the next call overwrites it. */
const char *core_pmu_event(const char *event);

/* Opens a raw event that competes for the counters of a core. Returns its
 * descriptor, or -1 on error. */
int competitor_open(int core, uint64_t config, bool pinned);
void competitors_close(const int *fds, int fds_len);
/* Returns false if the event is pinned and received no counter. */
bool competitor_counts(int fd);

#endif
