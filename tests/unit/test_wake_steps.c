/* Tests how the events of a core, in every possible order, become datapoints.
 */
#include "wake/wake.h"

#include "unit.h"

#define TIMER 0xfeed

static struct wake_steps steps;
static struct wake_points points;
static const struct wake_states states = {
    3, {{.name = "POLL"}, {.name = "C1"}, {.name = "C6"}}};

static void begin(void) {
  steps = (struct wake_steps){.timer = TIMER, .is_armed = 1, .distance = 7000};
  points = (struct wake_points){0};
}

static void end(void) { wake_points_free(&points); }

TEST(interrupts_off_the_core_wakes_before_the_interrupt) {
  assert_false(wake_on_idle(&steps, 1000, 2));
  assert_false(wake_on_wake(&steps, 5100));
  wake_on_interrupt(&steps, 5200, 236);
  assert_true(wake_on_expire(&steps, 5300, TIMER, 5000));
  assert_int_equal(steps.event.tbi, 1000);
  assert_int_equal(steps.event.ltime, 5000);
  assert_int_equal(steps.event.tai, 5100);
  assert_int_equal(steps.event.tintr, 5200);
  assert_int_equal(steps.event.distance, 7000);
  assert_int_equal(steps.event.state, 2);
  assert_true(steps.event.interrupts_off);
}

TEST(interrupts_on_the_datapoint_waits_for_the_end_of_idle) {
  wake_on_idle(&steps, 1000, 1);
  wake_on_interrupt(&steps, 5100, 236);
  assert_false(wake_on_expire(&steps, 5200, TIMER, 5000));
  assert_true(wake_on_wake(&steps, 5300));
  assert_int_equal(steps.event.tintr, 5100);
  assert_int_equal(steps.event.tai, 5300);
  assert_false(steps.event.interrupts_off);
}

TEST(timers_of_others_are_no_datapoints) {
  wake_on_idle(&steps, 1000, 1);
  wake_on_wake(&steps, 5100);
  wake_on_interrupt(&steps, 5200, 236);
  assert_false(wake_on_expire(&steps, 5300, TIMER + 8, 5000));
  assert_true(wake_on_expire(&steps, 5400, TIMER, 5000));
}

TEST(an_expiry_on_a_busy_core_is_dropped) {
  assert_false(wake_on_expire(&steps, 5300, TIMER, 5000));
  assert_int_equal(steps.drops[WAKE_DROP_BUSY], 1);
  /* An interrupt that is not the timer's woke the core before LTime. */
  steps.is_armed = 1;
  wake_on_idle(&steps, 6000, 1);
  wake_on_wake(&steps, 7000);
  wake_on_interrupt(&steps, 9100, 236);
  assert_false(wake_on_expire(&steps, 9200, TIMER, 9000));
  assert_int_equal(steps.drops[WAKE_DROP_BUSY], 2);
  /* The core was still busy at LTime, and became idle only later. */
  steps.is_armed = 1;
  wake_on_idle(&steps, 11000, 1);
  assert_false(wake_on_expire(&steps, 12000, TIMER, 10500));
  assert_int_equal(steps.drops[WAKE_DROP_BUSY], 3);
}

TEST(lost_events_are_dropped_and_counted) {
  wake_on_idle(&steps, 1000, 1);
  wake_on_wake(&steps, 5100);
  assert_false(wake_on_expire(&steps, 5300, TIMER, 5000));
  assert_int_equal(steps.drops[WAKE_DROP_NO_INTERRUPT], 1);
  steps.is_armed = 1;
  wake_on_idle(&steps, 6000, 1);
  wake_on_interrupt(&steps, 9100, 236);
  assert_false(wake_on_expire(&steps, 9200, TIMER, 9000));
  /* The event that ends the previous idle state was lost. */
  assert_false(wake_on_idle(&steps, 9900, 1));
  assert_int_equal(steps.drops[WAKE_DROP_LOST], 1);
  assert_false(wake_on_wake(&steps, 9950));
  steps.is_armed = 1;
  assert_false(wake_on_expire(&steps, 100, TIMER, 9000));
  assert_int_equal(steps.drops[WAKE_DROP_EARLY], 1);
}

