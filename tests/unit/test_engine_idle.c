/* Tests the source "idle": wall time minus the idle columns. */
#include "unit.h"

#include "cycles/engine_private.h"
#include "play.h"

TEST(load_is_wall_time_less_idle_time) {
  PLAY(4);
  play.fake->cores[1].load = 0.1;
  play.fake->cores[2].load = 0.5;
  play.fake->cores[3].load = 1;
  play_open(&play);
  play_sample(&play, 10 * FAKE_SECOND);
  static const double loads[] = {0, 0.1, 0.5, 1};
  for (int core = 0; core < 4; core++)
    assert_measured(&play, core, SOURCE_IDLE, loads[core],
                    PLAY_SECOND_ERROR / 10);
}

/* The work runs for most of each tick period, but always sleeps when the tick
 * fires. */
TEST(work_that_evades_the_tick_is_seen) {
  PLAY(1);
  play.fake->cores[0].load = 0.868;
  play.fake->cores[0].seen = 0.004;
  play_open(&play);
  play_sample(&play, 10 * FAKE_SECOND);
  assert_near(play_load(&play, 0), 0.868, PLAY_SECOND_ERROR / 10);
}

TEST(work_that_runs_at_the_tick_is_not_overestimated) {
  PLAY(1);
  play.fake->cores[0].load = 0.0665;
  play.fake->cores[0].seen = 0.999;
  play_open(&play);
  play_sample(&play, 10 * FAKE_SECOND);
  assert_near(play_load(&play, 0), 0.0665, PLAY_SECOND_ERROR / 10);
}

TEST(waiting_for_a_disk_is_idle) {
  PLAY(1);
  play.fake->cores[0].load = 0.2;
  play.fake->cores[0].iowait = 0.75;
  play_open(&play);
  play_sample(&play, 10 * FAKE_SECOND);
  assert_near(play_load(&play, 0), 0.2, PLAY_SECOND_ERROR / 5);
}

TEST(one_sample_gives_no_load) {
  PLAY(1);
  play_open(&play);
  const struct core_totals none = {0};
  assert_true(isnan(engine_load(&none, &play_core(&play, 0)->total)) ||
              play_core(&play, 0)->total.wall == 0);
  play_sample(&play, FAKE_SECOND);
  assert_false(isnan(play_load(&play, 0)));
}

TEST(a_gap_is_one_long_window) {
  PLAY(1);
  play_open(&play);
  play.fake->cores[0].load = 1;
  fake_machine_run(play.fake, 1800 * FAKE_SECOND);
  play.fake->cores[0].load = 0.5;
  play_sample(&play, 1800 * FAKE_SECOND);
  assert_near(play_load(&play, 0), 0.75, 1e-4);
  assert_near(play_core(&play, 0)->total.wall - play.before[0].wall, 3600e9, 1);
}

TEST(many_short_windows_add_up_to_the_same) {
  PLAY(1);
  play_open(&play);
  struct core_totals begin = play_core(&play, 0)->total;
  play.fake->cores[0].load = 0.37;
  for (int i = 0; i < 1000; i++)
    assert_int_equal(play_sample(&play, 73 * FAKE_MS), 0);
  assert_near(engine_load(&begin, &play_core(&play, 0)->total), 0.37,
              PLAY_SECOND_ERROR / 73);
  assert_int_equal(play_counts(&play)->errors, 0);
}

TEST(two_samples_at_the_same_time_give_no_load) {
  PLAY(1);
  play_open(&play);
  play_sample(&play, FAKE_SECOND);
  play_sample(&play, 0);
  assert_nan(play_load(&play, 0));
  play_sample(&play, FAKE_SECOND);
  assert_near(play_load(&play, 0), 0, PLAY_SECOND_ERROR);
}

/* ---------------------------------------------------------------------------
 * Wrong columns: the test supplies rows of /proc/stat, one second apart
 */

static void open_with_rows(struct play *play, const char *rows) {
  fake_machine_file(play->fake, "/proc/stat", rows);
  play_open(play);
}

static void sample_rows(struct play *play, const char *rows) {
  fake_machine_file(play->fake, "/proc/stat", rows);
  play_sample(play, FAKE_SECOND);
}

TEST(idle_time_that_steps_back_a_little_is_held) {
  PLAY(1);
  open_with_rows(&play, "cpu0 100 0 0 1000 0 0 0 0 0 0\n");
  sample_rows(&play, "cpu0 130 0 0 1070 0 0 0 0 0 0\n");
  assert_near(play_load(&play, 0), 0.3, 1e-9);
  sample_rows(&play, "cpu0 230 0 0 1065 0 0 0 0 0 0\n"); /* 5 ticks less idle */
  assert_near(play_load(&play, 0), 1, 1e-9);
  sample_rows(&play, "cpu0 230 0 0 1170 0 0 0 0 0 0\n");
  assert_near(play_load(&play, 0), 0, 1e-9); /* 1170 - 1070, not 1170 - 1065 */
  assert_int_equal(play_counts(&play)->errors, 0);
}

