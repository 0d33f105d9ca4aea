/* proctext: parsers of the files that percore does not trust, for `percore load
 * --compare`. They take foreign bytes: of what is not as expected, nothing is
 * taken.
 *
 * Each fills ns[core] for the cores 0 to cores_len - 1, NAN where the text says
 * nothing, and returns 0, or -EINVAL if it says nothing about any core. */
#ifndef PERCORE_PROCTEXT_H
#define PERCORE_PROCTEXT_H

#include "cycles/core_set.h"

/* /proc/timer_list: how long each core has been idle, the period in progress
 * added; *now_ns is the list's own time (CLOCK_MONOTONIC). Only a dynamic tick
 * keeps this account. */
int timer_list_parse(const char *text, double *idle_ns, int cores_len,
                     double *now_ns);

/* cpuacct.usage_percpu of a cgroup (version 1): how long its tasks have run on
 * each core; one number for each possible core. */
int cpuacct_parse(const char *text, const struct core_set *possible,
                  double *run_ns, int cores_len);

#endif