TEST(of_two_interrupts_the_first_counts) {
  wake_on_idle(&steps, 1000, 1);
  wake_on_wake(&steps, 5010);
  wake_on_interrupt(&steps, 5020, 236);
  wake_on_interrupt(&steps, 5090, 236);
  assert_true(wake_on_expire(&steps, 5100, TIMER, 5000));
  assert_int_equal(steps.event.tintr, 5020);
  /* Also if the core becomes idle only after the timer has expired. */
  steps.is_armed = 1;
  wake_on_idle(&steps, 6000, 1);
  wake_on_interrupt(&steps, 9100, 236);
  assert_false(wake_on_expire(&steps, 9200, TIMER, 9000));
  wake_on_interrupt(&steps, 9300, 236);
  assert_true(wake_on_wake(&steps, 9400));
  assert_int_equal(steps.event.tintr, 9100);
}

TEST(a_core_that_another_interrupt_had_woken_is_dropped) {
  wake_on_idle(&steps, 1000, 1);
  wake_on_interrupt(&steps, 4900, 236); /* before LTime */
  wake_on_interrupt(&steps, 5100, 236);
  assert_false(wake_on_expire(&steps, 5200, TIMER, 5000));
  assert_int_equal(steps.drops[WAKE_DROP_OTHER], 1);
  /* An interrupt after LTime that ended the idle state before the timer's. */
  steps.is_armed = 1;
  wake_on_idle(&steps, 6000, 1);
  wake_on_interrupt(&steps, 9010, 236);
  wake_on_wake(&steps, 9020);
  wake_on_interrupt(&steps, 9100, 236);
  assert_false(wake_on_expire(&steps, 9200, TIMER, 9000));
  assert_int_equal(steps.drops[WAKE_DROP_OTHER], 2);
}

TEST(what_happens_at_ltime_does_not_follow_it) {
  wake_on_idle(&steps, 1000, 1);
  wake_on_wake(&steps, 5000);
  wake_on_interrupt(&steps, 5100, 236);
  assert_false(wake_on_expire(&steps, 5200, TIMER, 5000));
  assert_int_equal(steps.drops[WAKE_DROP_BUSY], 1);
  steps.is_armed = 1;
  wake_on_idle(&steps, 6000, 1);
  wake_on_interrupt(&steps, 9000, 236);
  assert_false(wake_on_expire(&steps, 9200, TIMER, 9000));
  assert_int_equal(steps.drops[WAKE_DROP_OTHER], 1);
}

TEST(a_core_that_woke_for_an_earlier_timer_is_dropped) {
  wake_on_idle(&steps, 1000, 1);
  wake_on_interrupt(&steps, 5100, 236);
  assert_false(wake_on_expire(&steps, 5110, TIMER + 8, 4990));
  assert_false(wake_on_expire(&steps, 5120, TIMER, 5000));
  assert_int_equal(steps.drops[WAKE_DROP_OTHER], 1);
  assert_false(wake_on_wake(&steps, 5200));
  /* The next idle state begins anew. */
  steps.is_armed = 1;
  wake_on_idle(&steps, 6000, 1);
  wake_on_interrupt(&steps, 9100, 236);
  assert_false(wake_on_expire(&steps, 9110, TIMER + 8, 9050));
  assert_false(wake_on_expire(&steps, 9120, TIMER, 9000));
  assert_true(wake_on_wake(&steps, 9200));
}

TEST(a_timer_that_is_not_armed_is_no_datapoint) {
  steps.is_armed = 0;
  wake_on_idle(&steps, 1000, 1);
  wake_on_wake(&steps, 5010);
  wake_on_interrupt(&steps, 5020, 236);
  assert_false(wake_on_expire(&steps, 5100, TIMER, 5000));
  assert_int_equal(steps.drops[WAKE_DROP_BUSY], 0);
}

/* ---------------------------------------------------------------------------
 * Every event has a reason
 */

/* Returns how many events are over. */
static uint64_t over(void) {
  uint64_t sum = 0;
  for (int i = 0; i < WAKE_DROPS; i++)
    sum += steps.drops[i];
  return sum;
}

TEST(a_timer_that_expires_before_the_core_has_left_its_idle_state_is_counted) {
  wake_on_idle(&steps, 1000, 1);
  wake_on_interrupt(&steps, 5100, 236);
  assert_false(wake_on_expire(&steps, 5200, TIMER, 5000));
  steps.is_armed = 1;
  assert_false(wake_on_expire(&steps, 5250, TIMER, 5230));
  assert_int_equal(steps.drops[WAKE_DROP_BUSY], 1);
  assert_true(wake_on_wake(&steps, 5300));
  assert_int_equal(steps.event.ltime, 5000);
  assert_int_equal(over(), 1);
}

