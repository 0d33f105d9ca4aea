#include "unit.h"

#include "cycles/loadavg.h"
#include "cycles/schedule.h"

#define MS UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)
#define INTERVAL (10 * SECOND)
#define SAMPLE (LOADAVG_INTERVAL_NS / 4)

/* A sampler that wakes exactly on time. The test can set its two clocks. */
struct play {
  struct schedule schedule;
  uint64_t monotonic_ns, realtime_ns;
  uint64_t stamps[16384];
  size_t stamps_len;
  int samples, load_averages;
  struct schedule_due due; /* stamp of the last snapshot */
};

static void start(struct play *play, uint64_t monotonic_ns,
                  uint64_t realtime_ns) {
  *play =
      (struct play){.monotonic_ns = monotonic_ns, .realtime_ns = realtime_ns};
  schedule_start(&play->schedule, INTERVAL, SAMPLE, false, monotonic_ns,
                 realtime_ns);
}

#define START(monotonic_ns, realtime_ns)                                       \
  struct play play;                                                            \
  start(&play, monotonic_ns, realtime_ns)

static void pass(struct play *play, uint64_t ns) {
  play->monotonic_ns += ns;
  play->realtime_ns += ns;
}

static struct schedule_due take(struct play *play) {
  play->due =
      schedule_take(&play->schedule, play->monotonic_ns, play->realtime_ns);
  play->samples += (play->due.what & SCHEDULE_SAMPLE) != 0;
  play->load_averages += (play->due.what & SCHEDULE_LOAD_AVERAGE) != 0;
  if (play->due.what & SCHEDULE_INTERVAL) {
    assert_true(play->stamps_len < 16384);
    play->stamps[play->stamps_len++] = play->due.stamp_ns;
  }
  return play->due;
}

static uint64_t wait_of(const struct play *play) {
  return schedule_wait_ns(&play->schedule, play->monotonic_ns,
                          play->realtime_ns);
}

/* Plays the schedule for `ns`. The sampler wakes late_ns late each time. */
static void run(struct play *play, uint64_t ns, uint64_t late_ns) {
  uint64_t end_ns = play->monotonic_ns + ns;
  for (;;) {
    uint64_t step_ns = wait_of(play) + late_ns;
    if (play->monotonic_ns + step_ns > end_ns)
      break;
    pass(play, step_ns);
    take(play);
  }
  pass(play, end_ns - play->monotonic_ns);
}

static uint64_t last_stamp(const struct play *play) {
  assert_true(play->stamps_len > 0);
  return play->stamps[play->stamps_len - 1];
}

TEST(snapshots_are_stamped_with_successive_multiples) {
  START(77, 1700000003 * SECOND + 123456789);
  run(&play, 3600 * SECOND, 0);
  assert_int_equal(play.stamps_len, 360);
  for (size_t i = 0; i < play.stamps_len; i++)
    assert_int_equal(play.stamps[i], (1700000010 + 10 * i) * SECOND);
}

TEST(a_start_on_the_grid_waits_for_the_next_multiple) {
  START(77, 1700000000 * SECOND);
  assert_false(take(&play).what & SCHEDULE_INTERVAL);
  run(&play, 10 * SECOND, 0);
  assert_int_equal(play.stamps[0], 1700000010 * SECOND);
}

/* The schedule starts within an interval, the rest of which may be too short
 * for a load. */
TEST(the_first_snapshot_covers_at_least_half_an_interval) {
  for (uint64_t off_ms = 0; off_ms < 10000; off_ms += 10) {
    START(0, 1700000000 * SECOND + off_ms * MS);
    uint64_t start_ns = play.realtime_ns;
    run(&play, 20 * SECOND, 0);
    assert_in_range(play.stamps[0] - start_ns, INTERVAL / 2,
                    INTERVAL + INTERVAL / 2 - 1);
    assert_int_equal(play.stamps[0] % INTERVAL, 0);
  }
}

/* If wake-ups are late by at most 1 % of the interval, no stamp is lost or
 * changed. */
TEST(a_little_jitter_does_not_change_the_stamps) {
  START(0, 1700000000 * SECOND + 1);
  for (uint64_t i = 0; i < 10000; i++) {
    pass(&play, wait_of(&play) + (i * 7919 * 7919) % (100 * MS));
    take(&play);
  }
  assert_true(play.stamps_len > 100);
  for (size_t i = 0; i < play.stamps_len; i++)
    assert_int_equal(play.stamps[i], (1700000010 + 10 * i) * SECOND);
}

