#include "wake.h"

#include "base/array.h"

#include <errno.h>

const char *wake_metric_name(enum wake_metric metric) {
  static const char *const names[] = {
      [WAKE_LATENCY] = "WakeLatency",
      [WAKE_INTR_LATENCY] = "IntrLatency",
      [WAKE_USER_LATENCY] = "UserLatency",
      [WAKE_SILENT_TIME] = "SilentTime",
  };
  return names[metric];
}

int wake_points_add(struct wake_points *points,
                    const struct wake_point *point) {
  if (!array_reserve(&points->list, points->len, &points->capacity,
                     sizeof(*points->list)))
    return -ENOMEM;
  points->list[points->len++] = *point;
  return 0;
}

int wake_points_find_state(const struct wake_points *points, const char *name) {
  for (size_t i = 0; i < points->states_len; i++)
    if (strcmp(points->states[i], name) == 0)
      return (int)i;
  return -1;
}

int wake_points_state(struct wake_points *points, const char *name) {
  int found = wake_points_find_state(points, name);
  if (found >= 0)
    return found;
  if (points->states_len == WAKE_STATES_MAX ||
      strlen(name) >= WAKE_STATE_NAME_SIZE)
    return -1;
  strcpy(points->states[points->states_len], name);
  return (int)points->states_len++;
}

void wake_points_free(struct wake_points *points) {
  free(points->list);
  *points = (struct wake_points){0};
}
