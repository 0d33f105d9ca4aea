/* notify: sends a notification when cores change their source. Cores that
 * change together share one notification. */
#ifndef PERCORE_PLUGIN_NOTIFY_H
#define PERCORE_PLUGIN_NOTIFY_H

#include "config.h"

/* Initialise with zeros. */
struct notify {
  /* For each core, its last source minus SOURCE_AUTO; 0 if no source has
   * measured it yet. */
  uint8_t last[CORES_MAX];
};

/* Sends a notification for each change of source since a core was last online.
 * A core's first source is not a change, and neither is a core that goes
 * offline. If `send` is false, only remembers the sources. */
void notify_snapshot(struct notify *notify, const struct snapshot *snapshot,
                     bool send);

#endif
