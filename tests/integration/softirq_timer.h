/* softirq_timer: a timer in the kernel that keeps a core in softirq for a while
 * in each period, and logs for how long. */
#ifndef SOFTIRQ_TIMER_H
#define SOFTIRQ_TIMER_H

#include <stdint.h>

struct softirq_timer_bpf;

struct softirq_log {
  uint64_t spun_ns, fires;
};

/* Starts a timer on `core` that spins for spin_ns in every period_ns. Returns
 * NULL with errno on failure. Moves the calling thread to `core` for a moment.
 */
struct softirq_timer_bpf *softirq_timer_start(int core, uint64_t period_ns,
                                              uint64_t spin_ns);
void softirq_timer_stop(struct softirq_timer_bpf *timer);
/* Reads the log of the timer. Returns 0, or -1 with errno. */
int softirq_timer_read(const struct softirq_timer_bpf *timer,
                       struct softirq_log *log);
/* Returns the descriptor of a BPF program that does nothing, and that can be
 * attached to a tracepoint. The descriptor belongs to the timer. */
int softirq_timer_nothing(const struct softirq_timer_bpf *timer);

#endif
