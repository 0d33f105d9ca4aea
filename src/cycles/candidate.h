/* candidate: a source as this machine offers it: the events that it reads, how
 * unhalted time is computed from them, and whether it may be used. On a hybrid
 * processor each kind of core has candidates of its own.
 */
#ifndef PERCORE_CANDIDATE_H
#define PERCORE_CANDIDATE_H

#include "backoff.h"
#include "core_set.h"
#include "perf_event.h"
#include "source.h"

#define CANDIDATES_MAX 12
#define CANDIDATE_REASON_MAX 256
#define CANDIDATE_PMU_MAX 64

struct engine_options;
struct topology;

struct candidate {
  enum source source;
  bool available;                     /* false: reason says why */
  char reason[CANDIDATE_REASON_MAX];  /* "": in good order */
  char trouble[CANDIDATE_REASON_MAX]; /* of the last core that failed */
  enum proof proof;
  bool must_be_proven; /* pending and unproven are not enough */
  struct backoff proof_backoff;
  int proof_tries;       /* each try uses another core */
  bool doubt_reported;   /* the journal says that the kernel sees more work */
  bool yields_to_guests; /* unavailable while this host runs guests */
  bool yielded;
  bool needs_tsc_rate; /* unavailable until the rate of msr/tsc is measured */
  char pmu[CANDIDATE_PMU_MAX]; /* in sysfs; "": of no particular cores */
  uint64_t pmu_type;           /* of a hybrid processor, else 0 */
  bool any_core;
  struct core_set cores; /* that it can serve, unless any_core */

  /* Hardware only. The unhalted counter is events[0]. */
  int events_len;
  struct perf_event events[PERF_GROUP_EVENTS_MAX];
  int tsc;   /* index in events, -1: not in the group */
  int aperf; /* likewise */
  int smi;   /* likewise */
  bool pinned;
  enum denominator denominator; /* never DENOMINATOR_AUTO */
  double base_frequency_hz;     /* 0: not needed */
  double tsc_per_ns;            /* as first measured; 0: not yet */
};

/* The time between two readings of a group, as the group measured it. */
struct candidate_window {
  double wall_ns;     /* on the clock of the group: d(time_enabled) */
  double unhalted_ns; /* not clamped to wall_ns */
  double running;     /* d(time_running) / d(time_enabled) */
  double base_cycles; /* cycles of the base frequency in wall_ns, 0 unknown */
  double mperf, aperf, smi; /* 0 if not in the group */
};

/* ---------------------------------------------------------------------------
 * candidates.c
 */

/* Fills candidates[] in the order in which they are tried, and returns their
 * number. Unavailable candidates are included, with their reason. */
int candidates_find(struct candidate candidates[CANDIDATES_MAX],
                    const struct engine_options *options,
                    const struct topology *topology);

/* Reads which cores each PMU serves. Call it when cores have come or gone, and
 * before the first core is served. */
void candidates_find_cores(struct candidate candidates[], int len,
                           const struct machine *machine);

/* Counters that also count in guests can keep guests from starting. Gives them
 * up when the first guest has appeared, and takes them back when the last guest
 * has gone. */
void candidates_yield_to_guests(struct candidate candidates[], int len,
                                const struct machine *machine);

/* Measures the rate of msr/tsc for the candidates that still need it, on the
 * first core that allows it. Takes 20 ms, or no time if no candidate needs the
 * rate. Returns 0 or -errno; the candidates then remain unavailable. */
int candidates_measure_tsc(struct candidate candidates[], int len,
                           const struct machine *machine,
                           const struct topology *topology);

/* ---------------------------------------------------------------------------
 * candidate.c
 */

bool candidate_serves(const struct candidate *candidate, int core);

int candidate_open(const struct candidate *candidate, struct perf_group *group,
                   const struct machine *machine, int core, bool pinned);

/* Returns 0; -ESTALE if time_enabled did not move (the core has been away);
 * -EAGAIN if the group was never scheduled in (nothing is known). */
int candidate_window(const struct candidate *candidate,
                     const struct perf_reading *from,
                     const struct perf_reading *to,
                     struct candidate_window *window);

#endif
