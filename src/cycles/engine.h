/* cycles/ answers one question: how busy is each core?
 *
 * The quantity is unhalted time over wall time of one logical CPU, whatever ran
 * on it: tasks, interrupts, softirqs inline or in ksoftirqd. Each core uses the
 * best source that the machine has and that has been proven (source.h), and
 * every figure tells its source.
 *
 * Time that a hypervisor stole from a core is not part of its load where the
 * source can separate the two. Hardware counters stop when the core is taken
 * away. The source idle computes wall time less idle time. Recent kernels keep
 * stolen time out of idle time, so steal is subtracted as well. Older kernels
 * include time stolen while a core wakes in both idle and steal. Subtracting
 * both would count that time twice, so steal is not subtracted there: the load
 * is an upper bound, which includes time stolen while the core ran. The lower
 * bound (engine_load_low) subtracts all steal. engine_private.h says how the
 * two kinds of kernel are told apart.
 *
 * This folder must not know collectd, regions or its users. It is plain C over
 * files, perf_event_open(2) and a clock, all of which come through machine.h,
 * so that tests can play any machine.
 *
 *   engine    reads all cores once and keeps running totals per core
 *   figures   turns totals into loads, load averages and aggregates
 *   sampler   a thread that does both on a grid and queues snapshots
 *   load      the public loads of percore.h
 *
 * Errors: a function that can fail returns 0 or -errno, or, if it returns a
 * count, the count or -errno. A function that returns a new object returns NULL
 * if out of memory. A figure that is not known is NAN. Only the functions of
 * percore.h set errno and return -1. What an operator should know is written to
 * the journal.
 */
#ifndef PERCORE_ENGINE_H
#define PERCORE_ENGINE_H

#include "core_set.h"
#include "journal.h"
#include "machine.h"
#include "procstat.h"
#include "source.h"
#include "topology.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct engine_options {
  const struct core_set *cores; /* NULL: all, read again at each sample */
  const struct machine *machine;
  bool hardware;            /* may counters of this kernel be used? */
  enum source source;       /* SOURCE_AUTO: the best that is proven */
  const char *event;        /* for SOURCE_EVENT */
  double base_frequency_hz; /* of the event or counter; 0: find it */
  enum denominator denominator;
  enum isolated_cores isolated_cores;
  struct core_set also_isolated; /* in addition to the kernel's */
  bool ipc;         /* open a second group {cycles, instructions} */
  bool frequency;   /* count aperf beside mperf */
  bool smi;         /* count system management interrupts */
  bool raise_limit; /* of open files, if it is too low for all cores */
  struct journal journal;
  const atomic_bool
      *cancel; /* engine_prove returns soon once it is true; NULL: never */
};

/* Counted since start. */
struct engine_counts {
  uint64_t windows_discarded;
  uint64_t errors; /* figures outside 0 to 1, failed reads */
  uint64_t reopens;
  uint64_t source_changes;
};

struct core;
struct core_totals;
struct engine;

/* Reads the topology, opens what can be opened and takes the first sample.
 * Sources are pending until engine_prove has run. A machine without any source
 * still gets an engine: its cores have no value, and the engine keeps trying.
 * Returns 0 or -errno: -ENOMEM; -ENOENT if no cores can be found; -EINVAL if
 * options contradict each other (the journal says which). */
int engine_open(struct engine **engine, const struct engine_options *options);
void engine_close(struct engine *engine);

/* Runs the proofs that are due, one per source and PMU type. Each runs in a
 * thread of its own, pinned to a core that may be used for it, and takes half a
 * second, up to two on a busy machine. The caller's affinity does not change.
 */
void engine_prove(struct engine *engine);
bool engine_proof_due(const struct engine *engine);

/* The same without waiting, one proof at a time, so that no sample is late.
 * Call it after each sample. */
void engine_prove_aside(struct engine *engine);

/* Reads every core once. `late` means that this sample is more than three
 * intervals late; the engine then checks whether the VM was paused. Returns 0,
 * or -errno if nothing could be read. One thread at a time. */
int engine_sample(struct engine *engine, bool late);

/* The state after the last sample. Pointers are valid until the next call that
 * takes a non-const engine. The cores are in rising order of their numbers, and
 * include every selected core seen so far, even if it is offline now. */
const struct core *engine_cores(const struct engine *engine, size_t *cores_len);
const struct engine_options *engine_options(const struct engine *engine);
const struct machine *engine_machine(const struct engine *engine);
const struct topology *engine_topology(const struct engine *engine);
/* NULL if /proc/stat could not be read, or does not list the cores that are
 * online (in a container it may list others). */
const struct procstat *engine_procstat(const struct engine *engine);
const struct engine_counts *engine_counts(const struct engine *engine);
uint64_t engine_time_ns(const struct engine *engine); /* CLOCK_MONOTONIC */
bool engine_tick_sampled(const struct engine *engine);
/* This kernel counts softirqs that run inline on an idle core as idle, so that
 * loads of the source idle lack them. */
bool engine_softirq_is_idle(const struct engine *engine);
/* This machine is virtual and its hypervisor has never reported stolen time.
 * The kernel may then count stolen time as work, and cannot refute a counter.
 */
bool engine_steal_is_unknown(const struct engine *engine);
/* At least one selected core has a source, or none of them is online. */
bool engine_has_source(const struct engine *engine);

/* Why a source is not used, or what is wrong with it, in one line for percore
 * doctor; "" if it is in good order. */
const char *engine_source_reason(const struct engine *engine,
                                 enum source source);

/* What idle_clock_unseen says, for percore doctor; "" if there is no clock. */
const char *engine_clock_unseen(const struct engine *engine);

/* The load, 0 to 1, over the window between two totals of one core; NAN if they
 * are of different epochs or no time lies between them. Rounding of the source
 * is clamped. */
double engine_load(const struct core_totals *from,
                   const struct core_totals *to);

/* The frequency at which the core ran while it was not halted; NAN if it is
 * unknown. */
double engine_frequency_hz(const struct core_totals *from,
                           const struct core_totals *to);

/* The lower bound of the load: the load minus the time that may have been
 * stolen. Only the source idle on older kernels has a bound below the load. */
double engine_load_low(const struct core_totals *from,
                       const struct core_totals *to);

#endif
