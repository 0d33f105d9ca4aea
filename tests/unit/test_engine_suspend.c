/* Tests periods in which the machine did not run (suspend, a paused VM), and
 * samples that were merely late. */
#include "unit.h"

#include "play.h"

static void assert_loads(const struct play *play, double load, double within) {
  for (int core = 0; core < 4; core++)
    assert_near(play_load(play, core), load, within);
}

static void assert_no_loads(const struct play *play) {
  for (int core = 0; core < 4; core++)
    assert_nan(play_load(play, core));
}

TEST(a_suspend_discards_the_window_of_every_core) {
  PLAY_MPERF(4, 0.5);
  play_open_for(&play, 2);
  uint64_t discarded = play_counts(&play)->windows_discarded;
  fake_machine_run(play.fake, FAKE_SECOND / 2);
  fake_machine_suspend(play.fake, 3600 * FAKE_SECOND);
  play_sample(&play, FAKE_SECOND / 2);
  assert_no_loads(&play);
  assert_int_equal(play_counts(&play)->windows_discarded, discarded + 4);
}

TEST(after_a_suspend_counters_are_reopened) {
  PLAY_MPERF(4, 0.5);
  play_open_for(&play, 2);
  uint64_t reopens = play_counts(&play)->reopens;
  fake_machine_suspend(play.fake, 10 * FAKE_SECOND);
  play_seconds(&play, 2);
  assert_loads(&play, 0.5, PLAY_EXACT);
  for (int core = 0; core < 4; core++)
    assert_int_equal(play_source(&play, core), SOURCE_MPERF);
  assert_int_equal(play_counts(&play)->reopens, reopens + 4);
  assert_int_equal(fake_machine_descriptors(play.fake, -1), 12);
}

TEST(a_suspend_also_discards_windows_of_the_source_idle) {
  PLAY(4);
  fake_machine_load(play.fake, 0.5);
  play_open_for(&play, 2);
  fake_machine_suspend(play.fake, 10 * FAKE_SECOND);
  play_seconds(&play, 1);
  assert_no_loads(&play);
  play_seconds(&play, 1);
  assert_loads(&play, 0.5, PLAY_SECOND_ERROR);
}

TEST(each_suspend_is_noticed_once) {
  PLAY_MPERF(4, 0.5);
  play_open(&play);
  for (int i = 0; i < 5; i++) {
    fake_machine_suspend(play.fake, 60 * FAKE_SECOND);
    play_seconds(&play, 3);
    assert_loads(&play, 0.5, PLAY_EXACT);
  }
  assert_int_equal(play_said(&play, "suspended"), 5);
}

/* The clocks cannot all be read at the same time, so the measured difference
 * between BOOTTIME and MONOTONIC varies. */
TEST(the_scatter_of_the_clocks_is_not_a_suspend) {
  PLAY_MPERF(4, 0.5);
  play_open(&play);
  for (int i = 0; i < 100; i++) {
    play.fake->boottime_offset_ns +=
        i % 2 ? 9 * (int64_t)FAKE_MS : -9 * (int64_t)FAKE_MS;
    play.fake->clock_step_ns = (uint64_t)(i % 3) * FAKE_MS;
    assert_int_equal(play_sample(&play, 100 * FAKE_MS), 0);
    assert_loads(&play, 0.5, 0.05);
  }
  assert_int_equal(play_said(&play, "suspended"), 0);
}

/* The sampling thread loses its core for these times right before and right
 * after it reads BOOTTIME. */
static uint64_t before_boottime_ns, after_boottime_ns;
static uint64_t (*even_clock)(void *context, clockid_t clock);

static uint64_t uneven_clock(void *context, clockid_t clock) {
  if (clock != CLOCK_BOOTTIME)
    return even_clock(context, clock);
  fake_machine_run(context, before_boottime_ns);
  uint64_t now_ns = even_clock(context, clock);
  fake_machine_run(context, after_boottime_ns);
  return now_ns;
}

TEST(a_slow_read_of_the_clocks_is_not_a_suspend) {
  PLAY_MPERF(4, 0.5);
  even_clock = play.fake->machine.clock_ns;
  play.fake->machine.clock_ns = uneven_clock;
  before_boottime_ns = after_boottime_ns = 0;
  play_open(&play);
  for (int i = 0; i < 20; i++) {
    before_boottime_ns = i % 3 == 0 ? 300 * FAKE_MS : 0;
    after_boottime_ns = i % 4 == 0 ? 300 * FAKE_MS : 0;
    play_seconds(&play, 1);
    assert_loads(&play, 0.5, PLAY_EXACT);
  }
  assert_int_equal(play_said(&play, "suspended"), 0);
}

