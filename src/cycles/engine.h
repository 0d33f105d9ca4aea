/* cycles/ answers one question: how busy is each core?
 *
 * The load of a core is the unhalted time of one logical CPU divided by wall
 * time, whether the CPU ran tasks, interrupts or softirqs. Each core uses the
 * best proven source of this machine (source.h), and every figure names its
 * source.
 *
 * Time that a hypervisor stole from a core is not part of the core's load, if
 * the source can distinguish this time. Hardware counters stop when the
 * hypervisor takes the core away. The idle source subtracts idle time from wall
 * time. Recent kernels keep stolen time out of idle time, so the idle source
 * also subtracts steal. Older kernels count time stolen while a core wakes as
 * both idle and steal. Subtracting both would count that time twice, so on
 * older kernels steal is not subtracted, and the load is an upper bound that
 * includes time stolen while the core ran. The lower bound (totals.h) subtracts
 * all steal. engine_private.h explains how the two kinds of kernel
 * are distinguished.
 *
 * A core that polls in the idle loop (the idle state POLL) is not halted. The
 * columns of /proc/stat count this time as idle, so the idle source adds it to
 * the load.
 *
 * The code in this folder must not depend on collectd, on regions, or on its
 * callers. It needs only files, clocks, perf_event_open(2) and bpf(2), and
 * accesses these through machine.h, so that tests can simulate any machine.
 *
 *   engine    reads all cores once and keeps running totals per core
 *   figures   turns totals into loads, load averages and aggregates
 *   sampler   runs engine and figures in a thread
 *   load      the public loads of percore_load.h
 *
 * Errors: a function that can fail returns 0 or -errno, or, if it returns a
 * count, the count or -errno. A function that returns a new object returns NULL
 * if out of memory. An unknown figure is NAN. Only the functions of
 * percore_load.h set errno and return -1. Messages for the operator go to the
 * journal. */
#ifndef PERCORE_ENGINE_H
#define PERCORE_ENGINE_H

#include "base/core_set.h"
#include "journal.h"
#include "machine.h"
#include "procstat.h"
#include "source_kind.h"
#include "topology.h"
#include "totals.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The shortest window of the columns of /proc/stat: two ticks. A shorter window
 * would be mostly rounding error, so it is extended to a later sample. */
#define COLUMNS_WINDOW_MIN_NS UINT64_C(20000000)

struct engine_options {
  /* the cores to measure; NULL: all cores that are online at each sample */
  const struct core_set *cores;
  const struct machine *machine;
  bool hardware;           /* may be used: the machine is ours */
  enum source_kind source; /* SOURCE_AUTO: the best proven source */
  enum isolated_cores isolated_cores;
  struct core_set also_isolated; /* in addition to the kernel's list */
  bool bounds;    /* where cores wake often, also count how often each halts */
  bool frequency; /* also count aperf */
  struct journal journal;
  /* When this becomes true, engine_prove returns soon. May be NULL. */
  const atomic_bool *cancel;
};

/* Counts of events since the engine was opened. */
struct engine_counts {
  uint64_t windows_discarded;
  uint64_t errors; /* loads outside 0 to 1, and failed reads */
  uint64_t reopens;
  uint64_t source_changes;
};

struct core;
struct engine;

/* Reads the topology, opens the counters and clocks that can be opened, and
 * takes the first sample. The proofs of all sources stay pending until
 * engine_prove has run. On a machine without any source, this function also
 * succeeds: the loads are unknown, and the engine keeps trying. Returns 0 or
 * -errno: -ENOMEM; -ENOENT if no cores can be found. */
int engine_open(struct engine **engine, const struct engine_options *options);
void engine_close(struct engine *engine);

/* Runs the proofs (proof.h) that are due, one per source and PMU type. Each
 * proof runs in its own thread, which is pinned to a core that this process may
 * use, and takes half a second, or up to two seconds on a busy machine. The
 * caller's affinity does not change. */
void engine_prove(struct engine *engine);
bool engine_proof_due(const struct engine *engine);

/* Starts due proofs without waiting for them, one at a time, so that no sample
 * is late. Call this after each sample. */
void engine_prove_aside(struct engine *engine);

/* Reads every core once. `late` means that this sample is more than three
 * sample intervals late; the engine then checks whether the VM was paused.
 * Returns 0, or -errno if nothing could be read. Only one thread at a time may
 * call this. */
int engine_sample(struct engine *engine, bool late);

/* Returns the cores as of the last sample, in ascending order: every selected
 * core seen so far, even if it is now offline. The pointer is valid until the
 * next call that takes a non-const engine. */
const struct core *engine_cores(const struct engine *engine, size_t *cores_len);
const struct topology *engine_topology(const struct engine *engine);
uint64_t engine_time_ns(const struct engine *engine); /* CLOCK_MONOTONIC */
bool engine_tick_sampled(const struct engine *engine);
/* True if this kernel counts softirqs that run at the end of an interrupt on an
 * idle core as idle time. Loads from the idle source miss these softirqs. */
bool engine_softirq_is_idle(const struct engine *engine);
/* True if this machine may be virtual and no stolen time has ever been reported
 * on it. The kernel may then count stolen time as work, so the kernel's figures
 * cannot refute a counter. */
bool engine_steal_is_unknown(const struct engine *engine);
/* True if at least one selected core has a source, or if all are offline. */
bool engine_has_source(const struct engine *engine);

/* Returns one line for percore doctor: why a source is not used, or what is
 * wrong with it; "" if nothing is wrong. */
const char *engine_source_reason(const struct engine *engine,
                                 enum source_kind kind);

/* Returns whether a source of this kind is available on some core, and sets
 * *proof. */
bool engine_source_proof(const struct engine *engine, enum source_kind kind,
                         enum proof *proof);

#endif
