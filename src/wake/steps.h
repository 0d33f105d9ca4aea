/* steps: recognizes, in the stream of events on one core, how the core woke for
 * a timer. The BPF programs call these functions. The handling of one event on
 * a core is never interrupted by another event on that core.
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

/* Why an expired timer produced no datapoint. */
enum wake_drop {
  WAKE_DROP_BUSY,  /* the core was not idle at LTime */
  WAKE_DROP_OTHER, /* another interrupt, or a timer that was due before LTime,
                      had woken the core */
  WAKE_DROP_EARLY, /* the timer expired before LTime or more than 1 s after it,
                      so struct hrtimer has a different layout than expected */
  WAKE_DROP_LOST,  /* the end of the idle state, or of the thread's wait, was
                      not seen */
  WAKE_DROP_NO_INTERRUPT, /* the entry of the interrupt was not seen */
  WAKE_DROPS
};

/* An event. All times are in nanoseconds of CLOCK_MONOTONIC, except `distance`,
 * a duration in nanoseconds. */
struct wake_event {
  uint64_t ltime, distance, tbi, tai, tintr;
  uint64_t end;   /* when the waiting thread ran; 0: no thread waited */
  uint32_t state; /* number of the idle state */
  uint32_t interrupts_off;
};

struct wake_steps {
  uint64_t tbi, tai, tintr; /* 0: not seen since the core became idle; tintr:
                               of the first interrupt */
  uint64_t earliest; /* LTime of the earliest other timer that has expired since
                        the core became idle; 0: none */
  uint32_t state;
  uint32_t is_passive; /* uses every timer; of several timers that one interrupt
                          expires, uses the earliest */
  uint64_t timer;      /* address of our timer; 0: unknown */
  uint64_t distance;   /* from arming the event to LTime */
  uint32_t is_armed;   /* if 0, our timer only ends a pause */
  uint32_t is_pending; /* TAI or, if passive, an earlier LTime may follow */
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
  steps->tintr = 0;
  steps->earliest = 0;
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

static inline void wake_on_interrupt(struct wake_steps *steps, uint64_t now) {
  if (steps->tintr == 0)
    steps->tintr = now;
}

static inline bool wake_drop(struct wake_steps *steps, enum wake_drop reason) {
  if (!steps->is_passive)
    steps->drops[reason]++;
  return false;
}

static inline bool wake_on_expire(struct wake_steps *steps, uint64_t now,
                                  uint64_t timer, uint64_t ltime) {
  bool is_ours = timer == steps->timer;
  if (!is_ours && (steps->earliest == 0 || ltime < steps->earliest))
    steps->earliest = ltime;
  if (!steps->is_passive && (!is_ours || !steps->is_armed))
    return false;
  steps->is_armed = 0;
  if (steps->is_pending) { /* passive: another timer of the same interrupt */
    if (ltime > steps->event.tbi && ltime < steps->event.ltime)
      steps->event.ltime = ltime;
    return false;
  }
  if (now < ltime || now - ltime > 1000000000)
    return wake_drop(steps, WAKE_DROP_EARLY);
  if (steps->tbi == 0 || steps->tbi >= ltime ||
      (steps->tai != 0 && steps->tai <= ltime))
    return wake_drop(steps, WAKE_DROP_BUSY);
  if (steps->tintr == 0)
    return wake_drop(steps, WAKE_DROP_NO_INTERRUPT);
  if (steps->tintr <= ltime || steps->tintr < steps->tai ||
      (steps->earliest != 0 && steps->earliest < ltime))
    return wake_drop(steps, WAKE_DROP_OTHER);
  steps->event.ltime = ltime;
  steps->event.distance = steps->is_passive ? 0 : steps->distance;
  steps->event.tbi = steps->tbi;
  steps->event.tai = steps->tai;
  steps->event.tintr = steps->tintr;
  steps->event.state = steps->state;
  steps->event.interrupts_off = steps->tai != 0;
  steps->is_pending = steps->is_passive || steps->tai == 0;
  return !steps->is_pending;
}

#endif
