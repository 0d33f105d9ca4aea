/* sampler: a thread that samples on time, whatever its host program does.
 *
 * At each multiple of the interval on CLOCK_REALTIME the thread takes a
 * snapshot of everything. Between these it samples for minimum, maximum and
 * load averages on CLOCK_MONOTONIC. It blocks all signals, is never pinned, and
 * never waits for its consumer: if snapshots are not taken, the oldest is
 * dropped.
 */
#ifndef PERCORE_SAMPLER_H
#define PERCORE_SAMPLER_H

#include "figures.h"

/* How many snapshots are kept for a late consumer. */
#define SAMPLER_QUEUE 16

struct sampler_options {
  struct engine_options engine;
  struct figures_options figures;
  uint64_t interval_ns; /* of snapshots */
  bool from_start; /* intervals begin with the first sample, not at multiples */
  uint64_t sample_interval_ns; /* 0: LOADAVG_INTERVAL_NS / 4 */
};

struct sampler;

/* Opens the engine and starts the thread, which first runs the proofs. Until
 * sampler_stop only the thread may use options->engine.machine. Returns 0, or
 * -errno of engine_open or pthread_create. */
int sampler_start(struct sampler **sampler,
                  const struct sampler_options *options);

/* Joins the thread (within 100 ms) and frees everything. Accepts NULL. */
void sampler_stop(struct sampler *sampler);

/* Returns the oldest snapshot not yet taken, which the caller frees, or NULL.
 * Any thread. */
struct snapshot *sampler_take(struct sampler *sampler);

/* The same, but waits up to timeout_ns for a snapshot. Any thread. */
struct snapshot *sampler_wait(struct sampler *sampler, uint64_t timeout_ns);

/* False while no selected core has a source at all. Any thread. */
bool sampler_has_source(struct sampler *sampler);

#endif
