/* notify: what changed since the last snapshot becomes notifications: one for
 * an event, however many cores it befell, and none while nothing changes. */
#ifndef PERCORE_PLUGIN_NOTIFY_H
#define PERCORE_PLUGIN_NOTIFY_H

#include "config.h"

/* Zeroed before the first snapshot. */
struct notify {
  /* By core: its last source less SOURCE_AUTO, or 0 if it never had one. */
  uint8_t last[CORES_MAX];
};

/* Compares with the snapshots before and notifies of each change of source. A
 * core's first source is no change, and neither is its going offline.
 * With `send` false it only takes note. */
void notify_snapshot(struct notify *notify, const struct snapshot *snapshot,
                     bool send);

#endif