/* Only the sum of idle and iowait counts, because iowait may decrease while
 * idle increases. */
TEST(time_that_moves_from_iowait_to_idle_is_not_load) {
  PLAY(1);
  open_with_rows(&play, "cpu0 0 0 0 1000 500 0 0 0 0 0\n");
  sample_rows(&play, "cpu0 0 0 0 1400 200 0 0 0 0 0\n");
  assert_near(play_load(&play, 0), 0, 1e-9);
  assert_int_equal(play_counts(&play)->errors, 0);
}

TEST(rounding_is_clamped) {
  PLAY(2);
  open_with_rows(&play,
                 "cpu0 0 0 0 1000 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\n");
  sample_rows(&play, "cpu0 0 0 0 1102 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\n");
  assert_near(play_load(&play, 0), 0, 0);
  assert_near(play_load(&play, 1), 1, 0);
  assert_int_equal(play_counts(&play)->errors, 0);
}

TEST(a_load_far_outside_0_to_1_is_counted_as_an_error) {
  PLAY(2);
  open_with_rows(&play,
                 "cpu0 0 0 0 1000 0 0 0 0 0 0\ncpu1 0 0 0 1000 0 0 0 0 0 0\n");
  sample_rows(&play,
              "cpu0 0 0 0 1104 0 0 0 0 0 0\ncpu1 0 0 0 1050 0 0 0 0 0 0\n");
  assert_nan(play_load(&play, 0));
  assert_near(play_load(&play, 1), 0.5, 1e-9);
  assert_int_equal(play_counts(&play)->errors, 1);
  /* The window begins before the refused sample, so it covers two seconds, with
   * 184 idle ticks. */
  sample_rows(&play,
              "cpu0 0 0 0 1184 0 0 0 0 0 0\ncpu1 0 0 0 1100 0 0 0 0 0 0\n");
  assert_near(play_load(&play, 0), 0.08, 1e-9);
  assert_near(play_load(&play, 1), 0.5, 1e-9);
  assert_int_equal(play_counts(&play)->errors, 1);
}

/* Plays rows of one core, one second apart, whose idle column is idle[].
 * Asserts that the loads are loads[]; -1: unknown. */
static void assert_windows(const int *idle, const double *loads, int len) {
  char row[64];
  PLAY(1);
  open_with_rows(&play, "cpu0 0 0 0 1000 0 0 0 0 0 0\n");
  for (int i = 0; i < len; i++) {
    snprintf(row, sizeof row, "cpu0 0 0 0 %d 0 0 0 0 0 0\n", idle[i]);
    sample_rows(&play, row);
    if (loads[i] < 0)
      assert_nan(play_load(&play, 0));
    else
      assert_near(play_load(&play, 0), loads[i], 1e-9);
  }
}

TEST(a_decrease_of_50_ms_is_ignored_and_a_larger_decrease_is_refused) {
  static const int held[] = {1100, 1095, 1200};
  static const double held_loads[] = {0, 1, 0};
  assert_windows(held, held_loads, 3);
  /* The third window covers two seconds. */
  static const int refused[] = {1100, 1094, 1200};
  static const double refused_loads[] = {0, -1, 0.5};
  assert_windows(refused, refused_loads, 3);
}

/* The idle time is misread if a task starts or stops waiting for a disk after
 * the kernel has read idle and before it reads iowait. */
TEST(a_misread_of_idle_time_gives_no_load_and_the_next_window_includes_it) {
  static const int far_back[] = {1100, 1040, 1300, 1400};
  static const double far_back_loads[] = {0, -1, 0, 0};
  assert_windows(far_back, far_back_loads, 4);
  static const int forward[] = {1100, 1260, 1300, 1400};
  static const double forward_loads[] = {0, -1, 0, 0};
  assert_windows(forward, forward_loads, 4);
}

/* The misread is too small to be recognised, so the start of the next window is
 * wrong. */
TEST(a_base_that_was_misread_is_given_up_after_three_windows) {
  static const int idle[] = {1100, 1140, 1300, 1400, 1500, 1600};
  static const double loads[] = {0, 0.6, -1, -1, -1, 0};
  assert_windows(idle, loads, 6);
}

TEST(there_is_no_value_until_idle_time_exceeds_its_old_base) {
  static const int idle[] = {1100, 1010, 1060, 1140, 1190};
  static const double loads[] = {0, -1, -1, 1 - 0.4 / 3, 0.5};
  assert_windows(idle, loads, 5);
}

