#include "wake.h"

#include "base/array.h"

#include <errno.h>
#include <math.h>

static const struct {
  const char *name, *help;
} reasons[WAKE_DROPS] = {
    [WAKE_DROP_BUSY] = {"busy",
                        "the core was not idle; measure a quieter core"},
    [WAKE_DROP_OTHER] = {"other",
                         "an earlier interrupt or timer had woken the core"},
    [WAKE_DROP_EARLY] = {"early", "the timer expired before it was due"},
    [WAKE_DROP_LOST] = {"lost", "an event in between was not seen"},
    [WAKE_DROP_NO_INTERRUPT] =
        {"no_interrupt", "no interrupt was seen before the timer expired"},
    [WAKE_DROP_ORDER] = {"order", "the times are in an impossible order"},
};

const char *wake_drop_name(int reason) { return reasons[reason].name; }
const char *wake_drop_help(int reason) { return reasons[reason].help; }

const char *wake_metric_name(enum wake_metric metric) {
  static const char *const names[] = {
      [WAKE_LATENCY] = "WakeLatency",
      [WAKE_INTR_LATENCY] = "IntrLatency",
      [WAKE_USER_LATENCY] = "UserLatency",
      [WAKE_SILENT_TIME] = "SilentTime",
  };
  return names[metric];
}

static float us(uint64_t later, uint64_t earlier) {
  return (float)((double)(later - earlier) / 1e3);
}

int wake_points_add(struct wake_points *points, const struct wake_event *event,
                    float user_us) {
  uint32_t last = (uint32_t)points->states_len - 1;
  uint32_t state = event->state < last ? event->state : last;
  bool off = event->interrupts_off != 0;
  if (event->ltime <= event->tbi || event->ltime >= event->tai ||
      event->ltime >= event->tintr || off != (event->tai < event->tintr)) {
    points->drops[WAKE_DROP_ORDER]++;
    return 0;
  }
  if (!array_reserve(&points->list, points->len, &points->capacity,
                     sizeof(*points->list)))
    return -ENOMEM;
  points->list[points->len++] = (struct wake_point){
      .us = {[WAKE_LATENCY] = us(event->tai, event->ltime),
             [WAKE_INTR_LATENCY] = us(event->tintr, event->ltime),
             [WAKE_USER_LATENCY] = user_us,
             [WAKE_SILENT_TIME] = us(event->ltime, event->tbi)},
      .distance_us = event->distance > 0 ? us(event->distance, 0) : NAN,
      .state = (uint8_t)state,
      .interrupts_off = off};
  points->on[state] += !off;
  points->off[state] += off;
  return 0;
}

static bool is_off(const struct wake_points *points, int state) {
  return points->off[state] > points->on[state] &&
         strcmp(points->states[state], "POLL") != 0;
}

bool wake_point_counts(const struct wake_points *points,
                       const struct wake_point *point) {
  return point->interrupts_off == is_off(points, point->state);
}

size_t wake_points_counted(const struct wake_points *points) {
  size_t counted = 0;
  for (int state = 0; state < points->states_len; state++)
    counted += is_off(points, state) ? points->off[state] : points->on[state];
  return counted;
}

double wake_point_us(const struct wake_point *point, enum wake_metric metric) {
  return metric == WAKE_LATENCY && !point->interrupts_off
             ? NAN
             : (double)point->us[metric];
}

void wake_points_free(struct wake_points *points) {
  free(points->list);
  *points = (struct wake_points){0};
}
