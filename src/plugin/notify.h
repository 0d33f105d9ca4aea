/* notify: sends notifications when cores change their source, one for each
 * change, however many cores it affects. */
#ifndef PERCORE_PLUGIN_NOTIFY_H
#define PERCORE_PLUGIN_NOTIFY_H

#include "config.h"

/* Zeroed before the first snapshot. */
struct notify {
  /* For each core: its last source less SOURCE_AUTO; 0: it never had one. */
  uint8_t last[CORES_MAX];
};

/* Notifies of each change of source since earlier snapshots. A core's first
 * source is not a change, nor is going offline. Without `send`, only remembers.
 */
void notify_snapshot(struct notify *notify, const struct snapshot *snapshot,
                     bool send);

#endif
