/* region_sampler: a thread that reads regions at multiples of the plugin's
 * interval. Another thread samples the cores, so reading a large region does
 * not delay the measurement of their loads. The thread blocks all signals, is
 * never pinned, and never waits for its consumer: if snapshots are not taken in
 * time, the oldest is dropped. A separate process receives what producers send
 * (region/receiver.h).
 */
#ifndef PERCORE_PLUGIN_REGION_SAMPLER_H
#define PERCORE_PLUGIN_REGION_SAMPLER_H

#include "region_watch.h"

/* How many snapshots are kept for a late consumer. */
#define REGION_SAMPLER_QUEUE 4

struct region_sampler;

/* Starts the thread. The sampler itself sets the options interval_ns, wait,
 * is_wanted, now_ns, outlet and argument. Objects that the other options point
 * to must stay valid until region_sampler_stop. Returns 0 or -errno. */
int region_sampler_start(struct region_sampler **sampler,
                         const struct region_watch_options *options,
                         uint64_t interval_ns);

/* Joins the thread and ends the receiving process, each within 100 ms. NULL is
 * allowed. */
void region_sampler_stop(struct region_sampler *sampler);

/* Frees a stopped sampler, which takes more than a second for a million rows.
 * NULL is allowed. */
void region_sampler_free(struct region_sampler *sampler);

/* Takes the oldest snapshot, which the caller must free. Returns NULL if no
 * snapshot is waiting. */
struct region_snapshot *region_sampler_take(struct region_sampler *sampler);

/* Tells the sampler which snapshots were dispatched. */
void region_sampler_tell(struct region_sampler *sampler,
                         const struct region_outlet *outlet);

#endif
