/* totals: the running totals of a core, and what a window between two of them
 * says: the load, and how far it may be from the truth. This is the only place
 * where that is derived; each source computes its part (source_*.c).
 *
 * A source knows the unhalted time U of a core only up to an error. What
 * accumulates with time is added to the totals of the core:
 *
 *   stolen   of U, at most this much was stolen by the hypervisor
 *   over     of U, at most this much was not unhalted for other reasons
 *   under    at most this much unhalted time is missing from U
 *   unknown  time that no source covered; it is not in `wall`
 *
 * What depends only on the reading, because it cancels in the next window, is
 * the error at the end of the totals: the true sum is between U - end_over and
 * U + end_under. Over a window from A to B, as shares of wall + unknown:
 *
 *   low  = dU - dstolen - dover - B.end_over - A.end_under
 *   high = dU + dunder + dunknown + B.end_under + A.end_over
 *
 * What each source adds, where W is the wall time of the window:
 *
 * Counters. A group that shares its counters is not used. The counter runs
 * between rate_low and rate_high times as fast as its divisor, as its
 * proof has measured: over = U - U / rate_high, under = U / rate_low - U. If
 * the rate of the TSC changed from R to R' per ns of wall time since the last
 * window, because this machine was migrated, the counts before and after the
 * change have different weights: over = under = |1 - R / R'| W. The counters of
 * a group are read within 20 us: end_over = end_under = 20 us.
 *
 * bpf. The words of all cores are read within a bracket, and a halt that begins
 * or ends in the bracket is counted for up to all of it: end_over = end_under =
 * bracket. Of each of H halts, BLIND_INSTRUCTIONS are outside of the programs:
 * under = blind_ns H, and end_under has the time since the columns were read,
 * whose halts are not known yet. A core does not halt while its time is stolen:
 * stolen = steal, which is truncated to 10 ms. Where a hypervisor has ever
 * stolen time, end_over thus has 10 ms more, and the time since the columns
 * were read; while they are missing, all time may be stolen. Where no steal has
 * been reported, stolen = U while columns are missing and the machine may be
 * virtual.
 *
 * idle. U = W - idle - iowait, and without idle_stealtime, idle time may
 * include steal: stolen = steal. With idle_stealtime, U = W - idle - iowait -
 * steal, and the kernel takes the steal of an idle sequence off the next
 * sequence. Steal that is not yet taken off, the carry C, is at the moment in
 * both columns: end_under = C. C is at most the steal since the last window in
 * which idle time grew: an idle sequence that is longer than C uses C up. Each
 * column is truncated to 10 ms: end_over = 20 ms, and with steal 30 ms. If
 * iowait has not changed, it has not decreased either, so A.end_over counts 10
 * ms less. While steal was seen in the last minute, end_over has another 10 ms,
 * in all sources that need columns: the kernel adds steal at the core's next
 * tick. A row is read at any time within the bracket of the read, in whose
 * middle the window ends: end_over and end_under also have half of the longer
 * bracket of the window's two reads. The kernel may count softirqs on an idle
 * core as idle: under = W - U. It may sample idle time at the tick: then, and
 * where idle time that is not proven stands in for another source, also over =
 * U. Otherwise, idle time includes what the idle loop itself needs before and
 * after a halt, 1 to 6.5 us: under = min(8 us H, W - U); 16 us while steal was
 * seen in the last minute, three times as much if something is seen to trace
 * the idle loop (idle_is_traced). H is at least the number of the core's halts:
 * the number of interrupts and context switches of all cores. If 8 us H is then
 * more than 1 % of W and engine_options.bounds is set, H is instead the number
 * of times that the core has entered an idle state, which its idle driver
 * counts. Without a driver, only interrupts end a halt, unless the processor
 * has MWAIT.
 *
 * Pauses. If a virtual machine is paused while its clock goes on, its columns
 * lack that time, unless the core was idle. Columns may also lack work that the
 * tick does not see: lacks = W - the sum of the columns. A pause is at most the
 * growth of `lacks` over the window, and 10 ms for each column that has grown:
 * a truncated column that has not grown makes `lacks` too large at most. The
 * errors of idle time, by idle, and of steal are not part of it, because they
 * cancel in U less `lacks`. So U is too large by end_over or, in a pause, by
 * what the columns lack:
 *
 *   low = dU - dstolen - dover - A.end_under -
 *         max(B.end_over, dlacks + B.end_lacks + 10 ms for each of the columns)
 *
 * end_lacks is the sum of the bracket of the read, TICK_REST_NS and, by bpf,
 * the time since the columns were read. If the tick counts too much while the
 * machine is paused, the bounds do not include the pause.
 *
 * The kernel may read idle and iowait wrongly for one sample, because a task
 * starts or stops waiting between the two reads; the bounds do not include
 * that. */
