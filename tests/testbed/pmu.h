/* pmu: the guest's core PMU by name, and counters of our own on it. */
#ifndef TESTBED_PMU_H
#define TESTBED_PMU_H

#include <stdbool.h>
#include <stdint.h>

bool core_pmu_present(void);

/* "armv8_pmuv3/inst_retired/" and the like; a static string. Without such a
 * PMU in sysfs the name is that which it should have. */
const char *core_pmu_event(const char *event);

/* A raw event on one core that competes for counters; -1 if it cannot be. */
int competitor_open(int core, uint64_t config, bool pinned);
void competitors_close(const int *fds, int fds_len);
/* False for a pinned one that got no counter. */
bool competitor_counts(int fd);

#endif
