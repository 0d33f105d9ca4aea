/* load: the loads of percore.h on an engine that is already open, so that a
 * test can supply its own. */
#ifndef PERCORE_LOAD_H
#define PERCORE_LOAD_H

#include "engine.h"
#include "percore.h"

/* The result owns the engine. On failure the engine is closed. No window is
 * shorter than shortest_ns; 0: the source decides. Returns 0 or -errno. */
int load_open(struct percore_load **result, struct engine *engine,
              uint64_t shortest_ns);

#endif