#ifndef PERCORE_TOTALS_H
#define PERCORE_TOTALS_H

#include "procstat.h"

#include <stdbool.h>
#include <stdint.h>

/* The columns of /proc/stat are truncated to a multiple of this. */
#define COLUMN_RESOLUTION_NS 10e6

/* The counters of a group are all read within this time. */
#define COUNTER_SKEW_NS 20e3

/* At most this much of each halt, before the core halts and after its
 * interrupt, is outside of both programs of the idle clock: 640 to 1000
 * instructions, by the exact counter of an emulated arm64 processor
 * (tests/testbed). Each takes up to 2 ns with cold caches, and longer if it is
 * emulated. */
#define BLIND_INSTRUCTIONS 1000
#define BLIND_INSTRUCTION_NS 2

/* If one column counts all work, the tick has yet to count up to this much more
 * than COLUMN_RESOLUTION_NS: 8 + 4 ms at 250 Hz. */
#define TICK_REST_NS 2e6

/* What the idle loop needs around each halt, with a margin. */
#define IDLE_LOOP_NS 8e3

/* Running totals of one core since it was first seen. The difference between
 * two totals of the same epoch describes a window. A new epoch begins after a
 * change that no window can span: the core went offline, or the machine was
 * suspended or paused. A window may span several sources. Times are in
 * nanoseconds unless stated otherwise. A double holds up to 2^53 ns (104 days)
 * exactly, and longer times to a relative error of 1e-16. */
struct core_totals {
  uint64_t epoch;     /* from 1 on */
  double wall;        /* time covered by `unhalted` */
  double unhalted;    /* measured by the core's source */
  double stolen;      /* upper bound of stolen time within `unhalted` */
  double over, under; /* other errors of `unhalted`: see bounds_of */
  /* How much less than wall time the columns account for; negative if they
   * account for more. Only of windows that may contain a pause: columns and the
   * idle clock do not tell it from work. */
  double lacks;
  /* Of the last reading, not sums: how far `unhalted` less `lacks` may be from
   * the truth (0: no pause is possible), but for columns that are truncated;
   * and whether these include those of idle time. */
  double end_lacks;
  bool lacks_idle;
  double unknown; /* time since the first window that is not in `wall` */
  double end_over, end_under; /* of the last reading; not sums: see bounds_of */
  uint64_t stat_epoch;        /* like epoch, for the stat_ members */
  double stat_wall;
  double stat_busy; /* user + nice + system + irq + softirq */
  double stat_idle; /* idle + iowait; decreases of the sum are ignored */
  double stat_steal;
  double stat_polled;               /* of stat_idle, while the core polled */
  double stat_ns[PROCSTAT_COLUMNS]; /* each column */
  double aperf, mperf;              /* cycles; 0 if not counted */
  /* cycles at the base frequency, and the part of `wall` in which a counter
   * measured them */
  double base_cycles, base_wall;
};

/* Returns the time that all columns of /proc/stat account for. */
static inline double core_stat_sum(const struct core_totals *total) {
  return total->stat_busy + total->stat_idle + total->stat_steal;
}

/* Returns how long the core ran virtual machines. This time is also part of
 * stat_busy. */
static inline double core_stat_guest(const struct core_totals *total) {
  return total->stat_ns[PROCSTAT_GUEST] + total->stat_ns[PROCSTAT_GUEST_NICE];
}

/* Returns the load, 0 to 1, over the window between two totals of one core; NAN
 * if the totals belong to different epochs or no time lies between them. A load
 * that rounding puts outside this range is clamped. */
double engine_load(const struct core_totals *from,
                   const struct core_totals *to);

/* Returns the share of a window, 0 to 1, in which the core polled in the idle
 * loop. That time is part of the load, but no work. NAN if unknown. */
double engine_idle_poll(const struct core_totals *from,
                        const struct core_totals *to);

/* Adds the share of polls that found nothing to the room of a core. NAN:
 * unknown. */
static inline double more_room(double room, double polls) {
  double sum = room + polls;
  return sum < 0 ? 0 : sum > 1 ? 1 : sum; /* both false for NAN */
}

/* Returns the core's mean frequency while it was not halted; NAN if unknown. */
double engine_frequency_hz(const struct core_totals *from,
                           const struct core_totals *to);

struct bounds {
  double low, high; /* 0 to 1; NAN if the load is unknown */
};

/* Returns bounds of the load over the window between two totals of a core. The
 * load itself is between them. */
struct bounds bounds_of(const struct core_totals *from,
                        const struct core_totals *to);

#endif
