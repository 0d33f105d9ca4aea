/* source_kind: the ways to measure a core's unhalted time. */
#ifndef PERCORE_SOURCE_KIND_H
#define PERCORE_SOURCE_KIND_H

#include <stdbool.h>

/* In the order in which SOURCE_AUTO tries the sources. */
enum source_kind {
  SOURCE_AUTO = -2,
  SOURCE_NONE = -1,
  SOURCE_MPERF,      /* msr/mperf: counts at the base frequency, stops in HLT */
  SOURCE_REF_CYCLES, /* PERF_COUNT_HW_REF_CPU_CYCLES */
  SOURCE_EVENT,      /* cnt_cycles of arm64: stops in WFI */
  /* 1 - halted time / wall time, from an idle clock in the kernel. */
  SOURCE_BPF,
  SOURCE_IDLE, /* 1 - (idle + iowait) / wall time, from /proc/stat */
  SOURCES,
};

enum proof {
  PROOF_PENDING,  /* not yet run */
  PROOF_PROVEN,   /* read full load on a spinning core, less on an idle core */
  PROOF_UNPROVEN, /* could not be tested fully: used, but shown as unproven */
  /* The kernel samples the idle time of the idle source at the tick. */
  PROOF_TICK_SAMPLED,
  PROOF_REFUTED, /* does not measure unhalted time: not used */
};

/* How to measure isolated cores. Reading a hardware counter interrupts the
 * core. */
enum isolated_cores {
  ISOLATED_CORES_IDLE, /* use the idle source */
  ISOLATED_CORES_BPF,  /* use the bpf source, or idle if bpf is unavailable */
  ISOLATED_CORES_HARDWARE, /* treat them like any other core */
  ISOLATED_CORES_SKIP,     /* do not measure them */
};

/* Returns "mperf", "ref-cycles", "event", "bpf", "idle", "none" or "auto". */
const char *source_name(enum source_kind source);
const char *proof_name(enum proof proof);

/* True for the sources whose reads interrupt the core. */
static inline bool source_is_counter(enum source_kind source) {
  return source >= 0 && source < SOURCE_BPF;
}

extern const char *const isolated_cores_names[]; /* the last is NULL */

/* Parse the names that the configuration uses. Return 0 or -EINVAL. */
int source_parse(enum source_kind *source, const char *text);
int isolated_cores_parse(enum isolated_cores *isolated, const char *text);

#endif
