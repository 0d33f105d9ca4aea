/* notify: sends a notification when the sources of the cores' loads change.
 * Cores with the same change share one notification. */
#ifndef PERCORE_PLUGIN_NOTIFY_H
#define PERCORE_PLUGIN_NOTIFY_H

#include "config.h"

/* Set all members to 0 before the first call. */
struct notify {
  /* For each core, its last source minus SOURCE_AUTO; 0 if no source has
   * measured it yet. */
  uint8_t last[CORES_MAX];
};

/* Compares each online core's source with its source when it was last online,
 * and sends a notification for each change. A core's first source is not a
 * change, and a core that goes offline is not a change either. If `send` is
 * false, only remembers the sources. */
void notify_snapshot(struct notify *notify, const struct snapshot *snapshot,
                     bool send);

#endif