/* All columns begin at 0 again, as after a restart of LXCFS. */
TEST(columns_wrong_in_three_windows_are_taken_as_reset) {
  static const int back[] = {1100, 7, 57, 107, 182, 207};
  static const double loads[] = {0, -1, -1, -1, 0.25, 0.75};
  assert_windows(back, loads, 6);
  static const int forward[] = {1100, 9100, 9200, 9300, 9375, 9400};
  assert_windows(forward, loads, 6);
  /* Two wrong windows before a good window and two after it are not three in a
   * row. */
  static const int again[] = {1050, 9100, 9200, 1200, 9200, 9300, 1350};
  static const double again_loads[] = {0.5, -1, -1, 0.5, -1, -1, 0.5};
  assert_windows(again, again_loads, 7);
}

TEST(windows_under_two_ticks_become_part_of_the_next) {
  PLAY(1);
  play.fake->cores[0].load = 0.4;
  play_open(&play);
  for (int i = 0; i < 100; i++) {
    play_sample(&play, 15 * FAKE_MS);
    if (i % 2 == 0)
      assert_nan(play_load(&play, 0));
    else
      assert_near(play_core(&play, 0)->total.wall - play.before[0].wall, 30e6,
                  0);
  }
  assert_near(play_core(&play, 0)->total.wall, 1.5e9, 0);
  assert_int_equal(play_counts(&play)->windows_discarded, 0);
}

/* ---------------------------------------------------------------------------
 * /proc/stat that describes other cores, or is missing
 */

TEST(renumbered_rows_withhold_the_source_and_are_reported_once) {
  PLAY(4);
  core_set_add(&play.fake->stat_hidden, 2);
  core_set_add(&play.fake->stat_hidden, 3);
  play_open_for(&play, 5);
  for (int core = 0; core < 4; core++) {
    assert_nan(play_load(&play, core));
    assert_int_equal(play_source(&play, core), SOURCE_NONE);
  }
  assert_false(play.engine->stat_valid);
  assert_int_equal(play_said(&play, "0-1", "0-3", "withheld"), 1);

  core_set_clear(&play.fake->stat_hidden);
  play_seconds(&play, 2);
  assert_near(play_load(&play, 3), 0, PLAY_SECOND_ERROR);
  assert_true(play.engine->stat_valid);
}

/* No kernel writes such a row. */
TEST(a_malformed_row_withholds_the_source_until_the_row_is_right) {
  PLAY(3);
  open_with_rows(&play, "cpu0 0 0 0 10 0 0 0 0 0 0\ncpu1 0 0 0 10 0 0 0 0 0 0\n"
                        "cpu2 0 0 0 10 0 0 0 0 0 0\n");
  sample_rows(&play, "cpu0 0 0 0 60 0 0 0 0 0 0\ncpu1 0 0 0 x 0 0 0 0 0 0\n"
                     "cpu2 0 0 0 80 0 0 0 0 0 0\n");
  for (int core = 0; core < 3; core++)
    assert_nan(play_load(&play, core));
  assert_int_equal(play_said(&play, "0,2", "0-2", "withheld"), 1);
  sample_rows(&play, "cpu0 0 0 0 70 0 0 0 0 0 0\ncpu1 0 0 0 70 0 0 0 0 0 0\n"
                     "cpu2 0 0 0 90 0 0 0 0 0 0\n");
  sample_rows(&play, "cpu0 0 0 0 120 0 0 0 0 0 0\ncpu1 0 0 0 170 0 0 0 0 0 0\n"
                     "cpu2 0 0 0 190 0 0 0 0 0 0\n");
  assert_near(play_load(&play, 0), 0.5, PLAY_SECOND_ERROR);
  assert_near(play_load(&play, 1), 0, PLAY_SECOND_ERROR);
}

/* If LXCFS provides both /proc/stat and the list of online cores, the two
 * agree, but both describe the container instead of the host. */
TEST(lxcfs_under_both_files_withholds_the_source_and_is_reported_once) {
  PLAY(2);
  play.fake->lxcfs = true;
  play_open_for(&play, 10);
  assert_int_equal(play_source(&play, 0), SOURCE_NONE);
  assert_false(play.engine->stat_valid);
  assert_int_equal(play_said(&play, "LXCFS", "withheld"), 1);
  assert_non_null(
      strstr(engine_source_reason(play.engine, SOURCE_IDLE), "LXCFS"));
}

/* cpu_dma_latency is 0, so the idle loop polls. */
TEST(time_in_which_the_idle_loop_polls_is_load) {
  PLAY(1);
  play.fake->cpuidle_states = 3;
  struct fake_core *core = &play.fake->cores[0];
  *core = (struct fake_core){.online = true,
                             .load = 0.5,
                             .seen = 0.3,
                             .idle = 0.7,
                             .polled = 0.2,
                             .running = 1};
  play_open(&play);
  for (int second = 0; second < 60; second++) {
    play_seconds(&play, 1);
    assert_near(play_load(&play, 0), 0.5, PLAY_SECOND_ERROR);
  }
  assert_int_equal(play_said(&play, "core 0", "polls"), 1);
  core->load = 0.3;
  core->polled = 0;
  play_seconds(&play, 60);
  assert_near(play_load(&play, 0), 0.3, PLAY_SECOND_ERROR);
  core->load = 1;
  core->polled = 0.7;
  play_seconds(&play, 10);
  assert_near(play_load(&play, 0), 1, PLAY_SECOND_ERROR);
}

