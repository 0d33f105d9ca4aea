/* sampler: a thread that samples on time, whatever its host does.
 *
 * At each multiple of the interval of CLOCK_REALTIME it takes a snapshot of
 * everything; between them it samples for minimum, maximum and load averages on
 * CLOCK_MONOTONIC. It runs with all signals blocked, is never pinned, and never
 * waits for its consumer: who does not take snapshots loses the oldest.
 */
#ifndef PERCORE_SAMPLER_H
#define PERCORE_SAMPLER_H

#include "figures.h"

/* Snapshots kept for a consumer that is late. */
#define SAMPLER_QUEUE 16

struct sampler_options {
  struct engine_options engine;
  struct figures_options figures;
  uint64_t interval_ns; /* of snapshots */
  bool from_start; /* intervals begin with the first sample, not at multiples */
  uint64_t sample_interval_ns; /* 0: LOADAVG_INTERVAL_NS / 4 */
};

struct sampler;

/* Opens the engine and starts the thread, which first runs the proofs.
 * options->engine.machine must live until sampler_stop and is then used by
 * the thread alone. Returns 0 or -errno as engine_open, or of pthread_create.
 */
int sampler_start(struct sampler **sampler,
                  const struct sampler_options *options);

/* Joins the thread (within 100 ms) and frees everything. NULL is nothing. */
void sampler_stop(struct sampler *sampler);

/* The oldest snapshot not yet taken, now the caller's to free; or NULL if
 * there is none (yet). Any thread. */
struct snapshot *sampler_take(struct sampler *sampler);

/* The same, waiting up to timeout_ns for one. */
struct snapshot *sampler_wait(struct sampler *sampler, uint64_t timeout_ns);

/* False while no selected core has a source at all. Any thread. */
bool sampler_has_source(struct sampler *sampler);

#endif