TEST(a_snapshot_more_than_1_percent_late_has_the_true_time) {
  START(0, 1700000005 * SECOND);
  pass(&play, 5 * SECOND + 100 * MS);
  assert_int_equal(take(&play).stamp_ns, 1700000010 * SECOND);
  start(&play, 0, 1700000005 * SECOND);
  pass(&play, 5 * SECOND + 100 * MS + 1);
  assert_int_equal(take(&play).stamp_ns, 1700000010 * SECOND + 100 * MS + 1);
  run(&play, 15 * SECOND, 0);
  assert_int_equal(last_stamp(&play), 1700000020 * SECOND);
}

TEST(lateness_below_nine_tenths_of_an_interval_skips_no_interval) {
  START(0, 1700000000 * SECOND);
  for (uint64_t i = 0; i < 20000; i++) {
    pass(&play, wait_of(&play) + (i * 7919 * 7919) % (9 * SECOND));
    take(&play);
  }
  assert_true(play.stamps_len > 1000);
  for (size_t i = 1; i < play.stamps_len; i++)
    assert_int_equal(play.stamps[i] / INTERVAL,
                     play.stamps[i - 1] / INTERVAL + 1);
}

TEST(a_snapshot_nearly_an_interval_late_also_serves_as_the_next) {
  START(0, 1700000005 * SECOND);
  pass(&play, 5 * SECOND + 9 * SECOND + 1);
  assert_int_equal(take(&play).stamp_ns, 1700000019 * SECOND + 1);
  run(&play, 2 * SECOND, 0);
  /* The rest of the interval is very short, so no snapshot is taken at its end.
   */
  assert_int_equal(play.stamps_len, 1);
  run(&play, 10 * SECOND, 0);
  assert_int_equal(play.stamps_len, 2);
  assert_int_equal(last_stamp(&play), 1700000030 * SECOND);
}

TEST(intervals_slept_through_yield_one_snapshot) {
  START(0, 1700000005 * SECOND);
  pass(&play, 38 * SECOND);
  take(&play);
  assert_int_equal(play.stamps_len, 1);
  assert_int_equal(play.stamps[0], 1700000043 * SECOND);
  assert_int_equal(play.samples, 1);
  assert_int_equal(play.load_averages, 1);
  assert_false(take(&play).what);
  run(&play, 8 * SECOND, 0);
  assert_int_equal(last_stamp(&play), 1700000050 * SECOND);
}

TEST(after_a_clock_is_set_forward_the_new_multiples_hold) {
  START(0, 1700000005 * SECOND);
  run(&play, 6 * SECOND, 0);
  play.realtime_ns += 3600 * SECOND + 3 * SECOND;
  size_t before = play.stamps_len;
  run(&play, 60 * SECOND, 0);
  assert_in_range(play.stamps_len - before, 6, 7);
  for (size_t i = 1; i < play.stamps_len; i++)
    assert_true(play.stamps[i] > play.stamps[i - 1]);
  for (size_t i = before + 1; i < play.stamps_len; i++)
    assert_int_equal(play.stamps[i] % INTERVAL, 0);
}

TEST(setting_a_clock_forward_is_not_lateness) {
  START(0, 1700000005 * SECOND);
  run(&play, 6 * SECOND, 0);
  play.realtime_ns += 3600 * SECOND;
  for (int i = 0; i < 10; i++) {
    pass(&play, wait_of(&play));
    assert_true(take(&play).late_ns < SECOND);
    assert_false(play.due.late);
  }
}

TEST(after_a_clock_is_set_far_back_the_new_multiples_hold) {
  struct play play;
  static const uint64_t back_s[] = {25, 40, 200, 3600, 1000000};
  for (size_t n = 0; n < sizeof back_s / sizeof back_s[0]; n++) {
    start(&play, 0, 1700000005 * SECOND);
    run(&play, 6 * SECOND, 0);
    play.realtime_ns -= back_s[n] * SECOND;
    size_t before = play.stamps_len;
    run(&play, 60 * SECOND, 0);
    assert_in_range(play.stamps_len - before, 5, 7);
    for (size_t i = before; i < play.stamps_len; i++)
      assert_int_equal(play.stamps[i] % INTERVAL, 0);
    for (size_t i = before + 1; i < play.stamps_len; i++)
      assert_int_equal(play.stamps[i], play.stamps[i - 1] + INTERVAL);
  }
}

/* A clock that is set back by less than an interval reaches the time of the
 * last stamp again. */
TEST(a_clock_set_back_a_little_repeats_no_stamp) {
  static const uint64_t back_ms[] = {1, 10, 200, 1000, 5000, 9000};
  for (size_t n = 0; n < sizeof back_ms / sizeof back_ms[0]; n++)
    for (uint64_t after_ms = 0; after_ms < 10000; after_ms += 700) {
      START(0, 1700000005 * SECOND);
      run(&play, 5 * SECOND + after_ms * MS, 0);
      play.realtime_ns -= back_ms[n] * MS;
      run(&play, 60 * SECOND, 0);
      assert_true(play.stamps_len >= 6);
      for (size_t i = 1; i < play.stamps_len; i++)
        if (play.stamps[i] <= play.stamps[i - 1])
          fail_msg("set back %d ms: stamp %d comes %s", (int)back_ms[n], (int)i,
                   play.stamps[i] == play.stamps[i - 1] ? "twice" : "late");
    }
}

