/* core: what the engine keeps about one core, and how one core's sample is
 * taken. One core's trouble ends here. */
#ifndef PERCORE_CORE_H
#define PERCORE_CORE_H

#include "candidate.h"
#include "condemn.h"
#include "engine.h"
#include "perf_event.h"

/* What one sample adds to the totals, kept apart until the whole sample is
 * known to be good. */
struct core_step {
  bool valid; /* load */
  double wall_ns, unhalted_ns, stolen_ns;
  double aperf, mperf, base_cycles, smi;
  bool stat_valid; /* columns of /proc/stat */
  double stat_wall_ns, busy_ns, idle_ns, sum_ns, steal_ns, guest_ns;
  double column_ns[PROCSTAT_COLUMNS];
  double progress_ns; /* how far the core's own clocks moved, -1 unknown */
  double progress_wall_ns;
};

struct core {
  struct perf_group group;
  struct perf_group ipc_group;
  uint64_t ipc_rests_until_ns; /* it could not be opened */
  uint64_t ipc_rest_ns;
  int candidate; /* index, -1: none */
  int announced; /* the one that the journal last named */
  /* A candidate that failed here rests until then; it rests longer each time
   * that it fails again. CLOCK_MONOTONIC. */
  uint64_t rests_until_ns[CANDIDATES_MAX];
  uint64_t rest_ns[CANDIDATES_MAX];

  bool has_reading;
  uint64_t reading_time_ns;
  struct perf_reading reading;
  bool has_ipc_reading;
  struct perf_reading ipc_reading;
  bool has_row; /* the base of the next window of /proc/stat */
  uint64_t row_time_ns;
  struct procstat_row row;
  uint64_t idle_ns; /* the highest idle + iowait seen: it may step back */
  int refusals;     /* consecutive windows that cannot be right */

  double enabled_ns; /* time_enabled of all windows that entered the totals */

  struct condemn condemn;
  struct core_total judged; /* totals when the source was last judged */
  double judged_enabled_ns;
  struct core_step step;
};

/* How many counters may be opened in this sample; found out when the first
 * counter is to be opened. */
struct perf_room {
  long wanted; /* by all cores together */
  bool raise_limit;
  bool asked;
  long left;
  long missing; /* of those that are wanted */
};

/* What the functions below share of the engine. */
struct core_context {
  const struct machine *machine;
  const struct journal *journal;
  struct candidate *candidates;
  int candidates_len;
  const struct procstat *stat; /* NULL: withheld in this sample */
  bool steal_apart;            /* this kernel's idle time is free of steal */
  uint64_t now_ns;
  struct engine_counts *counts;
  bool *sharing_said; /* that counters are shared: said once */
  bool *ipc_said;     /* that IPC is unavailable: likewise */
  bool ipc;
  struct perf_event ipc_events[2];
  struct perf_room *room;
};

/* Puts *core in order: closes what is stale, and picks and opens the best
 * candidate that is available now. allowed says which sources the core's kind
 * (isolated or not) may have, as a bit mask of sources. */
void core_choose(struct core *core, struct engine_core *state,
                 const struct core_context *context, unsigned allowed);

/* Closes all; the next window begins at the next reading. */
void core_close(struct core *core, struct engine_core *state,
                const struct machine *machine);

/* The same, and nothing that failed here is remembered: the core was away. */
void core_restart(struct core *core, struct engine_core *state,
                  const struct machine *machine);

/* Reads counters and columns into core->step. */
void core_read(struct core *core, struct engine_core *state,
               const struct core_context *context);

/* The two parts of the sample that need /proc/stat: the columns, and the load,
 * which is the time outside the idle columns. A window that cannot be right is
 * refused and its base is kept, so that the next window covers it. */
void core_read_columns(struct core *core, struct engine_core *state,
                       const struct core_context *context);
void core_read_idle(struct core *core, const struct core_context *context);

/* The next window of /proc/stat begins at the next reading. */
void core_forget_columns(struct core *core, struct engine_core *state);

/* Adds core->step to the totals. */
void core_commit(struct core *core, struct engine_core *state,
                 const struct core_context *context);

#endif
