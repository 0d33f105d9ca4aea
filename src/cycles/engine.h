/* cycles/ answers one question: how busy is each core?
 *
 * The quantity is unhalted time over wall time of one logical CPU, whatever ran
 * on it: tasks, interrupts, softirq inline or in ksoftirqd. It does not contain
 * time that a hypervisor stole, as far as that can be told apart
 * (engine_load_low). Each core uses the best source that the machine has and
 * that has proven itself (source.h), and every figure can say which source that
 * was.
 *
 * This folder must never know collectd, regions or who uses it. It is plain C
 * over files, perf_event_open(2) and a clock, all of which come through
 * machine.h, so that tests can play any machine.
 *
 *   engine    reads all cores once and keeps running totals per core
 *   figures   turns totals into loads, load averages and aggregates
 *   sampler   a thread that does both on a grid and queues snapshots
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
  const struct core_set *cores; /* NULL: all, looked up anew at each sample */
  const struct machine *machine;
  bool hardware;            /* may counters of this kernel be used? */
  enum source source;       /* SOURCE_AUTO: the best that is proven */
  const char *event;        /* for SOURCE_EVENT */
  double base_frequency_hz; /* of the event or counter; 0: find out */
  enum denominator denominator;
  enum isolated_cores isolated_cores;
  struct core_set also_isolated; /* beside those that the kernel isolates */
  bool ipc;         /* open a second group {cycles, instructions} */
  bool frequency;   /* count aperf beside mperf */
  bool smi;         /* count system management interrupts */
  bool raise_limit; /* of open files, where it is too low for all cores */
  struct journal journal;
  const atomic_bool *cancel; /* set: engine_prove is to return soon; or NULL */
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

/* Reads the topology and opens what can be opened. Proofs are run by
 * engine_prove, until then sources are pending. A machine without any source
 * still gets an engine (cores have no value, and it keeps trying).
 * Returns 0 or -errno: -ENOMEM; -ENOENT if no cores can be found at all;
 * -EINVAL if options contradict each other (said in the journal). */
int engine_open(struct engine **engine, const struct engine_options *options);
void engine_close(struct engine *engine);

/* Runs the proofs that are due, each once per source and PMU type, in a thread
 * of its own, which is pinned to one core that may be used for it; takes half a
 * second a proof, and up to two on a busy machine. The caller's affinity is not
 * touched. */
void engine_prove(struct engine *engine);
bool engine_proof_due(const struct engine *engine);

/* The same without waiting, one proof at a time: to be called after each
 * sample, so that none is late for a proof. */
void engine_prove_aside(struct engine *engine);

/* Reads every core once. `late` says that this sample comes more than three
 * intervals after it should (the engine then looks for a paused VM).
 * Returns 0, or -errno if nothing at all could be read. One thread at a time.
 */
int engine_sample(struct engine *engine, bool late);

/* The state after the last sample; pointers live until the next call that
 * takes a non-const engine. cores[] is by position, in rising core numbers,
 * and holds every selected core seen so far, offline ones too. */
const struct core *engine_cores(const struct engine *engine, size_t *cores_len);
const struct engine_options *engine_options(const struct engine *engine);
const struct machine *engine_machine(const struct engine *engine);
const struct topology *engine_topology(const struct engine *engine);
/* NULL if /proc/stat could not be read, or does not tell of the cores that are
 * online (in a container it may show other ones). */
const struct procstat *engine_procstat(const struct engine *engine);
const struct engine_counts *engine_counts(const struct engine *engine);
uint64_t engine_time_ns(const struct engine *engine); /* CLOCK_MONOTONIC */
bool engine_tick_sampled(const struct engine *engine);
/* This kernel counts softirq that runs inline on an idle core as idle, so that
 * loads of source `idle` lack it. */
bool engine_softirq_is_idle(const struct engine *engine);
/* This machine is virtual and its hypervisor has never reported stolen time, so
 * the kernel may count stolen time as work and cannot refute a counter. */
bool engine_steal_is_unknown(const struct engine *engine);
/* At least one selected core has a source (or is waited for, if none of the
 * selected is online). */
bool engine_has_source(const struct engine *engine);

/* Why each source is or is not used: one line each for percore doctor.
 * Returns "" for a source in good order. */
const char *engine_source_reason(const struct engine *engine,
                                 enum source source);

/* Load, 0 to 1, over the window between two totals of one core; NAN if they
 * are of different epochs or no time lies between. Rounding of the source is
 * clamped. */
double engine_load(const struct core_totals *from,
                   const struct core_totals *to);

/* The frequency at which the core ran while it was not halted; NAN if it is not
 * known. */
double engine_frequency_hz(const struct core_totals *from,
                           const struct core_totals *to);

/* The lower bound of the load. It is the load itself, except for source `idle`
 * on kernels whose idle time may contain time stolen while waking: there the
 * load contains time stolen from a running core, and the bound subtracts all
 * steal. */
double engine_load_low(const struct core_totals *from,
                       const struct core_totals *to);

#endif
