/* source: a source as this machine provides it. Holds the events to read,
 * how to compute unhalted time from them, and whether the source may be used.
 * On a hybrid processor, each kind of core has its own sources. */
#ifndef PERCORE_SOURCE_H
#define PERCORE_SOURCE_H

#include "backoff.h"
#include "base/core_set.h"
#include "base/why.h"
#include "perf_event.h"
#include "source_kind.h"

#define SOURCES_MAX 12
#define SOURCE_PMU_MAX 64

/* A proof accepts a counter that counts between this much and this much of the
 * core's unhalted time. MPERF and the TSC differ by up to 1 % on some
 * processors. */
#define SOURCE_RATE_MIN 0.97
#define SOURCE_RATE_MAX 1.02

struct core_totals;
struct engine_options;
struct topology;

struct source {
  enum source_kind kind;
  bool available; /* if false, reason says why */
  /* Why it is unavailable, or what went wrong with it since its last proof; ""
   * if nothing is wrong. */
  char reason[WHY_SIZE];
  enum proof proof;
  /* How fast the counter runs relative to its divisor, according to the last
   * proof; 0: unknown. */
  double rate_low, rate_high;
  bool must_be_proven; /* not usable until it is proven */
  struct backoff proof_backoff;
  /* A core on which it was condemned since its last proof, or -1. */
  int condemned_core;
  /* the name of the PMU in sysfs; "" if the PMU is not tied to certain cores */
  char pmu[SOURCE_PMU_MAX];
  struct core_set cores; /* the cores that can use it */

  /* For hardware sources only. events[0] counts unhalted time. */
  int events_len;
  struct perf_event events[PERF_GROUP_EVENTS_MAX];
  int tsc;   /* index of msr/tsc, the divisor of events[0], or -1 */
  int aperf; /* index of aperf in events, or -1 */
  bool pinned;
  /* The divisor of events[0] if tsc is -1, otherwise unused. */
  double base_frequency_hz;
  double tsc_per_ns; /* the last known rate of the TSC; 0: not measured yet */
};

static inline void source_set_unavailable(struct source *source,
                                          const char *reason) {
  source->available = false;
  snprintf(source->reason, sizeof(source->reason), "%s", reason);
}

/* Fills sources[] in the order in which they are tried, including
 * unavailable sources with their reason. Returns the number of
 * sources. */
int sources_find(struct source sources[SOURCES_MAX],
                 const struct engine_options *options,
                 const struct topology *topology);

/* Finds out which cores can use each source. Call this before the first core
 * is sampled, and whenever cores have come online or gone offline. */
void sources_find_cores(struct source sources[], int len,
                        const struct machine *machine);

int source_open(const struct source *source, struct perf_group *group,
                const struct machine *machine, int core, bool pinned);

/* Computes what the group counted between two readings. Sets these members of
 * *growth: wall (the growth of time_enabled), unhalted (not clamped to wall),
 * base_cycles, base_wall, mperf and aperf. Returns 0; -ESTALE if time_enabled
 * did not advance, because the core was offline; -EBUSY if the group did not
 * have its counters all the time. *growth is unchanged on error. */
int source_window(const struct source *source, const struct perf_reading *from,
                  const struct perf_reading *to, struct core_totals *growth);

#endif
