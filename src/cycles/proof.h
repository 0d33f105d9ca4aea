/* proof: is a source a measure of unhalted time at all?
 *
 * Counters that open may count nothing, or go on while the core halts (arm64's
 * cycle counter in WFI, MPERF of the physical core under a hypervisor), and the
 * kernel's idle time may be a mere sampling of ticks. So each source has to
 * show on a core of this machine, in a thread of ours, that it is full while
 * that thread spins and falls while the core idles.
 */
#ifndef PERCORE_PROOF_H
#define PERCORE_PROOF_H

#include "machine.h"
#include "source.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum proof_half {
  PROOF_HALF_NOT_RUN,
  PROOF_HALF_PASSED,
  PROOF_HALF_FAILED,
};

/* ---------------------------------------------------------------------------
 * Judgement: pure
 */

/* A thread spun and had cpu_share of the core's time (0 to 1); the source said
 * load. Valid from a share of 0.95, passed from 0.97 to 1.02. */
enum proof_half proof_judge_spin(double load, double cpu_share);

/* The core is known to have idled for idle_ns of wall_ns. Valid from 30 ms;
 * passed if the load fell by at least half of the idle share. (Not by all of
 * it: work in interrupts is inside what idle drivers call idle.) */
enum proof_half proof_judge_idle(double load, double idle_ns, double wall_ns);

enum proof proof_judge_counter(enum proof_half spin, enum proof_half idle);

/* A probe was busy between ticks and slept over them, truth being its share of
 * wall time; columns is what the busy columns of /proc/stat saw of it, load
 * what the idle columns leave. PROOF_PENDING means that this try says nothing:
 * the core was not free, or the probe did not evade the tick. */
enum proof proof_judge_tick(double truth, double columns, double load);

/* ---------------------------------------------------------------------------
 * Probes: each runs in a thread pinned to one core and returns when that has
 * ended, after half a second at most, or soon after *cancel is set (then
 * PROOF_PENDING). why[] gets a sentence for the journal. The machine is used
 * by that thread meanwhile.
 */

struct proof_source {
  /* Running totals of the core's unhalted and wall time as the source has
   * them, in ns. Returns 0 or -errno. */
  int (*read)(void *context, double *unhalted_ns, double *wall_ns);
  void *context;
};

enum proof proof_run_counter(const struct machine *machine, int core,
                             const struct proof_source *source,
                             const atomic_bool *cancel, char *why,
                             size_t why_size);

enum proof proof_run_tick(const struct machine *machine, int core,
                          const atomic_bool *cancel, char *why,
                          size_t why_size);

#endif