TEST(a_suspend_before_the_start_does_not_matter) {
  PLAY_MPERF(4, 0.5);
  play.fake->boottime_offset_ns = 3600 * (int64_t)FAKE_SECOND;
  play_open_for(&play, 2);
  assert_loads(&play, 0.5, PLAY_EXACT);
  assert_int_equal(play_said(&play, "suspended"), 0);
  assert_int_equal(play_counts(&play)->windows_discarded, 0);
}

TEST(setting_a_clock_is_not_a_suspend) {
  PLAY_MPERF(4, 0.5);
  play_open_for(&play, 2);
  play.fake->realtime_offset_ns += 3600 * (int64_t)FAKE_SECOND;
  play_seconds(&play, 1);
  assert_loads(&play, 0.5, PLAY_EXACT);
  play.fake->realtime_offset_ns -= 7200 * (int64_t)FAKE_SECOND;
  play_seconds(&play, 1);
  assert_loads(&play, 0.5, PLAY_EXACT);
}

/* ---------------------------------------------------------------------------
 * Late samples
 */

TEST(a_window_in_which_the_vm_was_paused_is_discarded) {
  PLAY_MPERF(4, 0.5);
  play_open_for(&play, 2);
  fake_machine_pause(play.fake, 30 * FAKE_SECOND);
  play_sample_late(&play, FAKE_SECOND);
  assert_no_loads(&play);
  assert_int_equal(play_said(&play, "was paused"), 1);
  play_seconds(&play, 1);
  assert_loads(&play, 0.5, PLAY_EXACT);
}

TEST(a_pause_also_discards_windows_of_the_source_idle) {
  PLAY(4);
  fake_machine_load(play.fake, 0.25);
  play_open_for(&play, 2);
  fake_machine_pause(play.fake, 30 * FAKE_SECOND);
  play_sample_late(&play, FAKE_SECOND);
  assert_no_loads(&play);
  play_seconds(&play, 1);
  assert_loads(&play, 0.25, PLAY_SECOND_ERROR);
}

TEST(a_second_pause_in_a_row_is_noticed_as_well) {
  PLAY(4);
  fake_machine_load(play.fake, 0.25);
  play_open_for(&play, 2);
  for (int i = 0; i < 2; i++) {
    fake_machine_pause(play.fake, 9 * FAKE_SECOND);
    play_sample_late(&play, FAKE_SECOND);
    assert_no_loads(&play);
  }
}

/* This kernel counts time that is stolen during a wake-up both as idle and as
 * steal. */
TEST(a_pause_is_noticed_although_idle_and_steal_overlap) {
  PLAY(2);
  for (int core = 0; core < 2; core++)
    play.fake->cores[core].woken = 0.9;
  play_open_for(&play, 2);
  fake_machine_pause(play.fake, FAKE_SECOND * 13 / 10);
  play_sample_late(&play, FAKE_SECOND);
  assert_nan(play_load(&play, 0));
  assert_int_equal(play_said(&play, "was paused"), 1);
}

/* Softirqs take all of core 0 and nearly all of core 1, and the columns miss
 * them. */
TEST(a_late_sample_with_hidden_work_is_not_a_pause) {
  PLAY(2);
  for (int core = 0; core < 2; core++) {
    play.fake->cores[core].seen = play.fake->cores[core].idle = 0.05 * core;
    play.fake->cores[core].load = 1 - 0.05 * core;
  }
  play_open_for(&play, 3);
  assert_int_equal(play_sample_late(&play, 5 * FAKE_SECOND), 0);
  for (int core = 0; core < 2; core++)
    assert_near(play_load(&play, core), 1 - 0.05 * core, PLAY_SECOND_ERROR);
  assert_int_equal(play_said(&play, "was paused"), 0);
}

TEST(a_late_sample_with_steal_is_not_a_pause) {
  PLAY(2);
  fake_machine_load(play.fake, 0.2);
  for (int core = 0; core < 2; core++)
    play.fake->cores[core].steal = 0.6;
  play_open_for(&play, 2);
  play_sample_late(&play, 30 * FAKE_SECOND);
  assert_near(play_load(&play, 0), 0.8, PLAY_SECOND_ERROR);
  assert_near(play_low(&play, 0), 0.2, PLAY_SECOND_ERROR);
}

/* The sample was late, but the cores ran, so the window is kept. */
TEST(a_late_sample_integrates_what_the_cores_did) {
  PLAY_MPERF(4, 0.9);
  play_open_for(&play, 2);
  play_sample_late(&play, 30 * FAKE_SECOND);
  assert_loads(&play, 0.9, PLAY_EXACT);
  assert_int_equal(play_said(&play, "was paused"), 0);
}

