/* probe: the state of a measurement, which this process shares with the BPF
 * programs by mmap. */
#ifndef PERCORE_WAKE_PROBE_H
#define PERCORE_WAKE_PROBE_H

#include "steps.h"

#define WAKE_EVENTS 2048 /* how many events can wait to be collected */
#define WAKE_NO_CORE 0xffffffffu

/* Offset of the expiry in the kernel's struct hrtimer, on 64-bit machines: the
 * struct begins with a timerqueue_node, which begins with an rb_node of three
 * words. */
#define WAKE_HRTIMER_EXPIRES 24

struct wake_probe {
  /* Set by this process before the programs run. */
  uint32_t core;        /* the programs ignore all other cores */
  uint32_t thread;      /* ID of the waiting thread; 0: BPF timer */
  uint32_t timer_flags; /* flags of bpf_timer_start */
  uint64_t distance_min, distance_range; /* from arming to LTime, ns */
  uint64_t armed_max;                    /* no more events are armed */
  /* The state of the programs. */
  uint32_t is_arming;
  uint32_t is_gone; /* the core went offline, or the timer expired, or the
                       thread ran, on another core */
  uint64_t armed;
  struct wake_steps steps;
  uint64_t head; /* how many events have been published */
  struct wake_event events[WAKE_EVENTS];
};

#endif