/* An application holds /dev/cpu_dma_latency at 0 for some seconds, again and
 * again. */
TEST(polling_is_counted_from_its_first_nanosecond) {
  static const struct {
    int polls_s, every_s, window_s;
  } bursts[] = {{4, 23, 1}, {2, 7, 1}, {10, 30, 1}, {60, 120, 1}, {4, 23, 10}};
  for (size_t i = 0; i < sizeof bursts / sizeof bursts[0]; i++) {
    PLAY(1);
    struct fake_core *core = &play.fake->cores[0];
    play.fake->cpuidle_states = 3;
    play.fake->poll_ns = FAKE_MS / 2;
    core->idle = 1;
    play_open_for(&play, 30);
    for (int second = 0; second < 300;) {
      double polled_s = 0;
      for (int end = second + bursts[i].window_s; second < end; second++) {
        core->polled = second % bursts[i].every_s < bursts[i].polls_s;
        core->load = core->polled;
        polled_s += core->polled;
        fake_machine_run(play.fake, FAKE_SECOND);
      }
      double load = polled_s / bursts[i].window_s;
      assert_int_equal(play_sample(&play, 0), 0);
      assert_near(play_load(&play, 0), load, PLAY_SECOND_ERROR);
      assert_true(play_bounds(&play, 0).low <= load);
      assert_true(play_bounds(&play, 0).high >= load);
    }
  }
}

TEST(polling_is_counted_as_soon_as_a_core_is_back) {
  PLAY(2);
  struct fake_core *core = &play.fake->cores[1];
  play.fake->cpuidle_states = 3;
  core->idle = core->polled = core->load = 1;
  play_open_for(&play, 10);
  fake_machine_online(play.fake, 1, false);
  fake_machine_online(play.fake, 1, true);
  play_seconds(&play, 1);
  for (int second = 0; second < 10; second++) {
    play_seconds(&play, 1);
    assert_near(play_load(&play, 1), 1, PLAY_SECOND_ERROR);
  }
}

/* The counter fails between two judgements, each of which looks for polling. */
TEST(polling_is_counted_where_the_columns_stand_in_for_a_counter) {
  for (int polled_before = 0; polled_before < 2; polled_before++) {
    PLAY_MPERF(1, polled_before ? 0.5 : 0.2);
    struct fake_core *core = &play.fake->cores[0];
    play.fake->cpuidle_states = 3;
    core->seen = 0.2;
    core->idle = 0.8;
    core->polled = polled_before ? 0.3 : 0;
    play_open_for(&play, 12);
    core->polled = 0.3;
    core->load = 0.5;
    core->read_error = EIO;
    for (int second = 0; second < 8; second++) {
      play_seconds(&play, 1);
      assert_measured(&play, 0, SOURCE_IDLE, 0.5, PLAY_SECOND_ERROR);
    }
  }
}

/* Idle time leaves interrupts out, the state POLL does not. */
TEST(interrupts_that_come_while_a_core_polls_are_within_the_bounds) {
  PLAY(1);
  struct fake_core *core = &play.fake->cores[0];
  play.fake->cpuidle_states = 3;
  core->load = 0.5;
  core->polled = core->polled_irq = 0.2;
  core->idle = 0.7;
  play_open_for(&play, 10);
  struct bounds bounds = play_bounds(&play, 0);
  assert_true(bounds.low <= 0.5 && 0.5 <= bounds.high);
}

/* A poll is counted when it ends, and the columns are truncated: here, idle
 * time by 9.9 ms before the window and not after it. */
TEST(a_poll_that_is_under_way_is_within_the_bounds) {
  PLAY(1);
  struct fake_core *core = &play.fake->cores[0];
  play.fake->cpuidle_states = 3;
  play.fake->poll_ns = 10 * FAKE_MS;
  core->idle = 1;
  play_open_for(&play, 2);
  play_sample(&play, FAKE_SECOND + 99 * FAKE_MS / 10);
  fake_machine_run(play.fake, 2 * FAKE_MS / 10);
  core->load = core->polled = 1;
  play_sample(&play, 599 * FAKE_MS / 10);
  struct bounds bounds = play_bounds(&play, 0);
  assert_true(bounds.low <= 599.0 / 601 && 599.0 / 601 <= bounds.high);
}

TEST(a_core_that_only_polls_is_known_to_be_busy) {
  PLAY(1);
  struct fake_core *core = &play.fake->cores[0];
  play.fake->cpuidle_states = 3;
  core->idle = core->polled = core->load = 1;
  play_open_for(&play, 10);
  struct bounds bounds = play_bounds(&play, 0);
  assert_near(bounds.low, 1, 0.1);
  assert_near(bounds.high, 1, PLAY_EXACT);
}

