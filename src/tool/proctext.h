/* proctext: parsers of kernel files for `percore load --compare`. They accept
 * arbitrary bytes and ignore unexpected text.
 *
 * Each parser stores a duration in nanoseconds for each core from 0 to
 * cores_len - 1, or NAN if the text does not mention the core. It returns 0, or
 * -EINVAL if the text mentions no core. */
#ifndef PERCORE_PROCTEXT_H
#define PERCORE_PROCTEXT_H

#include "cycles/core_set.h"

/* Parses /proc/timer_list, which contains idle times if the kernel has a
 * dynamic tick. Sets idle_ns to how long each core has been idle, including its
 * current idle period, and *now_ns to the CLOCK_MONOTONIC time of the list. */
int timer_list_parse(const char *text, double *idle_ns, int cores_len,
                     double *now_ns);

/* Parses cpuacct.usage_percpu of a cgroup (version 1), which lists the cores in
 * `possible`. Sets run_ns to how long the tasks of the cgroup have run on each
 * core. */
int cpuacct_parse(const char *text, const struct core_set *possible,
                  double *run_ns, int cores_len);

#endif
