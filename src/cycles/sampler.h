/* sampler: a thread that samples on schedule, whatever its host program does.
 *
 * At each multiple of the interval on CLOCK_REALTIME the thread takes a
 * snapshot of all figures. Between snapshots, the thread also samples at
 * regular intervals on CLOCK_MONOTONIC, for load averages and, if
 * sample_interval_ns is set, for minima and maxima. It blocks all signals, is
 * not pinned, and never waits for its consumer, which gets the newest snapshot.
 */
#ifndef PERCORE_SAMPLER_H
#define PERCORE_SAMPLER_H

#include "figures.h"

struct sampler_options {
  struct engine_options engine;
  struct figures_options figures;
  uint64_t interval_ns; /* time between snapshots */
  /* intervals begin at the first sample, not at multiples of interval_ns */
  bool from_start;
  /* between samples that only minima and maxima need; 0: none are taken */
  uint64_t sample_interval_ns;
  /* Called by the thread with each snapshot, to set figures that only the host
   * program knows, and to publish it. May be NULL. */
  void (*publish)(void *context, struct snapshot *snapshot,
                  const struct topology *topology);
  void *context;
};

struct sampler;

/* Opens the engine and starts the thread, which first runs the proofs. Until
 * sampler_stop, only that thread may use options->engine.machine. Returns 0, or
 * the -errno of engine_open or pthread_create. */
int sampler_start(struct sampler **sampler,
                  const struct sampler_options *options);

/* Ends the thread (within 100 ms) and frees everything. Accepts NULL. */
void sampler_stop(struct sampler *sampler);

/* Waits up to timeout_ns for a snapshot that was not taken yet. Returns the
 * newest one, which the caller frees, or NULL. */
struct snapshot *sampler_wait(struct sampler *sampler, uint64_t timeout_ns);

/* False while no selected core has a source. May be called from any thread. */
bool sampler_has_source(struct sampler *sampler);

#endif