/* The judgement has them read every 4.6 s. */
TEST(files_of_the_idle_driver_are_read_only_where_they_are_needed) {
  for (int counter = 0; counter < 2; counter++)
    for (int states = 0; states < 4; states += 3) {
      struct play play;
      if (counter)
        play_start_mperf(&play, 1, 0.5);
      else
        play_start(&play, 1);
      play.fake->cpuidle_states = states;
      play_open_for(&play, 20);
      int reads = play.fake->cpuidle_reads;
      play_seconds(&play, 100);
      reads = play.fake->cpuidle_reads - reads;
      if (states == 0)
        assert_int_equal(reads, 0);
      else
        assert_in_range(reads, counter ? 20 : 100, counter ? 22 : 100);
      play_end(&play);
    }
}

/* Beside a counter, they are read as rarely as before. */
TEST(files_of_an_idle_driver_that_has_gone_are_not_looked_for_in_each_sample) {
  PLAY_MPERF(1, 0.5);
  play.fake->cpuidle_states = 3;
  play_open_for(&play, 20);
  play.fake->cpuidle_states = 0;
  play_seconds(&play, 100);
  assert_in_range(play.fake->cpuidle_misses, 20, 25);
}

TEST(with_idle_poll_a_core_is_never_idle) {
  static const char *const lines[] = {"quiet idle=poll\n", "nohlt",
                                      "idle=polling xnohlt\n", ""};
  for (int i = 0; i < 4; i++) {
    bool polls = i < 2;
    PLAY(1);
    fake_machine_file(play.fake, "/proc/cmdline", lines[i]);
    fake_machine_load(play.fake, 0.3);
    play_open(&play);
    for (int second = 0; second < 20; second++) {
      play_seconds(&play, 1);
      assert_near(play_load(&play, 0), polls ? 1 : 0.3, PLAY_SECOND_ERROR);
    }
    assert_int_equal(play_said(&play, "polls", "70 %"), polls);
  }
}

/* On this host no core is ever free to prove it. */
TEST(with_nohz_off_idle_time_is_known_to_be_sampled_at_the_tick) {
  static const char *const lines[] = {"quiet nohz=off\n", "nohz=0",
                                      "nohz=on xnohz=off nohz=offline\n"};
  for (int i = 0; i < 3; i++) {
    PLAY(1);
    fake_machine_file(play.fake, "/proc/cmdline", lines[i]);
    play_open_for(&play, 2);
    assert_int_equal(play_core(&play, 0)->proof,
                     i < 2 ? PROOF_TICK_SAMPLED : PROOF_PENDING);
    assert_int_equal(play_said(&play, "idle is tick-sampled", "nohz"), i < 2);
  }
}

TEST(on_a_quiet_core_the_bounds_are_1_point_apart) {
  double widths[1000];
  PLAY(1);
  play_quiet_widths(&play, widths);
  assert_true(widths[500] <= 0.01 + PLAY_EXACT);
  assert_true(widths[999] <= 0.02 + PLAY_EXACT);
}

TEST(time_that_was_unknown_before_a_window_widens_no_bounds) {
  const struct core_totals from = {
      .epoch = 1, .wall = 5e9, .unhalted = 2e9, .unknown = 3e9, .stolen = 1e9};
  struct core_totals to = from;
  to.wall += 1e9;
  to.unhalted += 0.5e9;
  struct bounds bounds = bounds_of(&from, &to);
  assert_near(bounds.low, 0.5, 0);
  assert_near(bounds.high, 0.5, 0);
  to.unknown += 0.1e9;
  bounds = bounds_of(&from, &to);
  assert_near(bounds.low, 0.5 / 1.1, 1e-12);
  assert_near(bounds.high, 0.6 / 1.1, 1e-12);
}

/* The rows are those of the begin of one read and of the end of the next. */
TEST(the_time_that_a_read_takes_is_within_the_bounds) {
  static const uint64_t read_ms[] = {8, 20, 40}, window_ms[] = {200, 1000};
  for (int i = 0; i < 6; i++) {
    PLAY(1);
    fake_machine_load(play.fake, 0.1);
    play.fake->stat_slow_reads = -1;
    play.fake->stat_read_ns = read_ms[i % 3] * FAKE_MS;
    play_open_for(&play, 2);
    for (int window = 0; window < 300; window++) {
      play.fake->stat_read_before = window % 2;
      assert_int_equal(play_sample(&play, window_ms[i / 3] * FAKE_MS), 0);
      struct bounds bounds = play_bounds(&play, 0);
      assert_true(bounds.low <= 0.1 && 0.1 <= bounds.high);
    }
    assert_int_equal(play_counts(&play)->errors, 0);
  }
}

