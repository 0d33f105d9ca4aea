/* burst: probes cores one after another. A probe arms a BPF timer that expires
 * at most 4 ms later, and measures how fast the core wakes. The BPF programs
 * are loaded once, and attached only during a burst. */
#ifndef PERCORE_WAKE_BURST_H
#define PERCORE_WAKE_BURST_H

#include "steps.h"
#include "wake.h"

#define WAKE_BURST_PROBES_MAX 1000 /* of one core in one burst */

struct wake_burst_options {
  uint32_t probes; /* of each core */
  /* Sleeps for `ns` nanoseconds. Returns false if the burst must end
   * immediately. */
  bool (*wait)(void *context, uint64_t ns);
  void *context;
};

struct wake_burst;

/* Loads the BPF programs, which requires CAP_BPF and CAP_PERFMON. Returns
 * -ENODEV if cpuidle has no driver, because results could then not be checked.
 */
int wake_burst_open(struct wake_burst **burst,
                    const struct wake_burst_options *options,
                    char why[WAKE_WHY_SIZE]);
void wake_burst_close(struct wake_burst *burst); /* NULL is ignored */

/* Begins a burst: attaches the programs. Probes that do not fit into the next
 * duration_ns are skipped. */
int wake_burst_begin(struct wake_burst *burst, uint64_t duration_ns,
                     char why[WAKE_WHY_SIZE]);
void wake_burst_end(struct wake_burst *burst);

/* The result of probing one core. */
struct wake_burst_result {
  uint64_t armed;                  /* how many probes were started */
  const struct wake_event *events; /* valid until the next wake_burst_probe */
  size_t events_len;
  uint64_t idles; /* how many idle states the programs saw the core enter */
  /* The number of idle states that cpuidle counted; negative if unknown. */
  int64_t usage;
};

/* Probes a core. A thread runs on the core for a moment to start the timer.
 * Returns 0, -ETIME if the time of the burst is over, or -EINTR if `wait`
 * returned false. Any other error concerns only this core. */
int wake_burst_probe(struct wake_burst *burst, int core,
                     struct wake_burst_result *result, char why[WAKE_WHY_SIZE]);

#endif