/* The others were idle when the machine was paused. Their idle time goes on. */
TEST(a_pause_discards_the_window_of_cores_that_were_not_idle) {
  PLAY(4);
  fake_machine_load(play.fake, 0.2);
  for (int core = 0; core < 3; core++)
    play.fake->cores[core].idle_in_pause = true;
  play_open_for(&play, 2);
  fake_machine_pause(play.fake, 9 * FAKE_SECOND);
  play_sample_late(&play, FAKE_SECOND);
  assert_nan(play_load(&play, 3));
  for (int core = 0; core < 3; core++)
    assert_near(play_load(&play, core), 0.02, PLAY_SECOND_ERROR);
  assert_int_equal(play_said(&play, "paused", "cores 3"), 1);
}

/* Columns do not tell a pause from work that evades the tick. */
TEST(what_the_columns_lack_on_a_virtual_machine_may_be_a_pause) {
  for (int is_virtual = 0; is_virtual < 2; is_virtual++) {
    PLAY(1);
    if (is_virtual)
      fake_machine_hypervisor(play.fake);
    fake_machine_load(play.fake, 0.8);
    play.fake->cores[0].seen = 0.3;
    play_open_for(&play, 2);
    play_sample_late(&play, 5 * FAKE_SECOND);
    assert_near(play_load(&play, 0), 0.8, PLAY_SECOND_ERROR);
    assert_near(play_bounds(&play, 0).low, is_virtual ? 0.3 : 0.8,
                PLAY_SECOND_ERROR);
  }
}

/* The sampler itself was starved for as long. */
TEST(a_late_window_has_the_bounds_that_its_columns_give) {
  PLAY(1);
  fake_machine_hypervisor(play.fake);
  fake_machine_load(play.fake, 0.999);
  play_open_for(&play, 2);
  play_sample_late(&play, 5 * FAKE_SECOND);
  assert_near(play_bounds(&play, 0).low, 0.99, 0.01);
  assert_true(play_bounds(&play, 0).high >= 0.999);
}

TEST(a_short_pause_of_a_virtual_machine_is_within_the_bounds) {
  static const double pauses_s[] = {0.05, 0.1, 0.3, 1, 2};
  for (int i = 0; i < 10; i++) {
    double pause_s = pauses_s[i / 2], load = 0.5;
    PLAY(1);
    fake_machine_hypervisor(play.fake);
    if (i % 2 == 0)
      fake_machine_pin_clock(play.fake);
    fake_machine_load(play.fake, load);
    play_open_for(&play, 3);
    fake_machine_pause(play.fake, (uint64_t)(pause_s * 1e9));
    play_seconds(&play, 1);
    double truth = load / (1 + pause_s);
    struct bounds bounds = play_bounds(&play, 0);
    assert_true(bounds.low <= truth && truth <= bounds.high);
    assert_true(bounds.low >= truth - 0.06);
  }
}

TEST(counters_that_stood_still_for_a_while_give_no_load) {
  PLAY_MPERF(1, 0.5);
  play_open_for(&play, 2);
  fake_machine_pause(play.fake, 30 * FAKE_MS);
  play_seconds(&play, 1);
  assert_near(play_load(&play, 0), 0.5, PLAY_EXACT);
  assert_true(play_bounds(&play, 0).high >= (0.5 + 0.03) / 1.03);
  fake_machine_pause(play.fake, 300 * FAKE_MS);
  play_seconds(&play, 1);
  assert_nan(play_load(&play, 0));
}

/* The group of one core did not count, but the other groups did. */
TEST(one_core_that_stood_still_costs_no_other_its_load) {
  PLAY_MPERF(4, 0.5);
  play_open_for(&play, 2);
  play.fake->cores[3].frozen = true;
  fake_machine_run(play.fake, 29 * FAKE_SECOND);
  play.fake->cores[3].frozen = false;
  play_sample_late(&play, FAKE_SECOND);
  assert_near(play_load(&play, 0), 0.5, PLAY_EXACT);
  assert_measured(&play, 3, SOURCE_IDLE, 0.5, PLAY_SECOND_ERROR);
  assert_int_equal(play_said(&play, "paused"), 0);
}

TEST(a_pause_does_not_enter_the_totals) {
  PLAY_MPERF(4, 0.5);
  play_open_for(&play, 2);
  struct core_totals before = play_core(&play, 0)->total;
  fake_machine_pause(play.fake, 30 * FAKE_SECOND);
  play_sample_late(&play, FAKE_SECOND);
  const struct core_totals *after = &play_core(&play, 0)->total;
  assert_near(after->wall, before.wall, 0);
  assert_near(after->unhalted, before.unhalted, 0);
  assert_near(after->stat_wall, before.stat_wall, 0);
  assert_near(after->stat_idle, before.stat_idle, 0);
  assert_int_not_equal(after->epoch, before.epoch);
  assert_int_not_equal(after->stat_epoch, before.stat_epoch);
}