/* Of 12 000 halts a second, the idle loop takes 6 us each, which the columns
 * count as idle. All other interrupts are on core 1. Where the core monitors
 * its run queue, as MWAIT does with an idle driver or without (cpuidle.off=1),
 * halts end without interrupts. */
TEST(in_a_flood_of_interrupts_the_truth_is_within_the_bounds) {
  for (int i = 0; i < 6; i++) {
    bool has_driver = i % 3 == 0, monitors = i % 3 < 2;
    double load = i < 3 ? 0.6 : 0.95, others = 100e3;
    PLAY(2);
    play.fake->cpuidle_states = has_driver ? 2 : 0;
    if (monitors)
      fake_machine_file(play.fake, "/proc/cpuinfo",
                        "processor\t: 0\nflags\t\t: fpu monitor\n");
    fake_machine_load(play.fake, load);
    for (int core = 0; core < 2; core++)
      play.fake->cores[core].idle = 1 - load + 0.072;
    play_open(&play);
    for (int second = 0; second < 20; second++) {
      for (int core = 0; core < 2; core++)
        play.fake->cores[core].halts += 11000;
      *(monitors ? &play.fake->switches : &play.fake->interrupts) +=
          12e3 + others;
      play_seconds(&play, 1);
      struct bounds bounds = play_bounds(&play, 0);
      assert_true(bounds.low <= load && load <= bounds.high);
      assert_true(play_load(&play, 0) < load);
      if (has_driver && second > 0)
        assert_true(bounds.high <= load - 0.072 + 0.1 + PLAY_SECOND_ERROR);
    }
  }
}

TEST(what_traces_the_idle_loop_makes_it_longer_at_most_threefold) {
  for (int i = 0; i < 4; i++) {
    PLAY(1);
    double load = 0.6, loop_ns = i == 0 ? 7e3 : 20e3;
    if (i == 1)
      fake_machine_file(play.fake, "/sys/kernel/tracing/set_event",
                        "sched:sched_switch\n");
    if (i == 2)
      fake_machine_file(play.fake, "/sys/kernel/tracing/current_tracer",
                        "function\n");
    if (i == 3)
      fake_machine_idle_clock(play.fake);
    play.fake->clock.tracers = i == 3;
    fake_machine_load(play.fake, load);
    play.fake->cores[0].halts_per_s = 5000;
    play.fake->cores[0].loop_ns = loop_ns;
    play_open_for(&play, 3);
    struct bounds bounds = play_bounds(&play, 0);
    assert_true(bounds.low <= load && load <= bounds.high);
    assert_near(play_load(&play, 0), load - 5e-6 * loop_ns, PLAY_SECOND_ERROR);
  }
}

/* Reading them takes more time than /proc/stat. */
TEST(idle_drivers_are_read_only_in_a_flood_and_only_for_bounds) {
  for (int i = 0; i < 3; i++) {
    bool flood = i > 0, wanted = i == 1;
    PLAY(1);
    play.options.bounds = i < 2;
    play.fake->cpuidle_states = 3;
    play_open_for(&play, 20);
    int reads = play.fake->cpuidle_reads;
    for (int second = 0; second < 10; second++) {
      play.fake->interrupts += flood ? 1300 : 1200;
      play_seconds(&play, 1);
    }
    assert_int_equal(play.fake->cpuidle_reads - reads, wanted ? 40 : 10);
  }
}

/* A read in vain takes as long as any other. */
TEST(idle_states_that_a_core_lacks_are_looked_for_once_a_minute) {
  for (int states = 0; states < 4; states += 3) {
    PLAY(2);
    play.fake->cpuidle_states = states;
    play_open_for(&play, 1);
    play.fake->cpuidle_misses = 0;
    for (int second = 0; second < 600; second++) {
      play.fake->interrupts += 3000;
      play_seconds(&play, 1);
    }
    assert_in_range(play.fake->cpuidle_misses, 2 * 9, 2 * 11);
  }
}

/* The driver is a module that is loaded after a while, or a laptop that loses
 * its power has more states, and counts them anew. */
TEST(idle_states_that_appear_are_seen_within_a_minute) {
  for (int first = 0; first < 3; first += 2) {
    double load = 0.6, missed = 0.072;
    int wide = 0;
    PLAY(1);
    struct fake_core *core = &play.fake->cores[0];
    play.fake->cpuidle_states = first;
    fake_machine_load(play.fake, load);
    core->idle = 1 - load + missed;
    play_open(&play);
    for (int second = 0; second < 200; second++) {
      play.fake->switches += 100e3;
      play.fake->interrupts += first == 0 && second < 100 ? 12e3 : 0;
      core->halts += 12000;
      if (second == 100) {
        core->halts = 0;
        play.fake->cpuidle_states = 3;
      }
      play_seconds(&play, 1);
      struct bounds bounds = play_bounds(&play, 0);
      bool is_late = first == 0 && second >= 100 && second < 160;
      assert_true(is_late || (bounds.low <= load && load <= bounds.high));
      wide += bounds.high > load - missed + 0.1 + PLAY_SECOND_ERROR;
    }
    assert_in_range(wide, 1, 3); /* until a driver has been read twice */
  }
}

