/* percore.h: the public interface of libpercore.
 *
 * Loads of cores, for schedulers and whoever wants to know which core has room.
 * C11 and C++. Link with -lpercore (pkg-config percore).
 */
#ifndef PERCORE_H
#define PERCORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------
 * Loads
 *
 * The load of a core is unhalted time / wall time between two updates, from 0
 * to 1, whatever ran there: tasks, interrupts, softirq. It is per hardware
 * thread: a core beside a fully loaded sibling has about half its room, so look
 * at percore_load_get_sibling too.
 *
 *   call                            beside others on the same handle
 *   percore_load_update             any thread; updates serialise on a mutex
 *   percore_load_get and the like   any thread, never blocks, lock-free
 *   percore_load_close              alone
 */

struct percore_load;

/* Opens counters on all cores of this machine, choosing the source per core and
 * proving it, which takes up to a second in a thread of its own. The affinity
 * of the caller is never changed. Returns 0, or -1 with errno: ENOMEM, ENOENT
 * (no cores can be found), ENOTSUP (no source of loads works here). */
int percore_load_open(struct percore_load **load);

/* Samples all cores; loads are those of the time since the last update (the
 * first follows open). Windows of 10 ms and more make sense with hardware
 * counters, of 200 ms and more with the software source (2.3 points rms there,
 * 0.45 at 1 s). Returns 0, or -1 with errno and the loads as they were. */
int percore_load_update(struct percore_load *load);

/* The load of a core, 0 to 1, at the last update; -1 for a core without a
 * value: offline, not existing, or in its first window. */
double percore_load_get(const struct percore_load *load, int core);

/* The load of the busiest other hardware thread on the same physical core; -1
 * if there is none or it has no value. */
double percore_load_get_sibling(const struct percore_load *load, int core);

/* Where a core's load comes from: "mperf", "ref-cycles", "idle", or "none". A
 * static string. */
const char *percore_load_source(const struct percore_load *load, int core);

/* Cores are numbered from 0 to this - 1; some of them may be offline. */
int percore_load_count(const struct percore_load *load);

void percore_load_close(struct percore_load *load);

#ifdef __cplusplus
}
#endif

#endif