/* The events of a core in random order. */
TEST(armed_events_are_datapoints_or_dropped_or_unfinished) {
  unsigned seed = 1;
  uint64_t now = 1000, ltime = 0, armed = 0, datapoints = 0;
  steps.is_armed = 0;
  for (int i = 0; i < 100000; i++) {
    now += 1 + (uint64_t)rand_r(&seed) % 100;
    switch (rand_r(&seed) % 6) {
    case 0:
      datapoints += wake_on_idle(&steps, now, 1);
      break;
    case 1:
      datapoints += wake_on_wake(&steps, now);
      break;
    case 2:
      wake_on_interrupt(&steps, now, 236);
      break;
    case 3:
      wake_on_expire(&steps, now, TIMER + 8, now - 10);
      break;
    default:
      if (steps.is_armed)
        datapoints += wake_on_expire(&steps, now, TIMER, ltime);
      else
        armed += steps.is_armed = 1;
      ltime = now + (uint64_t)rand_r(&seed) % 100 - 20;
    }
    assert_int_equal(armed,
                     datapoints + over() + steps.is_armed + steps.is_pending);
  }
  assert_true(datapoints > 100);
}

TEST(an_interrupt_in_the_middle_of_an_expiry_changes_nothing) {
  /* Its entry is seen only after the timer has expired in a softirq. */
  wake_on_idle(&steps, 1000, 1);
  wake_on_wake(&steps, 5100);
  struct wake_seen seen = steps.seen;
  wake_on_interrupt(&steps, 5200, 236);
  assert_false(wake_judge(&steps, &seen, 5210, 5000));
  assert_int_equal(steps.drops[WAKE_DROP_NO_INTERRUPT], 1);
  /* It expires a timer that was due before. */
  steps.is_armed = 1;
  wake_on_idle(&steps, 6000, 1);
  wake_on_wake(&steps, 9100);
  wake_on_interrupt(&steps, 9110, 236);
  seen = steps.seen;
  wake_on_interrupt(&steps, 9150, 27);
  wake_on_expire(&steps, 9160, TIMER + 8, 8990);
  assert_true(wake_judge(&steps, &seen, 9120, 9000));
  assert_int_equal(steps.event.tintr, 9110);
  assert_int_equal(steps.event.interrupt, 236);
}

/* ---------------------------------------------------------------------------
 * Whether interrupts are on or off in an idle state, by majority of events
 */

/* Returns how many of the events became datapoints. */
static size_t add(size_t count, uint32_t state, bool off) {
  struct wake_event event = {.tbi = 1000,
                             .ltime = 5000,
                             .tai = off ? 5100 : 5300,
                             .tintr = 5200,
                             .state = state,
                             .interrupts_off = off,
                             .interrupt = 236};
  size_t before = points.len;
  for (size_t i = 0; i < count; i++) {
    size_t len = points.len;
    int added = wake_points_add(&points, &states, &event);
    assert_int_equal(points.len, len + (size_t)added);
  }
  return points.len - before;
}

TEST(an_event_becomes_a_datapoint) {
  add(1, 2, true);
  assert_int_equal(points.len, 1);
  assert_near(points.list[0].us[WAKE_LATENCY], 0.1, 1e-6);
  assert_near(points.list[0].us[WAKE_INTR_LATENCY], 0.2, 1e-6);
  assert_near(points.list[0].us[WAKE_SILENT_TIME], 4, 1e-6);
  assert_int_equal(points.list[0].interrupt, 236);
}

TEST(the_minority_of_the_events_so_far_does_not_count) {
  assert_int_equal(add(100, 2, true), 100);
  assert_int_equal(add(10, 2, false), 0);
  assert_int_equal(add(1, 2, true), 1);
}

TEST(states_are_judged_one_by_one) {
  assert_int_equal(add(15, 1, false), 15);
  assert_int_equal(add(50, 2, true), 50);
}

TEST(a_state_that_cpuidle_does_not_name_counts_as_the_last) {
  add(1, 7, true);
  assert_int_equal(points.list[0].state, 2);
}

TEST(in_poll_interrupts_are_on) {
  assert_int_equal(add(1, 0, true), 0);
  assert_int_equal(add(2, 0, false), 2);
}

TEST(another_idle_driver_soon_has_the_majority) {
  add(1000000, 2, true);
  points.len = 0;
  assert_in_range(add(2000, 2, false), 1000, 1999);
}

TEST(datapoints_before_a_window_are_forgotten) {
  add(10, 2, true);
  points.list[9].ltime_ns = 7000;
  wake_points_forget(&points, 7000);
  assert_int_equal(points.len, 1);
  assert_int_equal(points.list[0].ltime_ns, 7000);
}

const struct unit_fixtures unit_fixtures = {.before_each = begin,
                                            .after_each = end};