TEST(a_slewed_clock_neither_loses_nor_repeats_a_stamp) {
  START(0, 1700000005 * SECOND);
  for (int i = 0; i < 20000; i++) {
    uint64_t ns = wait_of(&play);
    play.monotonic_ns += ns;
    play.realtime_ns += ns + ns / 2000 - (i % 2 ? ns / 1000 : 0);
    take(&play);
  }
  assert_true(play.stamps_len > 100);
  for (size_t i = 0; i < play.stamps_len; i++)
    assert_int_equal(play.stamps[i], (1700000010 + 10 * i) * SECOND);
}

TEST(samples_keep_their_rhythm_on_the_monotonic_clock) {
  START(0, 1700000000 * SECOND);
  run(&play, 13 * LOADAVG_INTERVAL_NS + SECOND / 2, 0);
  assert_int_equal(play.samples, 52);
  assert_int_equal(play.load_averages, 13);
  assert_int_equal(play.schedule.next_sample_ns, 53 * SAMPLE);
  assert_int_equal(play.schedule.next_load_average_ns,
                   14 * LOADAVG_INTERVAL_NS);
}

TEST(lateness_does_not_add_up) {
  START(0, 1700000000 * SECOND);
  run(&play, 13 * LOADAVG_INTERVAL_NS + SECOND / 2, 40 * MS);
  assert_int_equal(play.samples, 52);
  assert_int_equal(play.schedule.next_sample_ns % SAMPLE, 0);
}

TEST(deadlines_close_together_share_one_sample) {
  START(0, 1700000000 * SECOND + 1);
  run(&play, LOADAVG_INTERVAL_NS - MS, 0);
  pass(&play, MS / 2);
  assert_int_equal(take(&play).what, SCHEDULE_SAMPLE | SCHEDULE_LOAD_AVERAGE);
  pass(&play, MS);
  assert_int_equal(take(&play).what, 0);
}

/* A sample may be taken a millisecond early. A snapshot must not be taken
 * early, because its stamp would be in the future. */
TEST(a_snapshot_never_comes_before_its_stamp) {
  START(0, 1700000000 * SECOND + 1);
  pass(&play, 10 * SECOND - 2);
  assert_false(take(&play).what & SCHEDULE_INTERVAL);
  pass(&play, 1);
  assert_true(take(&play).what & SCHEDULE_INTERVAL);
}

TEST(samples_no_more_frequent_than_snapshots_are_not_taken) {
  static const uint64_t samples_ns[] = {0, INTERVAL, INTERVAL + 1};
  for (size_t n = 0; n < sizeof samples_ns / sizeof samples_ns[0]; n++) {
    struct play play = {.realtime_ns = 1700000000 * SECOND};
    int wakes = 0;
    schedule_start(&play.schedule, INTERVAL, samples_ns[n], false, 0,
                   play.realtime_ns);
    for (; play.monotonic_ns < 600 * SECOND; wakes++) {
      pass(&play, wait_of(&play));
      take(&play);
      assert_false(play.due.late);
    }
    assert_int_equal(play.samples, 0);
    assert_int_equal(play.stamps_len, 60);
    assert_int_equal(play.load_averages, 600 * SECOND / LOADAVG_INTERVAL_NS);
    assert_true(wakes <= 60 + play.load_averages);
  }
}

/* The run queue is a point sample, so its rhythm must not be that of jobs. */
TEST(load_averages_have_their_rhythm_at_any_interval) {
  static const uint64_t intervals[] = {SECOND, 9 * SECOND, INTERVAL,
                                       60 * SECOND};
  for (size_t n = 0; n < sizeof intervals / sizeof intervals[0]; n++) {
    struct play play = {.realtime_ns = 1700000000 * SECOND};
    schedule_start(&play.schedule, intervals[n], 0, false, 0, play.realtime_ns);
    run(&play, 600 * SECOND, 0);
    assert_int_equal(play.load_averages, 130);
  }
}

TEST(late_means_half_a_window_of_the_load_averages) {
  START(0, 1700000000 * SECOND);
  pass(&play, SAMPLE + SCHEDULE_LATE_NS);
  assert_false(take(&play).late);
  assert_int_equal(play.due.late_ns, SCHEDULE_LATE_NS);
  start(&play, 0, 1700000000 * SECOND);
  pass(&play, SAMPLE + SCHEDULE_LATE_NS + 1);
  assert_true(take(&play).late);
}

