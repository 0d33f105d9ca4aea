/* regions: the table of `percore regions`, for percore without a command. */
#ifndef PERCORE_REGIONS_H
#define PERCORE_REGIONS_H

#include "text.h"

/* Returns the table of all regions but percore's own, as it fits into the
 * screen, or "" if there are none. The caller frees it. Returns NULL if out of
 * memory. */
char *regions_text(struct screen screen);

#endif
