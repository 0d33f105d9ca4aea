/* notify: sends a notification when cores change their source. Cores that
 * change together share one notification. */
#ifndef PERCORE_PLUGIN_NOTIFY_H
#define PERCORE_PLUGIN_NOTIFY_H

#include "config.h"

/* Initialise with zeros. */
struct notify {
  /* Per core: its last source minus SOURCE_AUTO; 0 if it never had a source. */
  uint8_t last[CORES_MAX];
};

/* Sends a notification for each change of source since earlier snapshots.
 * Neither a core's first source nor going offline is a change. If `send` is
 * false, only remembers the sources. */
void notify_snapshot(struct notify *notify, const struct snapshot *snapshot,
                     bool send);

#endif
