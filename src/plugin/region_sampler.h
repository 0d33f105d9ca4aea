/* region_sampler: a thread that reads regions at the multiples of the plugin's
 * interval, beside the one that samples cores, so that a large region delays no
 * load. It runs with all signals blocked, is never pinned, and never waits for
 * its consumer: the oldest of the snapshots that are not taken are lost. What
 * producers send is received by a process of its own (region/receiver.h). */
#ifndef PERCORE_PLUGIN_REGION_SAMPLER_H
#define PERCORE_PLUGIN_REGION_SAMPLER_H

#include "region_watch.h"

/* Snapshots kept for a consumer that is late. */
#define REGION_SAMPLER_QUEUE 4

struct region_sampler;

/* options: without interval, wait, is_wanted, now_ns, outlet and argument,
 * which are the sampler's. The objects that they point to must live until
 * region_sampler_stop. Returns 0 or -errno. */
int region_sampler_start(struct region_sampler **sampler,
                         const struct region_watch_options *options,
                         uint64_t interval_ns);

/* Joins the thread and ends the process, within 100 ms each. NULL is ignored.
 */
void region_sampler_stop(struct region_sampler *sampler);

/* Frees a stopped one, which takes a second and more with a million rows. NULL
 * is nothing. */
void region_sampler_free(struct region_sampler *sampler);

/* The oldest snapshot not yet taken, now the caller's to free; or NULL. */
struct region_snapshot *region_sampler_take(struct region_sampler *sampler);

/* Reports what became of the snapshots that were taken. */
void region_sampler_tell(struct region_sampler *sampler,
                         const struct region_outlet *outlet);

#endif
