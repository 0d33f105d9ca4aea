/* steps: recognizes, in the stream of events on one core, how the core woke for
 * a timer. The BPF programs call these functions.
 *
 * A BPF timer expires in a softirq, so interrupts, which may expire other
 * timers, may be handled in the middle of wake_on_expire. The kernel runs no
 * program that is already running on the core, so wake_on_expire never
 * interrupts itself: such an expiry is not seen. Neither can a core become idle
 * or wake there. So wake_on_expire takes a copy of what interrupts change, and
 * decides by the copy.
 *
 * With interrupts off, idle ends before the interrupt is taken:
 *
 *   idle (TBI)  LTime  wake (TAI)  interrupt (TIntr)  timer expires
 *
 * With interrupts on, the interrupt is taken before idle ends:
 *
 *   idle (TBI)  LTime  interrupt (TIntr)  timer expires  wake (TAI)
 *
 * It is a datapoint only if our timer woke the core: its interrupt was the
 * first since the core became idle, and no earlier timer was due.
 */
#ifndef PERCORE_WAKE_STEPS_H
#define PERCORE_WAKE_STEPS_H

#include <stdbool.h>

#ifdef __bpf__
typedef __u64 uint64_t;
typedef __u32 uint32_t;
#else
#include <stdint.h>
#endif

/* Why an armed event produced no datapoint. The programs count the reasons
 * before WAKE_DROP_MINORITY; this process counts the others. */
enum wake_drop {
  WAKE_DROP_BUSY,  /* the core was not idle at LTime, or had not yet left the
                      idle state that the event before this ended */
  WAKE_DROP_OTHER, /* another interrupt, or a timer that was due before LTime,
                      had woken the core */
  WAKE_DROP_EARLY, /* the timer expired before LTime or more than 1 s after it,
                      so struct hrtimer has a different layout than expected */
  WAKE_DROP_LOST,  /* the expiry of the timer, or the end of the idle state, was
                      not seen */
  WAKE_DROP_NO_INTERRUPT, /* the entry of the interrupt was not seen */
  WAKE_DROP_MINORITY,     /* interrupts were on in a state in which they are
                             mostly off, or vice versa */
  WAKE_DROP_OVERRUN,      /* it was overwritten before it was collected */
  WAKE_DROP_UNFINISHED,   /* it was not over when the measurement ended */
  WAKE_DROPS
};

/* An event. All times are in nanoseconds of CLOCK_MONOTONIC, except `distance`,
 * a duration in nanoseconds. */
struct wake_event {
  uint64_t ltime, distance, tbi, tai, tintr;
  uint64_t end;   /* when the waiting thread ran; 0: no thread waited */
  uint32_t state; /* number of the idle state */
  uint32_t interrupts_off;
  uint32_t interrupt; /* number of the interrupt */
};

/* What interrupts change. */
struct wake_seen {
  uint64_t tintr;    /* entry of the first interrupt since the core became idle;
                        0: not seen */
  uint64_t earliest; /* LTime of the earliest other timer that has expired since
                        the core became idle; 0: none */
  uint32_t interrupt; /* number of the first interrupt */
};

struct wake_steps {
  uint64_t tbi, tai; /* 0: not seen since the core became idle */
  struct wake_seen seen;
  uint32_t state;
  uint64_t timer;      /* address of our timer; 0: unknown */
  uint64_t distance;   /* from arming the event to LTime */
  uint32_t is_armed;   /* an event is armed and has not been judged yet */
  uint32_t is_pending; /* TAI follows */
  struct wake_event event;
  uint64_t idles; /* how many idle states the core has entered */
  uint64_t drops[WAKE_DROPS];
};

/* The functions below that return bool return true if they have completed a
 * datapoint, steps->event. */

static inline bool wake_on_idle(struct wake_steps *steps, uint64_t now,
                                uint32_t state) {
  bool is_point = steps->is_pending && steps->event.tai != 0;
  if (steps->is_pending && !is_point)
    steps->drops[WAKE_DROP_LOST]++;
  steps->is_pending = 0;
  steps->idles++;
  steps->tbi = now;
  steps->state = state;
  steps->tai = 0;
  steps->seen = (struct wake_seen){0};
  return is_point;
}

static inline bool wake_on_wake(struct wake_steps *steps, uint64_t now) {
  steps->tai = now;
  if (!steps->is_pending || steps->event.tai != 0)
    return false;
  steps->is_pending = 0;
  steps->event.tai = now;
  return true;
}

static inline void wake_on_interrupt(struct wake_steps *steps, uint64_t now,
                                     uint32_t interrupt) {
  if (steps->seen.tintr != 0)
    return;
  steps->seen.interrupt = interrupt;
  steps->seen.tintr = now;
}

/* Clears is_armed: the armed event is over, and had no datapoint. */
static inline bool wake_drop(struct wake_steps *steps, enum wake_drop reason) {
  steps->is_armed = 0;
  steps->drops[reason]++;
  return false;
}

/* Decides whether a timer that has expired woke the core. `seen` was copied
 * when it expired. */
static inline bool wake_judge(struct wake_steps *steps,
                              const struct wake_seen *seen, uint64_t now,
                              uint64_t ltime) {
  if (now < ltime || now - ltime > 1000000000)
    return wake_drop(steps, WAKE_DROP_EARLY);
  if (steps->is_pending || steps->tbi == 0 || steps->tbi >= ltime ||
      (steps->tai != 0 && steps->tai <= ltime))
    return wake_drop(steps, WAKE_DROP_BUSY);
  if (seen->tintr == 0)
    return wake_drop(steps, WAKE_DROP_NO_INTERRUPT);
  if (seen->tintr <= ltime || seen->tintr < steps->tai ||
      (seen->earliest != 0 && seen->earliest < ltime))
    return wake_drop(steps, WAKE_DROP_OTHER);
  steps->is_armed = 0;
  steps->event.ltime = ltime;
  steps->event.distance = steps->distance;
  steps->event.tbi = steps->tbi;
  steps->event.tai = steps->tai;
  steps->event.tintr = seen->tintr;
  steps->event.interrupt = seen->interrupt;
  steps->event.state = steps->state;
  steps->event.interrupts_off = steps->tai != 0;
  steps->is_pending = steps->tai == 0;
  return !steps->is_pending;
}

static inline bool wake_on_expire(struct wake_steps *steps, uint64_t now,
                                  uint64_t timer, uint64_t ltime) {
  const struct wake_seen seen = steps->seen;
  bool is_ours = timer == steps->timer;
  if (!is_ours && (seen.earliest == 0 || ltime < seen.earliest))
    steps->seen.earliest = ltime;
  return is_ours && steps->is_armed && wake_judge(steps, &seen, now, ltime);
}

#endif