TEST(polling_is_seen_within_a_minute_after_its_driver_is_loaded) {
  PLAY(1);
  struct fake_core *core = &play.fake->cores[0];
  core->load = core->polled = 0.5;
  core->idle = 1;
  play_open_for(&play, 100);
  play.fake->cpuidle_states = 3;
  play_seconds(&play, 66);
  play_seconds(&play, 1);
  assert_near(play_load(&play, 0), 0.5, PLAY_SECOND_ERROR);
}

TEST(lxcfs_under_proc_stat_alone_withholds_the_source) {
  PLAY(2);
  play.fake->lxcfs = play.fake->lxcfs_stat_only = true;
  play_open_for(&play, 2);
  assert_int_equal(play_source(&play, 0), SOURCE_NONE);
}

TEST(renumbered_rows_do_not_affect_hardware_sources) {
  PLAY_MPERF(4, 0.6);
  core_set_add(&play.fake->stat_hidden, 0);
  play_open_for(&play, 2);
  for (int core = 0; core < 4; core++)
    assert_near(play_load(&play, core), 0.6, 1e-6);
  assert_false(play.engine->stat_valid);
}

TEST(a_file_that_is_cut_off_gives_no_load_until_it_is_whole) {
  PLAY(2);
  open_with_rows(&play,
                 "cpu0 0 0 0 1000 0 0 0 0 0 0\ncpu1 0 0 0 1000 0 0 0 0 0 0\n");
  sample_rows(&play, "cpu0 0 0 0 1100 0 0 0 0 0 0\ncpu1 0 0 0 10");
  assert_nan(play_load(&play, 1));
  sample_rows(&play,
              "cpu0 0 0 0 1200 0 0 0 0 0 0\ncpu1 0 0 0 1200 0 0 0 0 0 0\n");
  sample_rows(&play,
              "cpu0 0 0 0 1250 0 0 0 0 0 0\ncpu1 0 0 0 1225 0 0 0 0 0 0\n");
  assert_near(play_load(&play, 0), 0.5, 1e-9);
  assert_near(play_load(&play, 1), 0.75, 1e-9);
}

/* gVisor has zeros only. */
TEST(columns_that_stand_still_are_no_load_and_withhold_the_source) {
  PLAY(2);
  play.fake->stat_still = true;
  play_open(&play);
  for (int second = 0; second < 20; second++) {
    assert_int_equal(play_sample(&play, FAKE_SECOND), 0);
    assert_nan(play_load(&play, 0));
  }
  assert_int_equal(play_source(&play, 0), SOURCE_NONE);
  assert_int_equal(play_said(&play, "stands still", "withheld"), 1);
  play.fake->stat_still = false;
  play_seconds(&play, 2);
  assert_near(play_load(&play, 0), 0, PLAY_SECOND_ERROR);
}

TEST(a_file_that_stands_still_for_a_while_costs_no_time) {
  PLAY(2);
  fake_machine_load(play.fake, 0.4);
  play_open_for(&play, 5);
  struct core_totals from = play_core(&play, 0)->total;
  play.fake->stat_still = true;
  play_seconds(&play, 2);
  assert_nan(play_load(&play, 0));
  play.fake->stat_still = false;
  play_seconds(&play, 1);
  assert_near(engine_load(&from, &play_core(&play, 0)->total), 0.4, 0.01);
  assert_int_equal(play_source(&play, 0), SOURCE_IDLE);
}

/* Then the idle column, too, moves only every 2 s. */
TEST(work_that_leaves_nothing_to_the_tick_is_no_file_that_stands_still) {
  PLAY(1);
  play.fake->cores[0].load = 0.995;
  play.fake->cores[0].seen = 0;
  play_open_for(&play, 5);
  struct core_totals from = play_core(&play, 0)->total;
  play_seconds(&play, 100);
  assert_near(engine_load(&from, &play_core(&play, 0)->total), 0.995, 1e-3);
  assert_int_equal(play_source(&play, 0), SOURCE_IDLE);
}

TEST(a_missing_file_is_reported_once_and_waited_for) {
  PLAY(2);
  play_open_for(&play, 1);
  fake_machine_fail(play.fake, "/proc/stat", EACCES);
  for (int i = 0; i < 10; i++)
    assert_int_equal(play_sample(&play, FAKE_SECOND), -EACCES);
  assert_nan(play_load(&play, 0));
  assert_false(engine_has_source(play.engine));
  assert_int_equal(play_said(&play, "/proc/stat cannot be used", "withheld"),
                   1);
  assert_int_equal(play_said(&play, "no source of loads: idle:"), 1);
  fake_machine_remove(play.fake, "/proc/stat");
  play_seconds(&play, 2);
  assert_near(play_load(&play, 0), 0, PLAY_SECOND_ERROR);
  assert_true(engine_has_source(play.engine));
}

