/* programs: the rights that loading BPF programs needs, and their tracepoints.
 */
#ifndef PERCORE_CYCLES_PROGRAMS_H
#define PERCORE_CYCLES_PROGRAMS_H

#include <stdbool.h>

/* Whether this process has CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN, which
 * includes both. The kernel itself would answer EINVAL if a capability is
 * missing. */
bool programs_may_load(void);

/* Runs a program at a tracepoint until *link is closed. Returns 0 or -errno,
 * and *link is negative; -ENOENT: this kernel has no such tracepoint. */
int programs_attach(int *link, const char *tracepoint, int program);

#endif
