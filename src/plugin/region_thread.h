/* region_thread: a thread that reads the regions at each interval and
 * dispatches their values. */
#ifndef PERCORE_PLUGIN_REGION_THREAD_H
#define PERCORE_PLUGIN_REGION_THREAD_H

#include "region_watch.h"

struct region_thread;

/* Starts the thread. The members of `options` about time and waiting are set
 * here. Returns 0 or -errno. */
int region_thread_start(struct region_thread **thread,
                        const struct region_watch_options *options);

/* Ends the thread, after which nothing is dispatched. Memory is not freed: this
 * could take seconds, and the process is about to end. */
void region_thread_stop(struct region_thread *thread);

#endif
