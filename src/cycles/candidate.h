/* candidate: a source as this machine has it: which events it reads, how a load
 * comes out of them, and whether it may be used. Hybrid processors have one of
 * SOURCE_REF_CYCLES for each of their PMU types.
 */
#ifndef PERCORE_CANDIDATE_H
#define PERCORE_CANDIDATE_H

#include "engine.h"
#include "perf_event.h"

#define CANDIDATES_MAX 8
#define CANDIDATE_REASON_MAX 256
#define CANDIDATE_PMU_MAX 64

struct candidate {
  enum source source;
  bool available;                     /* false: reason says why */
  char reason[CANDIDATE_REASON_MAX];  /* "" in good order */
  char trouble[CANDIDATE_REASON_MAX]; /* of the last core that failed */
  enum proof proof;
  bool must_be_proven; /* pending and unproven are not enough */
  bool doubt_said;     /* the log says that the kernel sees more work than this
                          source */
  bool yields_to_guests; /* while this host runs any, it is not available */
  bool yielded;
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
  double tsc_per_ns;            /* as first seen; 0: not yet */
};

/* What two readings of a group say about the time between them. */
struct candidate_window {
  double load;        /* not clamped */
  double progress_ns; /* d(time_enabled): how long the group itself existed */
  double running;     /* d(time_running) / d(time_enabled) */
  double base_cycles; /* cycles of the base frequency in that time, 0 unknown */
  double mperf, aperf, smi; /* 0 where not in the group */
};

/* Fills candidates[] in the order in which they are to be tried, and returns
 * how many there are. Unavailable ones are in it, too, with their reason. */
int candidates_find(struct candidate candidates[CANDIDATES_MAX],
                    const struct engine_options *options,
                    const struct topology *topology);

/* Reads which cores each PMU serves. Call it when cores have come or gone, and
 * before the first core is served. */
void candidates_find_cores(struct candidate candidates[], int len,
                           const struct machine *machine);

/* A counter that also counts in guests can keep guests from starting, so it is
 * given up when the first guest appears and taken again when the last guest has
 * gone. */
void candidates_mind_guests(struct candidate candidates[], int len,
                            const struct machine *machine);

bool candidate_serves(const struct candidate *candidate, int core);

/* What -errno of opening a counter means, and what helps. */
void candidate_explain(char *text, size_t size, int status);

int candidate_open(const struct candidate *candidate, struct perf_group *group,
                   const struct machine *machine, int core, bool pinned);

/* Returns 0; -ESTALE if time_enabled did not move (the core has been away);
 * -EAGAIN if the group was never scheduled in (nothing is known). */
int candidate_window(const struct candidate *candidate,
                     const struct perf_reading *from,
                     const struct perf_reading *to,
                     struct candidate_window *window);

#endif
