#include "wake.h"

#include "base/array.h"

#include <errno.h>
#include <math.h>

const struct wake_drop_text wake_drop_texts[WAKE_DROPS] = {
    [WAKE_DROP_BUSY] = {"busy",
                        "the core was not idle; measure a quieter core"},
    [WAKE_DROP_OTHER] = {"other",
                         "another interrupt or timer had woken the core"},
    [WAKE_DROP_EARLY] = {"early", "the timer expired before it was due"},
    [WAKE_DROP_LOST] = {"lost", "an event in between was not seen"},
    [WAKE_DROP_NO_INTERRUPT] =
        {"no_interrupt", "no interrupt was seen before the timer expired"},
};

const char *const wake_metric_names[WAKE_METRICS] = {
    [WAKE_LATENCY] = "WakeLatency",
    [WAKE_INTR_LATENCY] = "IntrLatency",
    [WAKE_USER_LATENCY] = "UserLatency",
    [WAKE_SILENT_TIME] = "SilentTime",
};

static float us(uint64_t later, uint64_t earlier) {
  return (float)((double)(later - earlier) / 1e3);
}

int wake_points_add(struct wake_points *points,
                    const struct wake_event *event) {
  uint32_t last = (uint32_t)points->states_len - 1;
  uint32_t state = event->state < last ? event->state : last;
  bool off = event->interrupts_off != 0;
  if (!array_reserve(&points->list, points->len, &points->capacity,
                     sizeof(*points->list)))
    return -ENOMEM;
  points->list[points->len++] = (struct wake_point){
      .ltime_ns = event->ltime,
      .us = {[WAKE_LATENCY] = us(event->tai, event->ltime),
             [WAKE_INTR_LATENCY] = us(event->tintr, event->ltime),
             [WAKE_USER_LATENCY] =
                 event->end > 0 ? us(event->end, event->ltime) : NAN,
             [WAKE_SILENT_TIME] = us(event->ltime, event->tbi)},
      .distance_us = us(event->distance, 0),
      .state = (uint8_t)state,
      .interrupts_off = off};
  points->len_of[state][off]++;
  return 0;
}

void wake_points_forget(struct wake_points *points, uint64_t since_ns) {
  size_t old = 0;
  for (; old < points->len && points->list[old].ltime_ns < since_ns; old++) {
    const struct wake_point *point = &points->list[old];
    points->len_of[point->state][point->interrupts_off]--;
  }
  points->len -= old;
  if (old > 0)
    memmove(points->list, points->list + old,
            points->len * sizeof(*points->list));
}

static bool is_off(const struct wake_points *points, int state) {
  const size_t *len = points->len_of[state];
  return len[true] > len[false] && strcmp(points->states[state], "POLL") != 0;
}

bool wake_point_counts(const struct wake_points *points,
                       const struct wake_point *point) {
  return point->interrupts_off == is_off(points, point->state);
}

size_t wake_points_counted(const struct wake_points *points) {
  size_t counted = 0;
  for (int state = 0; state < points->states_len; state++)
    counted += points->len_of[state][is_off(points, state)];
  return counted;
}

double wake_point_us(const struct wake_points *points,
                     const struct wake_point *point, int state,
                     enum wake_metric metric) {
  bool wanted = (state == WAKE_ALL_STATES || point->state == state) &&
                (metric != WAKE_LATENCY || point->interrupts_off) &&
                wake_point_counts(points, point);
  return wanted ? (double)point->us[metric] : NAN;
}

void wake_points_free(struct wake_points *points) {
  free(points->list);
  *points = (struct wake_points){0};
}
