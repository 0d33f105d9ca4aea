/* Measures how fast one core wakes: see steps.h. The programs run on every
 * core, but return immediately on every core except the measured one. */
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

struct timer {
  struct bpf_timer timer;
};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct timer);
} wake_timers SEC(".maps");

static __always_inline struct wake_probe *probe_of_this_core(void) {
  __u32 key = 0;
  struct wake_probe *probe = bpf_map_lookup_elem(&wake_probes, &key);
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
    wake_publish(probe);
  return 0;
}

SEC("raw_tp/local_timer_entry")
int wake_interrupt(void *context) {
  (void)context;
  __u64 now = bpf_ktime_get_ns();
  struct wake_probe *probe = probe_of_this_core();
  if (probe)
    wake_on_interrupt(&probe->steps, now);
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
    wake_publish(probe);
  return 0;
}

static __always_inline int arm(struct wake_probe *probe, struct timer *timer) {
  __u64 range = probe->distance_max - probe->distance_min;
  __u64 distance =
      probe->distance_min + ((range * bpf_get_prandom_u32()) >> 32);
  __u64 pause = probe->pause;
  bool is_pause = pause && !probe->is_paused;
  __u64 wait = is_pause ? pause : distance;
  __u64 flags = probe->timer_flags;
  probe->is_paused = is_pause;
  probe->is_arming = 1;
  int status = bpf_timer_start(
      &timer->timer, flags & 1 ? bpf_ktime_get_ns() + wait : wait, flags);
  probe->is_arming = 0;
  if (status)
    return status;
  probe->steps.distance = distance;
  probe->steps.is_armed = !is_pause;
  probe->armed += !is_pause;
  return 0;
}

static int on_timer(void *map, __u32 *key, struct timer *timer) {
  (void)map, (void)key;
  struct wake_probe *probe = probe_of_this_core();
  if (probe && !probe->stop && probe->armed < probe->armed_max)
    arm(probe, timer);
  return 0;
}

/* Starts the timer on the core on which BPF_PROG_TEST_RUN runs this program. */
SEC("syscall")
int wake_begin(void *context) {
  (void)context;
  __u32 key = 0;
  struct wake_probe *probe = probe_of_this_core();
  struct timer *timer = bpf_map_lookup_elem(&wake_timers, &key);
  if (!probe || !timer)
    return -1;
  bpf_timer_init(&timer->timer, &wake_timers, 1 /* CLOCK_MONOTONIC */);
  bpf_timer_set_callback(&timer->timer, on_timer);
  return arm(probe, timer);
}
