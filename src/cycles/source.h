/* source: a way to learn a core's unhalted time. */
#ifndef PERCORE_SOURCE_H
#define PERCORE_SOURCE_H

#include <stdbool.h>

/* In the order in which SOURCE_AUTO tries them. */
enum source {
  SOURCE_AUTO = -2,
  SOURCE_NONE = -1,
  SOURCE_MPERF,      /* msr/mperf: counts at the base frequency, stops in HLT */
  SOURCE_REF_CYCLES, /* PERF_COUNT_HW_REF_CPU_CYCLES */
  SOURCE_EVENT,      /* a configured perf event */
  SOURCE_BPF,        /* 1 - halted time of an idle clock in the kernel / wall */
  SOURCE_IDLE,       /* 1 - (idle + iowait of /proc/stat) / wall */
  SOURCES,
};

enum proof {
  PROOF_PENDING,      /* not yet run */
  PROOF_PROVEN,       /* full while spinning, falls while idle */
  PROOF_UNPROVEN,     /* a half could not be run: used, and shown as unproven */
  PROOF_TICK_SAMPLED, /* the source idle on a kernel without dynamic tick */
  PROOF_REFUTED,      /* does not measure unhalted time: never used */
};

enum denominator {
  DENOMINATOR_AUTO,
  DENOMINATOR_TSC,          /* msr/tsc of the same group */
  DENOMINATOR_TIME_ENABLED, /* time_enabled x base frequency */
};

/* What to do with isolated cores, as a hardware read interrupts the core that
 * it reads. */
enum isolated_cores {
  ISOLATED_CORES_IDLE,     /* the source idle */
  ISOLATED_CORES_BPF,      /* the source bpf, else idle */
  ISOLATED_CORES_HARDWARE, /* like any other core */
  ISOLATED_CORES_SKIP,     /* no value */
};

/* "mperf", "ref-cycles", "event", "bpf", "idle"; "none", "auto". */
const char *source_name(enum source source);
const char *proof_name(enum proof proof);

/* Sources whose reads interrupt the core, as a mask and one by one. */
#define SOURCE_COUNTERS ((1U << SOURCE_BPF) - 1)
static inline bool source_is_counter(enum source source) {
  return source >= 0 && source < SOURCE_BPF;
}

/* Parse the names used in the configuration. Return 0 or -EINVAL. */
int source_parse(enum source *source, const char *text);
int denominator_parse(enum denominator *denominator, const char *text);
int isolated_cores_parse(enum isolated_cores *isolated, const char *text);

#endif
