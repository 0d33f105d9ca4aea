/* Measures how fast one core wakes: see steps.h. The programs run on every
 * core, but return immediately on every core except the measured one. This
 * object contains no BPF timer, which kernels before 5.15 and kernels with
 * PREEMPT_RT refuse: see wake_timer.bpf.c. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "probe.h"
#include "steps.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct wake_probe);
} wake_probes SEC(".maps");

static __always_inline void publish(struct wake_probe *probe) {
  struct wake_event *event = &probe->events[probe->head % WAKE_EVENTS];
  *event = probe->steps.event;
  __sync_fetch_and_add(&probe->head,
                       1); /* a full barrier: the event is written first */
}

static __always_inline struct wake_probe *find_probe(void) {
  __u32 key = 0;
  return bpf_map_lookup_elem(&wake_probes, &key);
}

static __always_inline struct wake_probe *probe_of_this_core(void) {
  struct wake_probe *probe = find_probe();
  return probe && probe->core == bpf_get_smp_processor_id() ? probe : 0;
}

SEC("raw_tp/cpu_idle")
int wake_idle(struct bpf_raw_tracepoint_args *args) {
  __u64 now = bpf_ktime_get_ns();
  __u32 state = args->args[0];
  struct wake_probe *probe = probe_of_this_core();
  if (!probe)
    return 0;
  if (state == (__u32)-1 ? wake_on_wake(&probe->steps, now)
                         : wake_on_idle(&probe->steps, now, state))
    publish(probe);
  return 0;
}

SEC("raw_tp/local_timer_entry")
int wake_interrupt(struct bpf_raw_tracepoint_args *args) {
  __u64 now = bpf_ktime_get_ns();
  struct wake_probe *probe = probe_of_this_core();
  if (probe)
    wake_on_interrupt(&probe->steps, now, args->args[0]);
  return 0;
}

/* Stores the address of our timer, which is started by arm() or by the waiting
 * thread. */
SEC("raw_tp/hrtimer_start")
int wake_start(struct bpf_raw_tracepoint_args *args) {
  struct wake_probe *probe = probe_of_this_core();
  if (!probe)
    return 0;
  __u32 thread = (__u32)bpf_get_current_pid_tgid();
  if (probe->is_arming || (probe->thread && probe->thread == thread))
    probe->steps.timer = args->args[0];
  return 0;
}

SEC("raw_tp/hrtimer_expire_entry")
int wake_expire(struct bpf_raw_tracepoint_args *args) {
  __u64 now = bpf_ktime_get_ns(), ltime = 0;
  struct wake_probe *probe = probe_of_this_core();
  if (!probe)
    return 0;
  bpf_probe_read_kernel(&ltime, sizeof(ltime),
                        (void *)(args->args[0] + WAKE_HRTIMER_EXPIRES));
  if (wake_on_expire(&probe->steps, now, args->args[0], ltime))
    publish(probe);
  return 0;
}
