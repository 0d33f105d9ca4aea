/* region_thread: a thread that reads the regions at each interval and
 * dispatches their values. */
#ifndef PERCORE_PLUGIN_REGION_THREAD_H
#define PERCORE_PLUGIN_REGION_THREAD_H

#include "region_watch.h"

struct region_thread;

/* began_boottime_ns: see region_watch_new. The members of `options` about time
 * and waiting are set here, except interval_ns. Values get the context of the
 * caller. Returns NULL if out of memory. */
struct region_thread *
region_thread_new(const struct region_watch_options *options,
                  uint64_t began_boottime_ns);

/* Starts the thread unless it runs. Call this at
 * each interval, from one thread at a time; it never waits. Returns 0, the
 * -errno of pthread_create, or -EBUSY if a round has not gone on for
 * REGION_THREAD_HANGS_NS. */
#define REGION_THREAD_HANGS_NS UINT64_C(10000000000)
int region_thread_keep(struct region_thread *thread);

/* Ends the thread, after which nothing is dispatched. Waits for it at most for
 * a second: returns false if the thread hangs. Memory is not freed: this could
 * take seconds, and the process is about to end. Accepts NULL. */
bool region_thread_stop(struct region_thread *thread);

#endif
