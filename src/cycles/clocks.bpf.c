/* The programs of both clocks, which are loaded together. Each clock attaches
 * only its own programs. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>
#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile typeof(x) *)&(x) = (value))

#include "idle_clock.bpf.c"
#include "softirq_clock.bpf.c"

char LICENSE[] SEC("license") = "Dual MIT/GPL";
