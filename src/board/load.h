/* load: implements the loads of percore.h, on an engine that is already open,
 * so that tests can supply their own engine, or on the board. */
#ifndef PERCORE_BOARD_LOAD_H
#define PERCORE_BOARD_LOAD_H

#include "cycles/engine.h"
#include "percore.h"

/* Takes over the engine, and closes it on failure. A window lasts at least
 * shortest_ns or, if that is 0, a minimum that depends on the source. Returns 0
 * or -errno. */
int load_open(struct percore_load **result, struct engine *engine,
              uint64_t shortest_ns);

#endif
