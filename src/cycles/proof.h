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
 * load (NAN: it could not be read, which is no try). Valid from a share of
 * 0.95, passed from 0.97 to 1.02. */
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
 * Probes: each is a thread that pins itself to one core and ends after half a
 * second; after up to two where other work keeps the core, and soon after
 * *cancel is set (then PROOF_PENDING). It uses the machine beside its caller.
 */

struct proof_source {
  /* Running totals of the core's unhalted and wall time as the source has
   * them, in ns. Returns 0 or -errno. */
  int (*read)(void *context, double *unhalted_ns, double *wall_ns);
  void *context;
};

enum { PROOF_WHY_MAX = 256 };

struct probe;

/* source: a counter's, or NULL for idle time as the kernel keeps it. Returns 0
 * or -errno. */
int probe_start(struct probe **result, const struct machine *machine, int core,
                const struct proof_source *source, const atomic_bool *cancel);

bool probe_ended(const struct probe *probe);

/* Waits for its end and frees it. why[] gets a sentence for the journal, or
 * "". */
enum proof probe_end(struct probe *probe, char why[PROOF_WHY_MAX]);

#endif
