/* load_private: percore_load on any machine, for its tests. */
#ifndef PERCORE_LOAD_PRIVATE_H
#define PERCORE_LOAD_PRIVATE_H

#include "engine.h"
#include "percore.h"

/* As percore_load_open; the machine must live until percore_load_close. */
int load_open_on(struct percore_load **load,
                 const struct engine_options *options);

#endif
