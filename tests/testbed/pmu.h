/* pmu: the name of the guest's core PMU, and counters for the tests. */
#ifndef TESTBED_PMU_H
#define TESTBED_PMU_H

#include <stdbool.h>
#include <stdint.h>

bool core_pmu_present(void);

/* Returns an event such as "armv8_pmuv3/inst_retired/" as a static string. If
 * sysfs has no such PMU, uses the usual name. */
const char *core_pmu_event(const char *event);

/* Opens a raw event that competes for the counters of a core. Returns -1 on
 * error. */
int competitor_open(int core, uint64_t config, bool pinned);
void competitors_close(const int *fds, int fds_len);
/* Returns false if the event is pinned and received no counter. */
bool competitor_counts(int fd);

#endif
