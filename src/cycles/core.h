/* core: one core of the machine: what the engine knows about it, and how it is
 * sampled. A failure of one core does not affect another.
 */
#ifndef PERCORE_CORE_H
#define PERCORE_CORE_H

#include "candidate.h"
#include "perf_event.h"
#include "procstat.h"
#include "source.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;

/* Running totals of one core since it was first seen. The difference between
 * two totals of the same epoch is a window. A new epoch begins when a window
 * becomes worthless: the core went away, the machine slept, or the source
 * changed. An impossible sample is dropped; the rest of its window still
 * counts. All in nanoseconds unless stated otherwise: a double holds 2^53 ns =
 * 104 days exactly, and any longer time to 1e-16. */
struct core_totals {
  uint64_t epoch;
  double wall;         /* time covered by `unhalted` */
  double unhalted;     /* as the core's source measures it */
  double stolen;       /* at most this much of `unhalted` was stolen */
  uint64_t stat_epoch; /* the same for the columns of /proc/stat */
  double stat_wall;
  double stat_busy; /* user + nice + system + irq + softirq */
  double stat_idle; /* idle + iowait, held where it steps back */
  double stat_steal;
  double stat_ns[PROCSTAT_COLUMNS]; /* each column; idle and iowait not held */
  double aperf, mperf;              /* cycles; 0 if the source has none */
  double smi;                       /* system management interrupts */
  double base_cycles;               /* of the base frequency during `wall` */
  uint64_t ipc_epoch;
  double cycles, instructions; /* while the IPC group ran */
  double ipc_enabled, ipc_running;
};

/* All that the columns of /proc/stat account for. */
static inline double core_stat_sum(const struct core_totals *total) {
  return total->stat_busy + total->stat_idle + total->stat_steal;
}

/* Time in virtual machines of this host; part of stat_busy. */
static inline double core_stat_guest(const struct core_totals *total) {
  return total->stat_ns[PROCSTAT_GUEST] + total->stat_ns[PROCSTAT_GUEST_NICE];
}

/* One sample, kept separate until the whole sample is known to be good. */
struct core_sample {
  bool valid, stat_valid;    /* the load; the columns of /proc/stat */
  struct core_totals growth; /* what the sample adds to the totals */
  /* How far the core's own clocks moved while CLOCK_MONOTONIC moved by
   * monotonic_ns; -1 unknown. */
  double progress_ns, monotonic_ns;
};

struct core {
  int number;
  bool online;
  bool isolated;
  enum source source; /* in use; SOURCE_NONE: the core has no value now */
  enum proof proof;   /* of that source */
  bool counts_smi;    /* that source's group */
  double multiplexed; /* time_running / time_enabled of the last window */
  struct core_totals total;

  /* The members below belong to the engine. */
  int candidate; /* index of the source in use, -1: none */
  int announced; /* the candidate that the journal last named */
  struct backoff backoff[CANDIDATES_MAX]; /* of candidates that failed here */
  struct perf_group group;
  bool has_reading; /* of that group */
  struct perf_reading reading;
  uint64_t reading_time_ns;

  uint64_t halted_ns; /* at reading_time_ns, if the source is bpf */

  struct backoff ipc_backoff;
  struct perf_group ipc_group;
  bool has_ipc_reading;
  struct perf_reading ipc_reading;

  bool has_row; /* where the next window of /proc/stat begins */
  struct procstat_row row;
  uint64_t row_time_ns;
  uint64_t idle_ns; /* the highest idle + iowait seen, as it may step back */
  int refusals;     /* consecutive windows that cannot be right */

  struct core_sample sample;
  struct core_totals judged; /* totals when the source was last judged */
  int low_windows;           /* consecutive windows that speak against it */
};

/* Chooses the best candidate that is available now, and opens it. `allowed` is
 * a bit mask of sources. */
void core_choose(struct engine *engine, struct core *core, unsigned allowed);

/* Closes everything. The next window begins at the next reading. */
void core_close(struct engine *engine, struct core *core);

/* Closes everything and forgets failures, because the core was away. */
void core_restart(struct engine *engine, struct core *core);

/* Reads counters and columns into core->sample. */
void core_read(struct engine *engine, struct core *core);

/* Adds core->sample to the totals. */
void core_commit(struct engine *engine, struct core *core);

/* The two parts of a sample that need /proc/stat: the columns, and the load
 * outside the idle columns. A window that cannot be right is refused and its
 * base is kept, so that the next window covers it. */
void core_read_columns(struct engine *engine, struct core *core);
void core_read_idle(const struct engine *engine, struct core *core);

/* The next window of /proc/stat begins at the next reading. */
void core_forget_columns(struct core *core);

#endif
