/* load: implements the loads of percore.h on a machine, so that tests can
 * supply their own. */
#ifndef PERCORE_BOARD_LOAD_H
#define PERCORE_BOARD_LOAD_H

#include "cycles/machine.h"
#include "percore.h"

/* As percore_load_open, but returns 0 or -errno. The machine must outlive the
 * load. */
int load_open(struct percore_load **result, struct machine *machine,
              const struct percore_load_options *options);

#endif