TEST(on_a_machine_without_any_source_the_engine_waits) {
  PLAY(2);
  fake_machine_fail(play.fake, "/proc/stat", ENOENT);
  play_open(&play);
  assert_false(engine_has_source(play.engine));
  assert_string_not_equal(engine_source_reason(play.engine, SOURCE_IDLE), "");
  assert_string_not_equal(engine_source_reason(play.engine, SOURCE_MPERF), "");
  assert_string_not_equal(engine_source_reason(play.engine, SOURCE_REF_CYCLES),
                          "");
  fake_machine_remove(play.fake, "/proc/stat");
  play_seconds(&play, 2);
  assert_true(engine_has_source(play.engine));
  assert_string_equal(engine_source_reason(play.engine, SOURCE_IDLE), "");
}

TEST(on_a_machine_without_cores_no_engine_is_opened) {
  struct fake_machine *fake = fake_machine_new(0);
  struct engine *engine = NULL;
  fake->procstat = false;
  const struct engine_options options = {.machine = &fake->machine,
                                         .source = SOURCE_AUTO};
  assert_int_equal(engine_open(&engine, &options), -ENOENT);
  fake_machine_free(fake);
}

/* ---------------------------------------------------------------------------
 * Cores
 */

TEST(each_of_256_cores_has_its_own_load) {
  PLAY(256);
  for (int core = 0; core < 256; core++)
    play.fake->cores[core].load = core / 255.0;
  play_open_for(&play, 2);
  for (int core = 0; core < 256; core++)
    assert_near(play_load(&play, core), core / 255.0, PLAY_SECOND_ERROR);
}

TEST(cores_are_listed_in_rising_order) {
  PLAY(64);
  for (int core = 0; core < 64; core += 3)
    fake_machine_online(play.fake, core, false);
  play_open(&play);
  for (int core = 63; core >= 0; core--)
    fake_machine_online(play.fake, core, true);
  play_seconds(&play, 1);
  size_t len;
  const struct core *cores = engine_cores(play.engine, &len);
  assert_int_equal(len, 64);
  for (size_t i = 0; i < len; i++)
    assert_int_equal(cores[i].number, i);
}

TEST(only_selected_cores_are_measured) {
  struct core_set set;
  PLAY(8);
  core_set_parse(&set, "2,5-6");
  play.options.cores = &set;
  play_open(&play);
  core_set_clear(&set); /* the engine has copied the set */
  play_seconds(&play, 2);
  size_t len;
  engine_cores(play.engine, &len);
  assert_int_equal(len, 3);
  assert_near(play_load(&play, 5), 0, PLAY_SECOND_ERROR);
  assert_null(play_core(&play, 0));
}

TEST(selected_cores_that_are_absent_are_waited_for_with_one_warning) {
  struct core_set set;
  PLAY(8);
  fake_machine_online(play.fake, 6, false);
  core_set_parse(&set, "6,100");
  play.options.cores = &set;
  play_open(&play);
  assert_true(engine_has_source(play.engine));
  play_seconds(&play, 3);
  assert_int_equal(play_said(&play, "6,100"), 1);
  fake_machine_online(play.fake, 6, true);
  play_seconds(&play, 2);
  assert_near(play_load(&play, 6), 0, PLAY_SECOND_ERROR);
  assert_int_equal(play_said(&play, "not online"), 1);
}

TEST(a_source_of_another_sysroot_opens_no_counter) {
  PLAY(2);
  fake_machine_msr(play.fake, PLAY_TSC_HZ, true);
  fake_machine_ref_cycles(play.fake, PLAY_TSC_HZ);
  play.options.hardware = false;
  play_open_for(&play, 2);
  assert_int_equal(play.fake->perf_opens, 0);
  assert_int_equal(play_source(&play, 0), SOURCE_IDLE);
}

/* A proof would measure this machine's kernel and not the kernel that wrote the
 * files under the sysroot. */
TEST(figures_of_another_sysroot_stay_unproven) {
  PLAY(2);
  play.options.hardware = false;
  play_open(&play);
  assert_true(engine_proof_due(play.engine));
  engine_prove(play.engine);
  assert_false(engine_proof_due(play.engine));
  play_seconds(&play, 1);
  assert_int_equal(play_core(&play, 0)->proof, PROOF_UNPROVEN);
}

TEST(tick_sampled_idle_time_is_flagged) {
  PLAY(2);
  play_open(&play);
  assert_false(engine_tick_sampled(play.engine));
  play_proof(&play, SOURCE_IDLE, PROOF_TICK_SAMPLED);
  play_seconds(&play, 2);
  assert_true(engine_tick_sampled(play.engine));
  assert_int_equal(play_core(&play, 1)->proof, PROOF_TICK_SAMPLED);
  assert_false(isnan(play_load(&play, 1)));
}
