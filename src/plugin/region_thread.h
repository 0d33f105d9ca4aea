/* region_thread: a thread that reads the regions at each interval and
 * dispatches their values. */
#ifndef PERCORE_PLUGIN_REGION_THREAD_H
#define PERCORE_PLUGIN_REGION_THREAD_H

#include "region_watch.h"

struct region_thread;

/* Starts the thread; began_boottime_ns: see region_watch_new. The members of
 * `options` about time and waiting are set here. Returns 0 or -errno. */
int region_thread_start(struct region_thread **thread,
                        const struct region_watch_options *options,
                        uint64_t began_boottime_ns);

/* True if a round has not gone on for REGION_THREAD_HANGS_NS. Any thread may
 * call this. */
#define REGION_THREAD_HANGS_NS UINT64_C(10000000000)
bool region_thread_hangs(struct region_thread *thread);

/* Ends the thread, after which nothing is dispatched. Waits for it at most for
 * a second: returns false if the thread hangs, and may use its options again.
 * Memory is not freed: this could take seconds, and the process is about to
 * end. */
bool region_thread_stop(struct region_thread *thread);

#endif
