/* proof: tests whether a source measures unhalted time at all.
 *
 * A counter that opens may count nothing, or may continue while the core is
 * halted (arm64's cycle counter in WFI, MPERF of the physical core under a
 * hypervisor). The kernel's idle time may be sampled only at the tick. So each
 * source must show, on a core of this machine, that it reads full load while a
 * thread of ours spins there and less while the core idles.
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

/* Judges a spin: a thread had cpu_share of the core's time (0 to 1) while the
 * source read `load` (NAN: it could not be read). Valid from a share of 0.95
 * on; passed if the load is 0.97 to 1.02. */
enum proof_half proof_judge_spin(double load, double cpu_share);

/* Judges a sleep during which the core idled for idle_ns of wall_ns. Valid from
 * 30 ms on; passed if the load fell by at least half of the idle share. It need
 * not fall by the whole share, because idle drivers count work in interrupts as
 * idle. */
enum proof_half proof_judge_idle(double load, double idle_ns, double wall_ns);

enum proof proof_judge_counter(enum proof_half spin, enum proof_half idle);

/* Judges a probe that was busy between ticks and slept over them. `truth` is
 * its share of wall time, `columns` what the busy columns of /proc/stat saw of
 * it, and `load` 1 less the share of the idle columns. Returns PROOF_PENDING if
 * this try proves nothing, because the core was not free or the probe did not
 * evade the tick. */
enum proof proof_judge_tick(double truth, double columns, double load);

/* ---------------------------------------------------------------------------
 * Probes: threads that pin themselves to one core and end after half a second,
 * or up to two seconds if other work keeps the core. After *cancel is set they
 * end soon, with PROOF_PENDING. A probe uses the machine while its caller does.
 */

struct proof_source {
  /* Reads running totals of the core's unhalted and wall time, in nanoseconds.
   * Returns 0 or -errno. */
  int (*read)(void *context, double *unhalted_ns, double *wall_ns);
  void *context;
};

enum { PROOF_WHY_MAX = 256 };

struct probe;

/* Starts a probe of a counter, or, if source is NULL, of the kernel's idle
 * time. Returns 0 or -errno. */
int probe_start(struct probe **result, const struct machine *machine, int core,
                const struct proof_source *source, const atomic_bool *cancel);

bool probe_ended(const struct probe *probe);

/* Waits for the end of the probe and frees it. why[] receives a reason for the
 * journal, or "". */
enum proof probe_end(struct probe *probe, char why[PROOF_WHY_MAX]);

#endif
