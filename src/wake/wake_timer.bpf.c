/* The programs of wake.bpf.c, and a BPF timer that wakes the core. */
#include "wake.bpf.c"

struct timer {
  struct bpf_timer timer;
};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct timer);
} wake_timers SEC(".maps");

/* Counts the event before the timer starts, because wake_begin runs in a task:
 * the timer may expire, and be armed again, before bpf_timer_start returns. */
static __always_inline int arm(struct wake_probe *probe, struct timer *timer) {
  __u64 distance = probe->distance_min +
                   ((probe->distance_range * bpf_get_prandom_u32()) >> 32);
  __u64 flags = probe->timer_flags;
  probe->steps.distance = distance;
  probe->steps.is_armed = 1;
  probe->armed++;
  probe->is_arming = 1;
  int status = bpf_timer_start(
      &timer->timer, flags & 1 ? bpf_ktime_get_ns() + distance : distance,
      flags);
  probe->is_arming = 0;
  if (status) {
    probe->armed--;
    probe->steps.is_armed = 0;
  }
  return status;
}

static int on_timer(void *map, __u32 *key, struct timer *timer) {
  (void)map, (void)key;
  struct wake_probe *probe = find_probe();
  if (!probe || probe->core == WAKE_NO_CORE)
    return 0;
  if (probe->core != bpf_get_smp_processor_id()) {
    probe->is_gone = 1;
    return 0;
  }
  if (probe->steps.is_armed) /* its expiry was not seen */
    wake_drop(&probe->steps, WAKE_DROP_LOST);
  if (probe->armed < probe->armed_max && arm(probe, timer))
    probe->is_gone = 1;
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
  probe->is_gone = 0; /* if the timer of the last core has just expired */
  bpf_timer_init(&timer->timer, &wake_timers, 1 /* CLOCK_MONOTONIC */);
  bpf_timer_set_callback(&timer->timer, on_timer);
  return arm(probe, timer);
}
