#include "wake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_FIRST 1024

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
  if (points->len == points->capacity) {
    size_t capacity =
        points->capacity == 0 ? CAPACITY_FIRST : 2 * points->capacity;
    struct wake_point *list = realloc(points->list, capacity * sizeof(*list));
    if (list == NULL)
      return -ENOMEM;
    points->list = list;
    points->capacity = capacity;
  }
  points->list[points->len++] = *point;
  return 0;
}

int wake_points_state(struct wake_points *points, const char *name,
                      size_t length) {
  for (size_t i = 0; i < points->states_len; i++)
    if (strlen(points->states[i]) == length &&
        memcmp(points->states[i], name, length) == 0)
      return (int)i;
  if (points->states_len == WAKE_STATES_MAX || length >= WAKE_STATE_NAME_SIZE)
    return -1;
  memcpy(points->states[points->states_len], name, length);
  return (int)points->states_len++;
}

void wake_points_free(struct wake_points *points) {
  free(points->list);
  *points = (struct wake_points){0};
}
