/* tracepoints: reads the events on a core from perf. Replaces the BPF programs
 * where they cannot be loaded. */
#ifndef PERCORE_WAKE_TRACEPOINTS_H
#define PERCORE_WAKE_TRACEPOINTS_H

#include "probe.h"
#include "wake.h"

#include <linux/perf_event.h>

enum wake_tracepoint {
  WAKE_ON_IDLE,
  WAKE_ON_START,
  WAKE_ON_EXPIRE,
  WAKE_ON_INTERRUPT,
  WAKE_ON_LOCAL_TIMER, /* only on x86 */
  WAKE_TRACEPOINTS
};

#define WAKE_FIELDS 3
#define WAKE_TIMERS 256

/* The positions of fields in the records of a tracepoint. */
struct wake_format {
  uint16_t id; /* 0: this kernel lacks the tracepoint */
  struct {
    uint32_t offset, size;
  } fields[WAKE_FIELDS];
};

struct wake_tracepoints {
  int descriptors[WAKE_TRACEPOINTS]; /* negative: not open */
  struct wake_format formats[WAKE_TRACEPOINTS];
  struct perf_event_mmap_page *ring;
  size_t ring_size;
  uint64_t lost; /* records */
  struct {
    uint64_t timer, ltime;
  } timers[WAKE_TIMERS]; /* when timers are due, by a hash of their address */
};

/* Opens the tracepoints on a core. Needs CAP_PERFMON, and read access to
 * /sys/kernel/tracing. Returns 0, or a negative errno after writing the reason
 * to `why`. */
int wake_tracepoints_open(struct wake_tracepoints *tracepoints, int core,
                          char why[WAKE_WHY_SIZE]);

/* Handles all events since the last call in the same way as the BPF programs.
 * If records were lost, drops the datapoint in progress. */
void wake_tracepoints_read(struct wake_tracepoints *tracepoints,
                           struct wake_probe *probe);

/* Closes what is open; `tracepoints` may be zeroed. */
void wake_tracepoints_close(struct wake_tracepoints *tracepoints);

/* Parses the tracepoint's file `format`. Returns false if a field is missing.
 */
bool wake_format_parse(struct wake_format *format,
                       enum wake_tracepoint tracepoint, const char *text);

#endif
