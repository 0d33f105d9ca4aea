/* proof: tests whether a source really measures unhalted time.
 *
 * A counter can be opened and yet count nothing, or continue to count while the
 * core is halted (arm64's cycle counter in WFI, MPERF of the physical core
 * under a hypervisor). The kernel's idle time may be sampled only at the tick.
 * So each source must show, on a core of this machine, that it reads full load
 * while a test thread spins there, and less while the core idles. The proof of
 * a counter consists of these two halves. */
#ifndef PERCORE_PROOF_H
#define PERCORE_PROOF_H

#include "source.h"

#include <stdatomic.h>
#include <stdbool.h>

enum proof_half {
  PROOF_HALF_NOT_RUN,
  PROOF_HALF_PASSED,
  PROOF_HALF_FAILED,
};

/* ---------------------------------------------------------------------------
 * Judgement: pure functions
 */

/* Judges the half in which a thread spins: it received cpu_share of the core's
 * time (0 to 1) while the source read `load` (NAN if it could not be read). The
 * half counts as run only if cpu_share is at least 0.95. It passes if the load
 * is at least 0.97 of cpu_share, because a counter does not count stolen time,
 * and at most 1.02. */
enum proof_half proof_judge_spin(double load, double cpu_share);

/* Judges the half in which the thread sleeps and the core was idle for idle_ns
 * of wall_ns. The half counts as run only if idle_ns is at least 30 ms. It
 * passes if the load fell by at least half of the idle share. The load need not
 * fall by the whole share, because idle drivers count work in interrupts as
 * idle. */
enum proof_half proof_judge_idle(double load, double idle_ns, double wall_ns);

enum proof proof_judge_counter(enum proof_half spin, enum proof_half idle);

/* Judges a probe that was busy between ticks and slept when they fired. `truth`
 * is the probe's share of wall time, `columns` is the share of wall time in the
 * busy columns of /proc/stat, and `load` is 1 minus the share in the idle
 * columns. Returns PROOF_PENDING if the attempt proves nothing, because the
 * core was not free, the probe did not evade the tick, or no idle time was
 * seen, although the probe slept. */
enum proof proof_judge_tick(double truth, double columns, double load);

/* True if the columns of an attempt agree with the probe's share of wall time,
 * as they do if the kernel accounts for time exactly
 * (CONFIG_VIRT_CPU_ACCOUNTING_NATIVE). */
bool proof_columns_are_exact(double truth, double columns, double load);

/* ---------------------------------------------------------------------------
 * Probes: each is a thread pinned to one core, which ends after half a second,
 * or up to two seconds if other work keeps the core busy. After *cancel becomes
 * true, the probe ends soon, with PROOF_PENDING. A probe uses the machine
 * concurrently with its caller. */

struct probe;

/* Starts a probe that tests a copy of the source on a core. Opens its counters,
 * if it has any. Returns 0 or -errno. */
int probe_start(struct probe **result, const struct machine *machine, int core,
                const struct source *source, const atomic_bool *cancel);

bool probe_ended(const struct probe *probe);

/* Waits for the probe to end, frees it, and returns its result. *source
 * receives the copy of the source with the rates that the probe has measured,
 * and why[] a reason for the journal, or "". */
enum proof probe_end(struct probe *probe, struct source *source,
                     char why[WHY_SIZE]);

#endif
