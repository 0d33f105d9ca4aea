/* wake_sampler: a thread that measures how fast cores wake (WakeLatency). It
 * runs one burst of probes in each interval, and dispatches what is known over
 * the window (option Window). */
#ifndef PERCORE_PLUGIN_WAKE_SAMPLER_H
#define PERCORE_PLUGIN_WAKE_SAMPLER_H

#include "config.h"
struct wake_sampler;

/* Starts the thread. If wake latency is not configured, starts nothing and sets
 * *sampler to NULL. `config` must stay valid until wake_sampler_stop. The
 * thread loads its BPF programs before its first burst. If nothing can be
 * measured, it logs the reason and ends. Returns 0 or -errno. */
int wake_sampler_start(struct wake_sampler **sampler,
                       const struct config *config, uint64_t interval_ns);

/* Stops the thread within 100 ms and frees everything. Accepts NULL. */
void wake_sampler_stop(struct wake_sampler *sampler);

/* Hands over the loads of the cores, which the next burst uses to choose the
 * cores to probe; the values get the timestamp of the loads. Without new loads
 * there is no burst. Accepts NULL. */
void wake_sampler_tell(struct wake_sampler *sampler,
                       const struct snapshot *snapshot);
#endif
