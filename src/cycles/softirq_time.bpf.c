/* Adds up the time of interrupt handlers and of softirqs (softirq_time.h).
 * Softirqs do not interrupt softirqs, and interrupt handlers run with
 * interrupts off, so no word has two writers. Programs are attached in this
 * order: each exit before its entry. */
#ifndef PERCORE_TEST
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";
#endif
#include "softirq_time.h"

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct softirq_words);
} softirq_time SEC(".maps");

/* Begins or ends a span. A span does not count if the programs were attached
 * within it. */
static __always_inline int change(uint64_t kind, int ends) {
  __u32 key = 0;
  struct softirq_words *words = bpf_map_lookup_elem(&softirq_time, &key);
  int hard = kind == SOFTIRQ_HARD;
  if (words == 0 || kind >= SOFTIRQ_KINDS)
    return 0;
  uint64_t now = bpf_ktime_get_ns() - (hard ? 0 : words->ns[SOFTIRQ_HARD]);
  uint64_t begin = words->begin[hard];
  words->begin[hard] = ends ? 0 : now;
  if (ends && begin > 0 && now > begin)
    words->ns[kind] += now - begin;
  return 0;
}

#define PROGRAM(tracepoint, kind, ends)                                        \
  SEC("raw_tp/" #tracepoint)                                                   \
  int on_##tracepoint(struct bpf_raw_tracepoint_args *context) {               \
    (void)context;                                                             \
    return change(kind, ends);                                                 \
  }
PROGRAM(irq_handler_exit, SOFTIRQ_HARD, 1)
PROGRAM(irq_handler_entry, SOFTIRQ_HARD, 0)
PROGRAM(softirq_exit, context->args[0], 1)
PROGRAM(softirq_entry, 0, 0)