TEST(a_snapshot_may_be_the_most_overdue) {
  struct play play = {.realtime_ns = 1700000003 * SECOND};
  schedule_start(&play.schedule, INTERVAL, 0, false, 0, play.realtime_ns);
  run(&play, 7 * SECOND - MS, 0);
  pass(&play, 201 * MS);
  assert_int_equal(take(&play).late_ns, 200 * MS);
  assert_false(play.due.late);
}

TEST(without_samples_a_late_load_average_is_late) {
  struct play play = {.realtime_ns = 1700000000 * SECOND};
  schedule_start(&play.schedule, INTERVAL, 0, false, 0, play.realtime_ns);
  pass(&play, LOADAVG_INTERVAL_NS + SCHEDULE_LATE_NS);
  assert_false(take(&play).late);
  pass(&play, LOADAVG_INTERVAL_NS + 1);
  assert_true(take(&play).late);
}

TEST(on_time_is_not_late) {
  START(0, 1700000000 * SECOND);
  for (int i = 0; i < 1000; i++) {
    pass(&play, wait_of(&play));
    assert_int_equal(take(&play).late_ns, 0);
    assert_false(play.due.late);
  }
}

TEST(a_wait_ends_at_the_earliest_deadline) {
  struct schedule schedule = {.interval_ns = INTERVAL,
                              .sample_interval_ns = SAMPLE,
                              .next_sample_ns = 1000 * MS,
                              .next_load_average_ns = 2000 * MS,
                              .next_grid_ns = 30 * SECOND};
  assert_int_equal(schedule_wait_ns(&schedule, 900 * MS, 28 * SECOND),
                   100 * MS);
  schedule.next_load_average_ns = 950 * MS;
  assert_int_equal(schedule_wait_ns(&schedule, 900 * MS, 28 * SECOND), 50 * MS);
  assert_int_equal(schedule_wait_ns(&schedule, 900 * MS, 30 * SECOND - 20 * MS),
                   20 * MS);
}

TEST(a_wait_is_over_at_once_when_a_deadline_has_passed) {
  START(0, 1700000000 * SECOND);
  pass(&play, 2 * SAMPLE);
  assert_int_equal(wait_of(&play), 0);
}

/* The clock may be set during a wait, and only the next sample notices this. */
TEST(a_wait_is_never_longer_than_to_the_next_sample) {
  struct schedule schedule;
  schedule_start(&schedule, 3600 * SECOND, SAMPLE, false, 5, 5 * SECOND);
  assert_int_equal(schedule_wait_ns(&schedule, 5, 5 * SECOND), SAMPLE);
  schedule_start(&schedule, 3600 * SECOND, 0, false, 5, 5 * SECOND);
  assert_int_equal(schedule_wait_ns(&schedule, 5, 5 * SECOND),
                   LOADAVG_INTERVAL_NS);
}

/* A sampler alternately waits and takes what is due. No wait may have the
 * length 0, because the sampler would then spin. */
TEST(every_wait_makes_progress) {
  static const uint64_t intervals[] = {SECOND / 10, SECOND, INTERVAL,
                                       UINT64_C(333333333)};
  for (size_t n = 0; n < sizeof intervals / sizeof intervals[0]; n++) {
    struct schedule schedule;
    uint64_t monotonic_ns = 12345,
             realtime_ns = 1700000000 * SECOND + 987654321;
    schedule_start(&schedule, intervals[n], SAMPLE, false, monotonic_ns,
                   realtime_ns);
    for (int i = 0; i < 5000; i++) {
      schedule_take(&schedule, monotonic_ns, realtime_ns);
      uint64_t ns = schedule_wait_ns(&schedule, monotonic_ns, realtime_ns);
      assert_true(ns > 0);
      monotonic_ns += ns;
      realtime_ns += ns;
    }
  }
}

TEST(intervals_that_begin_here_are_whole_from_the_first_on) {
  struct play play = {.monotonic_ns = 12345,
                      .realtime_ns = 1700000000 * SECOND + 987654321};
  uint64_t begin_ns = play.realtime_ns;
  schedule_start(&play.schedule, INTERVAL, SAMPLE, true, play.monotonic_ns,
                 play.realtime_ns);
  for (uint64_t n = 1; n <= 3; n++) {
    while (!(take(&play).what & SCHEDULE_INTERVAL))
      pass(&play, schedule_wait_ns(&play.schedule, play.monotonic_ns,
                                   play.realtime_ns));
    assert_int_equal(play.realtime_ns, begin_ns + n * INTERVAL);
    assert_int_equal(play.due.stamp_ns, begin_ns + n * INTERVAL);
  }
}
