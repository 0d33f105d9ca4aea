#include "wake.h"

#include "base/array.h"

#include <errno.h>
#include <math.h>

#define ORDERS_MAX 1000 /* older events count for less and less */

const struct wake_drop_text wake_drop_texts[WAKE_DROPS] = {
    {"busy", "the core was not idle; measure a quieter core"},
    {"other", "another interrupt or timer had woken the core"},
    {"early", "the timer expired before it was due"},
    {"lost", "an event in between was not seen"},
    {"no_interrupt", "no interrupt was seen before the timer expired"},
    {"minority", "interrupts were on where they mostly are off, or vice versa"},
    {"overrun", "events came faster than they could be read"},
    {"unfinished", "the event was not over at the end"},
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

static bool is_minority(uint32_t orders[2], const char *state, bool off) {
  if (++orders[off] >= ORDERS_MAX) {
    orders[false] /= 2;
    orders[true] /= 2;
  }
  return orders[off] < orders[!off] || (off && strcmp(state, "POLL") == 0);
}

int wake_points_add(struct wake_points *points,
                    const struct wake_states *states,
                    const struct wake_event *event) {
  uint32_t last = (uint32_t)states->len - 1;
  uint32_t state = event->state < last ? event->state : last;
  bool off = event->interrupts_off != 0;
  if (is_minority(points->orders[state], states->list[state].name, off))
    return 0;
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
      .interrupt = event->interrupt,
      .state = (uint8_t)state,
      .interrupts_off = off};
  return 1;
}

void wake_points_forget(struct wake_points *points, uint64_t since_ns) {
  size_t old = 0;
  while (old < points->len && points->list[old].ltime_ns < since_ns)
    old++;
  points->len -= old;
  if (old > 0)
    memmove(points->list, points->list + old,
            points->len * sizeof(*points->list));
}

void wake_points_free(struct wake_points *points) {
  free(points->list);
  *points = (struct wake_points){0};
}
