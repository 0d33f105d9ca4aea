/* call: bpf(2). */
#ifndef PERCORE_MAP_CALL_H
#define PERCORE_MAP_CALL_H

#include <linux/bpf.h>

/* Returns what the kernel returns, or a negative errno. */
int map_call(int command, union bpf_attr *attr);

#endif
