/* The programs of the idle clock, which a test includes without these lines. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>
#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile typeof(x) *)&(x) = (value))

#include "idle_clock.bpf.c"

char LICENSE[] SEC("license") = "Dual MIT/GPL";
