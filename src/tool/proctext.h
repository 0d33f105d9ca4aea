/* proctext: parsers of files for `percore load --compare`. They accept
 * arbitrary bytes and ignore unexpected text.
 *
 * Each fills ns[core] for the cores 0 to cores_len - 1, with NAN for cores that
 * the text does not mention, and returns 0, or -EINVAL if it mentions no core.
 */
#ifndef PERCORE_PROCTEXT_H
#define PERCORE_PROCTEXT_H

#include "cycles/core_set.h"

/* Parses /proc/timer_list: how long each core has been idle, including its
 * current idle period. *now_ns is the time of the list (CLOCK_MONOTONIC). Only
 * kernels with a dynamic tick provide these times. */
int timer_list_parse(const char *text, double *idle_ns, int cores_len,
                     double *now_ns);

/* Parses cpuacct.usage_percpu of a cgroup (version 1): for each possible core,
 * how long the tasks of the cgroup have run on it. */
int cpuacct_parse(const char *text, const struct core_set *possible,
                  double *run_ns, int cores_len);

#endif
