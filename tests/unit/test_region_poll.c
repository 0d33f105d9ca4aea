/* Tests the accounting of long rounds (src/region/poll.c), with clocks that the
 * test sets. */
#include "percore_config.h"

#include "base/clock.h"
#include "region/writer.h"
#include "region_unit.h"

/* Returns how many ticks of percore_tsc come in a second: an independent
 * measurement, over 2 ms. */
static double count_ticks(void) {
  uint64_t tsc = percore_tsc(), start = clock_now_ns(CLOCK_MONOTONIC_RAW);
  uint64_t ticks, now;
  do {
    ticks = percore_tsc();
    now = clock_now_ns(CLOCK_MONOTONIC_RAW);
  } while (now - start < 2000000);
  return (double)(ticks - tsc) * 1e9 / (double)(now - start);
}

TEST(the_frequency_of_the_clock_is_known_to_40_ppm) {
  double ratio = 0;
  for (int i = 0; i < 50 && fabs(ratio - 1) > 40e-6; i++)
    ratio = count_ticks() / (double)region_tsc_hz();
  assert_near(ratio, 1, 40e-6);
}

enum { HZ = 1000000000 }; /* one tick of the clock is a nanosecond */

TEST(time_off_the_cpu_is_awake_time_without_cpu_time) {
  struct percore_slot_head head = {.checked_tsc = 1000, .checked_cpu_ns = 500};
  assert_int_equal(region_poll_absence(&head, 9001000, 1000500, HZ), 8000000);
}

TEST(an_absence_counts_once) {
  struct percore_slot_head head = {0};
  region_poll_absence(&head, 9000000, 1000000, HZ);
  assert_int_equal(region_poll_absence(&head, 9000000, 1000000, HZ), 0);
}

TEST(sleep_is_not_absence) {
  struct percore_slot_head head = {.sleep_cycles = 5000000,
                                   .checked_sleep = 1000000};
  assert_int_equal(region_poll_absence(&head, 6000000, 2000000, HZ), 0);
}

TEST(cpu_time_beyond_the_clock_is_not_an_absence) {
  struct percore_slot_head head = {0};
  assert_int_equal(region_poll_absence(&head, 1000, 1001, HZ), 0);
}

TEST(in_a_long_round_with_work_only_cpu_time_is_busy) {
  struct percore_slot_head head = {.origin_tsc = 100};
  region_poll_long(&head, 1100, 32, 700);
  assert_int_equal(head.total_cycles, 1000);
  assert_int_equal(head.busy_cycles, 300);
  assert_int_equal(head.absent_cycles, 700);
  assert_int_equal(head.polls, 1);
  assert_int_equal(head.empty_polls, 0);
  assert_int_equal(head.items, 32);
  assert_int_equal(percore_polled_(&head), 1100);
}

TEST(an_absence_longer_than_its_round_leaves_no_busy_time) {
  struct percore_slot_head head = {.busy_cycles = 5};
  region_poll_long(&head, 1000, 1, 1001);
  assert_int_equal(head.busy_cycles, 5);
}

TEST(a_long_round_without_work_was_idle) {
  struct percore_slot_head head = {0};
  region_poll_long(&head, 1000, 0, 0);
  assert_int_equal(head.busy_cycles, 0);
  assert_int_equal(head.total_cycles, 1000);
  assert_int_equal(head.empty_polls, 1);
}

TEST(a_clock_read_before_the_last_one_adds_no_time) {
  struct percore_slot_head head = {
      .origin_tsc = 993, .total_cycles = 7, .long_round = 1};
  region_poll_long(&head, 900, 1, 0);
  assert_int_equal(head.total_cycles, 7);
  assert_int_equal(head.busy_cycles, 0);
  assert_int_equal(percore_polled_(&head), 1000);
  assert_int_equal(head.polls, 1);
}

TEST(a_clock_that_restarts_is_followed_from_its_new_value) {
  struct percore_slot_head head = {.origin_tsc = 1u << 30, .long_round = 100};
  region_poll_long(&head, 1000, 1, 0);
  assert_int_equal(head.total_cycles, 0);
  region_poll_long(&head, 1500, 1, 0);
  assert_int_equal(head.total_cycles, 500);
}

