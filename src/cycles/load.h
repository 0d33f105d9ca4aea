/* load: the loads of percore.h on an engine that is already open, so that a
 * test can bring its own. */
#ifndef PERCORE_LOAD_H
#define PERCORE_LOAD_H

#include "engine.h"
#include "percore.h"

/* The result owns the engine; on failure the engine is closed. shortest_ns: no
 * window is shorter than this; 0: the source decides. Returns 0 or -errno. */
int load_open(struct percore_load **result, struct engine *engine,
              uint64_t shortest_ns);

#endif
