/* notify: logs and sends a notification when the sources of the cores' loads
 * change. Cores with the same change share one line. */
#ifndef PERCORE_PLUGIN_NOTIFY_H
#define PERCORE_PLUGIN_NOTIFY_H

#include "config.h"

/* Set all members to 0 before the first call. */
struct notify {
  /* For each core, its last source minus SOURCE_AUTO; 0 if no source has
   * measured it yet. */
  uint8_t last[CORES_MAX];
  double load[CORES_MAX]; /* its last load with that source, or NAN */
};

/* Compares each online core's source with its source when it was last online,
 * and reports each change with the mean load of its cores before and after it.
 * A core's first source is not a change, and a core that goes offline is not a
 * change either. If `send` is false, changes are only logged. */
void notify_snapshot(struct notify *notify, const struct snapshot *snapshot,
                     bool send);

#endif
