#include "classify.h"

#include <math.h>
#include <string.h>

static const struct {
  const char *name, *help;
} reasons[WAKE_DROPS] = {
    [WAKE_DROP_BUSY] = {"busy", "the core was not idle when the timer expired; "
                                "measure a quieter core"},
    [WAKE_DROP_EARLY] = {"early", "the timer expired before it was due"},
    [WAKE_DROP_LOST] = {"lost", "an event in between was not seen"},
    [WAKE_DROP_NO_INTERRUPT] =
        {"no_interrupt", "no interrupt was seen before the timer expired"},
    [WAKE_DROP_ORDER] = {"order", "the times are in an impossible order"},
    [WAKE_DROP_MINORITY] = {"minority",
                            "interrupts were on in an idle state that mostly "
                            "has them off, or the reverse"},
};

const char *wake_drop_name(int reason) { return reasons[reason].name; }
const char *wake_drop_help(int reason) { return reasons[reason].help; }

enum verdict { UNDECIDED, ON, OFF };

static enum verdict verdict_of(const struct wake_classifier *classifier,
                               int state) {
  double on = (double)classifier->on[state] + 1;
  double off = (double)classifier->off[state] + 1;
  if (strcmp(classifier->points.states[state], "POLL") == 0 ||
      on / off > WAKE_MAJORITY)
    return ON;
  return off / on > WAKE_MAJORITY ? OFF : UNDECIDED;
}

static int settle(struct wake_classifier *classifier,
                  const struct wake_point *point, enum verdict verdict) {
  if (point->interrupts_off == (verdict == OFF))
    return wake_points_add(&classifier->points, point);
  classifier->drops[WAKE_DROP_MINORITY]++;
  return 0;
}

/* Adds or drops the datapoints that were held back for a state, now that the
 * majority is clear. */
static int release(struct wake_classifier *classifier, int state,
                   enum verdict verdict) {
  struct wake_points *held = &classifier->held;
  size_t kept = 0;
  int status = 0;
  for (size_t i = 0; i < held->len; i++) {
    if (held->list[i].state != state)
      held->list[kept++] = held->list[i];
    else if (status == 0)
      status = settle(classifier, &held->list[i], verdict);
  }
  held->len = kept;
  return status;
}

static float us(uint64_t later, uint64_t earlier) {
  return (float)((double)(later - earlier) / 1e3);
}

int wake_classify(struct wake_classifier *classifier,
                  const struct wake_event *event, float user_us) {
  uint32_t last = (uint32_t)classifier->states_len - 1;
  int state = classifier->states[event->state < last ? event->state : last];
  bool off = event->interrupts_off != 0;
  if (event->ltime <= event->tbi || event->ltime >= event->tai ||
      event->ltime >= event->tintr || off != (event->tai < event->tintr)) {
    classifier->drops[WAKE_DROP_ORDER]++;
    return 0;
  }
  struct wake_point point = {
      .us = {[WAKE_LATENCY] = off ? us(event->tai, event->ltime) : NAN,
             [WAKE_INTR_LATENCY] = us(event->tintr, event->ltime),
             [WAKE_USER_LATENCY] = user_us,
             [WAKE_SILENT_TIME] = us(event->ltime, event->tbi)},
      .distance_us = event->distance > 0 ? us(event->distance, 0) : NAN,
      .state = (uint8_t)state,
      .interrupts_off = off};
  enum verdict before = verdict_of(classifier, state);
  classifier->on[state] += !off;
  classifier->off[state] += off;
  enum verdict now = verdict_of(classifier, state);
  if (now == UNDECIDED)
    return wake_points_add(&classifier->held, &point);
  int status = before == now ? 0 : release(classifier, state, now);
  return status == 0 ? settle(classifier, &point, now) : status;
}
