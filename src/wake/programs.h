/* programs: loads the BPF programs and attaches them. */
#ifndef PERCORE_WAKE_PROGRAMS_H
#define PERCORE_WAKE_PROGRAMS_H

#include "probe.h"
#include "wake.h"

#define WAKE_LINKS 5

struct wake_programs {
  struct wake_probe *probe; /* shared with the programs */
  int links[WAKE_LINKS];    /* descriptors of tracepoints; -1: not attached */
  int programs[WAKE_LINKS]; /* descriptors of the programs to attach */
  int begin;            /* descriptor of the program that starts the timer */
  struct wake_bpf *bpf; /* wake.bpf.c; one of these two is not NULL */
  struct wake_timer_bpf *timer; /* wake_timer.bpf.c */
};

/* Loads the programs, which do not run until they are attached. Loading needs
 * CAP_BPF and CAP_PERFMON. With has_timer, wake_programs_start_timer can be
 * called; not every kernel has BPF timers. Returns -ENOTSUP if percore was
 * built without BPF. */
int wake_programs_load(struct wake_programs *programs, bool has_timer,
                       char why[WHY_SIZE]);

/* Attaches the programs to their tracepoints. The kernel interrupts every core
 * about 15 times for each tracepoint. With finds_timer, the programs also see
 * timers start, and so learn the address of their own timer. */
int wake_programs_attach(struct wake_programs *programs, bool finds_timer,
                         char why[WHY_SIZE]);
/* Detaches the program that sees timers start. Call this function when the
 * address of the timer has become known. */
void wake_programs_timer_is_found(struct wake_programs *programs);
void wake_programs_detach(struct wake_programs *programs);

/* Starts the BPF timer on this thread's core. */
int wake_programs_start_timer(struct wake_programs *programs);

/* Detaches and unloads the programs. */
void wake_programs_free(struct wake_programs *programs);

#endif
