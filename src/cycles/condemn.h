/* condemn: when a hardware source is caught lying. */
#ifndef PERCORE_CONDEMN_H
#define PERCORE_CONDEMN_H

#include <stdbool.h>
#include <stdint.h>

/* This many windows in a row, each LOADAVG_INTERVAL_NS long, ... */
#define CONDEMN_WINDOWS 3
/* ... in which the counter saw this much less work than the idle clock of the
 * kernel, which cannot miss any: it counts from going idle to coming back. */
#define CONDEMN_POINTS 0.05
/* How long a condemned source rests. */
#define CONDEMN_REST_NS (UINT64_C(900) * 1000000000)

struct condemn {
  int windows; /* in a row so far */
};

/* One window of a core on a hardware source: its load, the kernel's lower bound
 * 1 - (idle + iowait + steal + guest) / wall and steal / wall over the same
 * time, how long the read of /proc/stat took, and whether the kernel's idle
 * time is tick-sampled (it then proves nothing). Guests that halt by themselves
 * are at work to the kernel. Windows that say nothing neither count nor
 * interrupt the sequence. A counter that reads more than the kernel saw is
 * never condemned for it: a core that does XDP in softirq looks like that.
 * Returns true when the source is to be condemned; the sequence then starts
 * anew. */
bool condemn_judge(struct condemn *condemn, double hardware, double kernel,
                   double steal, uint64_t bracket_ns, bool tick_sampled);

#endif