/* The CPU time of the thread, if not NULL. */
static const struct timespec *cpu_time;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
  if (clock != CLOCK_THREAD_CPUTIME_ID || cpu_time == NULL)
    return __real_clock_gettime(clock, now);
  *now = *cpu_time;
  return 0;
}

TEST(seconds_of_cpu_time_are_nanoseconds_in_the_slot) {
  static const struct timespec cpu = {.tv_sec = 7, .tv_nsec = 5};
  struct percore_slot_head head = {0};
  cpu_time = &cpu;
  region_poll_begin(&head);
  cpu_time = NULL;
  assert_int_equal(head.checked_cpu_ns, 7000000005);
}

TEST(a_poll_of_a_sink_does_not_check_the_cpu_time) {
  struct percore_slot_head head = {0};
  struct seat seat = {.handle = {&head}};
  percore_slot_t slot = {&seat.handle};
  percore_poll(slot, 1, 1u << 30);
  assert_true(head.long_round == UINT64_MAX);
  percore_poll(slot, 1, 1u << 31);
  percore_wake(slot);
  assert_int_equal(head.checked_cpu_ns, 0);
  assert_int_equal(head.absent_cycles, 0);
}

TEST(a_round_of_less_than_100_us_is_not_checked) {
  struct percore_slot_head head = {0};
  struct seat seat = {.handle = {&head}};
  percore_slot_t slot = {&seat.handle};
  region_poll_begin(&head);
  uint64_t looked = head.checked_tsc, start = percore_polled_(&head);
  percore_poll(slot, 3, start + head.long_round);
  assert_int_equal(head.busy_cycles, head.long_round);
  assert_int_equal(head.checked_tsc, looked);
  percore_poll(slot, 3, start + 2 * head.long_round + 1);
  assert_int_not_equal(head.checked_tsc, looked);
}

TEST(work_before_a_sleep_belongs_to_the_round) {
  struct percore_slot_head head = {0};
  struct seat seat = {.handle = {&head}};
  percore_slot_t slot = {&seat.handle};
  region_poll_begin(&head);
  head.long_round = UINT64_MAX / 16; /* neither call asks for the CPU time */
  uint64_t start = percore_polled_(&head);
  percore_sleep(slot);
  uint64_t worked = head.asleep_tsc - start;
  percore_wake(slot);
  percore_poll(slot, 3, start + worked + head.sleep_cycles + 1000);
  assert_int_equal(head.busy_cycles, worked + 1000);
  assert_int_equal(head.total_cycles, head.busy_cycles + head.sleep_cycles);
}

TEST(time_off_the_cpu_before_a_sleep_is_not_busy) {
  struct percore_slot_head head = {.origin_tsc = 1000};
  region_poll_absent(&head, 6000, 3000);
  assert_int_equal(head.total_cycles, 3000);
  assert_int_equal(head.absent_cycles, 3000);
  region_poll_long(&head, 7000, 1, 0);
  assert_int_equal(head.total_cycles, 6000);
  assert_int_equal(head.busy_cycles, 3000);
  region_poll_absent(&head, 7100, 3000);
  assert_int_equal(head.total_cycles, 6100);
}

TEST(a_wake_without_a_sleep_adds_no_time) {
  struct percore_slot_head head = {.origin_tsc = 5,
                                   .long_round = UINT64_MAX / 16};
  struct seat seat = {.handle = {&head}};
  percore_wake((percore_slot_t){&seat.handle});
  assert_int_equal(head.sleep_cycles, 0);
  assert_int_equal(head.total_cycles, 0);
}

TEST(a_time_that_is_not_of_the_clock_is_replaced) {
  struct percore_slot_head head = {0};
  struct seat seat = {.handle = {&head}};
  percore_slot_t slot = {&seat.handle};
  static const uint64_t wrong[] = {0, UINT64_MAX, UINT64_MAX / 2};
  region_poll_begin(&head);
  uint64_t start = percore_polled_(&head);
  for (int i = 0; i < 3; i++) {
    percore_poll(slot, 1, wrong[i]);
    assert_in_range(head.total_cycles, 0, percore_tsc() - start);
  }
  assert_int_equal(head.polls, 3);
}
