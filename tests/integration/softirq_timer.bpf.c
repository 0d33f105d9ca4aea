/* Known work in softirq: a timer that spins for a while in each period, and
 * logs for how long. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define CLOCK_MONOTONIC 1
#define TIMER_ABS 1
#define TIMER_CPU_PIN 2
#define SPIN_STEPS_MAX (1 << 20)

struct burner {
  struct bpf_timer timer;
  __u64 period_ns, spin_ns;
  __u64 next_ns;
};

struct burner_log {
  __u64 spun_ns, fires;
};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct burner);
} burners SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct burner_log);
} logs SEC(".maps");

/* Starts the timer, so that it fires on this core at next_ns. Kernels before
 * 6.7 cannot pin a timer, and kernels before 6.4 cannot start a timer for a
 * given time. There, the timer starts relative to now, so that each period is
 * longer by the timer's own delay. Returns 0 on success. */
static int arm(struct burner *burner) {
  int status = bpf_timer_start(&burner->timer, burner->next_ns,
                               TIMER_ABS | TIMER_CPU_PIN);
  if (status != 0)
    status =
        bpf_timer_start(&burner->timer, burner->period_ns - burner->spin_ns, 0);
  return status;
}

static int is_over(__u32 index, __u64 *end_ns) {
  (void)index;
  return bpf_ktime_get_ns() >= *end_ns;
}

static int fire(void *map, int *key, struct burner *burner) {
  (void)map, (void)key;
  __u32 zero = 0;
  struct burner_log *log = bpf_map_lookup_elem(&logs, &zero);
  if (log == 0)
    return 0;
  __u64 begin_ns = bpf_ktime_get_ns(), end_ns = begin_ns + burner->spin_ns;
  bpf_loop(SPIN_STEPS_MAX, is_over, &end_ns, 0);
  __u64 now_ns = bpf_ktime_get_ns();
  log->spun_ns += now_ns - begin_ns;
  log->fires++;
  burner->next_ns += burner->period_ns;
  if (burner->next_ns <= now_ns)
    burner->next_ns = now_ns + 1000;
  arm(burner);
  return 0;
}

/* Starts the timer. Runs once, on the core that the timer keeps busy. */
SEC("tc")
int start(void *packet) {
  (void)packet;
  __u32 zero = 0;
  struct burner *burner = bpf_map_lookup_elem(&burners, &zero);
  if (burner == 0)
    return 1;
  bpf_timer_init(&burner->timer, &burners, CLOCK_MONOTONIC);
  bpf_timer_set_callback(&burner->timer, fire);
  burner->next_ns = bpf_ktime_get_ns() + burner->period_ns;
  return arm(burner);
}

/* Does nothing. A test attaches it to measure the cost of calling a program. */
SEC("raw_tp/cpu_idle")
int nothing(void *tracepoint) {
  (void)tracepoint;
  return 0;
}
