/* Tests the counts of hardware sources, and their failures. */
#include "unit.h"

#include "cycles/engine_private.h"
#include "play.h"

/* ---------------------------------------------------------------------------
 * Counts
 */

TEST(counters_may_wrap) {
  PLAY_MPERF(2, 0.75);
  static const uint64_t configs[] = {FAKE_MSR_TSC, FAKE_MSR_APERF,
                                     FAKE_MSR_MPERF};
  for (size_t i = 0; i < 3; i++)
    fake_machine_find_counter(play.fake, FAKE_MSR_TYPE, configs[i], -1)->start =
        UINT64_MAX - (uint64_t)(1.7e9 * (double)(i + 1));
  play_open(&play);
  for (int i = 0; i < 10; i++) {
    play_seconds(&play, 1);
    assert_near(play_load(&play, 0), 0.75, PLAY_EXACT);
  }
  assert_int_equal(play_counts(&play)->errors, 0);
}

/* Another user of the PMU has the counter for half of the time, for an hour. */
TEST(a_counter_that_is_shared_leaves_the_core_to_the_next_source) {
  for (int is_arm64 = 0; is_arm64 < 2; is_arm64++) {
    enum source_kind source = is_arm64 ? SOURCE_EVENT : SOURCE_REF_CYCLES;
    PLAY_WITH(is_arm64 ? play_start_cnt_cycles(&play, 2, 0.8)
                       : play_start_ref_cycles(&play, 2, 0.8));
    play_open(&play);
    if (is_arm64)
      play_proof(&play, SOURCE_EVENT, PROOF_PROVEN);
    play_seconds(&play, 2);
    assert_measured(&play, 1, source, 0.8, PLAY_EXACT);
    play.fake->cores[1].running = 0.5;
    play.fake->cores[1].pinned_lost = true;
    for (int second = 0; second < 3600; second++) {
      play_seconds(&play, 1);
      assert_measured(&play, 1, SOURCE_IDLE, 0.8, PLAY_SECOND_ERROR);
    }
    assert_near(play_load(&play, 0), 0.8, PLAY_EXACT);
    assert_true(play.journal.lines_len < 30);
    assert_int_equal(play_said(&play, "gives way to idle", "other users"), 1);
    play.fake->cores[1].running = 1;
    play.fake->cores[1].pinned_lost = false;
    play_seconds(&play, 62);
    assert_measured(&play, 1, source, 0.8, PLAY_EXACT);
  }
}

TEST(without_a_steady_tsc_mperf_is_unavailable) {
  PLAY_MPERF(2, 0.37);
  fake_machine_file(play.fake, "/proc/cpuinfo",
                    "processor\t: 0\nflags\t\t: tsc constant_tsc\n");
  play_open_for(&play, 2);
  assert_measured(&play, 0, SOURCE_IDLE, 0.37, PLAY_SECOND_ERROR);
  const char *reason = engine_source_reason(play.engine, SOURCE_MPERF);
  assert_non_null(strstr(reason, "TSC"));
}

/* The kernel takes another clocksource if it does not trust the TSC, often
 * because cores read different values. A group reads the TSC of one core. */
TEST(a_counter_is_divided_by_the_tsc_whatever_the_clocksource) {
  PLAY_MPERF(2, 0.37);
  fake_machine_file(
      play.fake,
      "/sys/devices/system/clocksource/clocksource0/current_clocksource",
      "hpet\n");
  play_open_for(&play, 2);
  assert_measured(&play, 0, SOURCE_MPERF, 0.37, PLAY_EXACT);
}

TEST(a_load_a_little_over_1_is_rounding) {
  PLAY_MPERF(1, 1);
  fake_machine_find_counter(play.fake, FAKE_MSR_TYPE, FAKE_MSR_MPERF, -1)->hz *=
      1.004;
  play_open_for(&play, 2);
  assert_near(play_load(&play, 0), 1, 0);
  assert_int_equal(play_counts(&play)->errors, 0);
}

/* MPERF and the TSC differ by up to 1 % on some processors. The core is busy
 * for four of five seconds. */
TEST(a_counter_that_its_proof_accepted_keeps_its_windows) {
  PLAY_MPERF(1, 1);
  fake_machine_find_counter(play.fake, FAKE_MSR_TYPE, FAKE_MSR_MPERF, -1)->hz *=
      1.015;
  play_open(&play);
  play_proof(&play, SOURCE_MPERF, PROOF_PROVEN);
  play_seconds(&play, 2);
  struct core_totals begin = play_core(&play, 0)->total;
  for (int second = 0; second < 600; second++) {
    double truth = second % 5 == 0 ? 0.2 : 1;
    fake_machine_load(play.fake, truth);
    play_seconds(&play, 1);
    assert_near(play_load(&play, 0), truth, 0.2 * 0.016);
    assert_true(play_bounds(&play, 0).low <= truth);
    assert_true(play_bounds(&play, 0).high >= truth);
  }
  assert_near(engine_load(&begin, &play_core(&play, 0)->total), 0.84, 0.001);
  assert_int_equal(play_source(&play, 0), SOURCE_MPERF);
  assert_int_equal(play_counts(&play)->errors, 0);
}

TEST(a_proven_counter_with_impossible_loads_must_be_proven_again) {
  PLAY_MPERF(2, 1);
  fake_machine_counter(play.fake, FAKE_MSR_TYPE, FAKE_MSR_MPERF,
                       FAKE_PER_UNHALTED, PLAY_TSC_HZ)
      ->core = 1;
  play_open(&play);
  play_proof(&play, SOURCE_MPERF, PROOF_PROVEN);
  play_seconds(&play, 2);
  fake_machine_find_counter(play.fake, FAKE_MSR_TYPE, FAKE_MSR_MPERF, 1)->hz =
      PLAY_TSC_HZ * 1.5;
  struct core_totals begin = play_core(&play, 1)->total;
  play_seconds(&play, 2);
  assert_int_equal(play_source(&play, 1), SOURCE_MPERF);
  play_seconds(&play, 2);
  assert_int_equal(play_source(&play, 1), SOURCE_IDLE);
  assert_int_equal(play_source(&play, 0), SOURCE_IDLE);
  assert_int_equal(play_counts(&play)->errors, 3);
  assert_int_equal(play_said(&play, "mperf", "150.0 %", "again"), 1);
  assert_near(engine_load(&begin, &play_core(&play, 1)->total), 1,
              PLAY_SECOND_ERROR);
}

TEST(a_window_that_is_refused_does_not_count_in_the_frequency) {
  PLAY_MPERF(1, 1);
  play_open_for(&play, 2);
  struct core_totals begin = play_core(&play, 0)->total;
  play_seconds(&play, 2);
  fake_machine_find_counter(play.fake, FAKE_MSR_TYPE, FAKE_MSR_MPERF, -1)->hz *=
      1.5;
  play_seconds(&play, 2);
  assert_near(engine_frequency_hz(&begin, &play_core(&play, 0)->total),
              1.25 * PLAY_TSC_HZ, 1e3);
}

/* The proof has measured that the counter is at most 0.2 % fast or slow. */
TEST(the_bounds_of_a_proven_counter_are_a_tenth_of_a_point_apart) {
  PLAY_MPERF(1, 0.2);
  play_open(&play);
  play_proof(&play, SOURCE_MPERF, PROOF_PROVEN);
  play.engine->sources[0].rate_low = 0.998;
  play.engine->sources[0].rate_high = 1.002;
  play_seconds(&play, 2);
  for (int second = 0; second < 100; second++) {
    play_seconds(&play, 1);
    struct bounds bounds = play_bounds(&play, 0);
    assert_true(bounds.low <= 0.2 && 0.2 <= bounds.high);
    assert_true(bounds.high - bounds.low <= 0.001);
  }
}

TEST(a_change_of_source_keeps_both_halves_of_an_interval) {
  PLAY_MPERF(1, 0.3);
  play_open_for(&play, 2);
  struct core_totals begin = play_core(&play, 0)->total;
  play_seconds(&play, 30);
  play.fake->cores[0].read_error = EIO;
  play_seconds(&play, 1);
  fake_machine_load(play.fake, 0.7);
  play_seconds(&play, 29);
  assert_int_equal(play_source(&play, 0), SOURCE_IDLE);
  const struct core_totals *end = &play_core(&play, 0)->total;
  double truth = (0.3 * 31 + 0.7 * 29) / 60;
  assert_near(end->wall - begin.wall, 60e9, 1e3);
  assert_near(engine_load(&begin, end), truth, 0.0005);
  assert_true(bounds_of(&begin, end).low <= truth);
  assert_true(bounds_of(&begin, end).high >= truth);
}

/* The windows of the counter and of the columns overlap by 100 ms. */
TEST(an_overlap_of_two_sources_does_not_widen_the_bounds_of_a_steady_core) {
  for (int load = 0; load < 2; load++) {
    PLAY_MPERF(1, load);
    play.fake->perf_read_ns = 100 * FAKE_MS;
    play_open_for(&play, 2);
    play_proof(&play, SOURCE_IDLE, PROOF_PROVEN);
    play.fake->cores[0].read_error = EIO;
    play_seconds(&play, 1);
    assert_near(play_bounds(&play, 0).low, load, 0.03);
    assert_near(play_bounds(&play, 0).high, load, 0.03);
  }
}

TEST(a_counter_does_not_count_stolen_time) {
  PLAY_REF_CYCLES(1, 0.3);
  play.fake->cores[0].steal = 0.6;
  play_open_for(&play, 30);
  assert_measured(&play, 0, SOURCE_REF_CYCLES, 0.3, PLAY_EXACT);
}

TEST(aperf_over_mperf_scales_the_base_frequency) {
  PLAY_MPERF(1, 0.2);
  play_open_for(&play, 2);
  const struct core_totals *from = &play.before[0];
  const struct core_totals *to = &play_core(&play, 0)->total;
  assert_near((to->aperf - from->aperf) / (to->mperf - from->mperf), 1.25,
              PLAY_EXACT);
  assert_near((to->base_cycles - from->base_cycles) / (to->wall - from->wall) *
                  1e9,
              PLAY_TSC_HZ, 1e3);
}

/* ---------------------------------------------------------------------------
 * Failures
 */

static void break_mperf(struct play *play, int core, int error) {
  struct fake_counter *broken =
      fake_machine_counter(play->fake, FAKE_MSR_TYPE, FAKE_MSR_MPERF,
                           FAKE_PER_UNHALTED, PLAY_TSC_HZ);
  broken->core = core;
  broken->open_error = error;
}

TEST(a_core_that_cannot_be_opened_does_not_affect_others) {
  static const int errors[] = {EACCES, ENODEV, EMFILE, EINVAL, EBUSY};
  for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
    PLAY_MPERF(4, 0.4);
    break_mperf(&play, 2, errors[i]);
    play_open_for(&play, 10);
    for (int core = 0; core < 4; core++) {
      assert_int_equal(play_source(&play, core),
                       core == 2 ? SOURCE_IDLE : SOURCE_MPERF);
      assert_near(play_load(&play, core), 0.4,
                  core == 2 ? PLAY_SECOND_ERROR : PLAY_EXACT);
    }
  }
}

TEST(a_core_whose_counter_cannot_be_opened_has_another_source_at_once) {
  PLAY_MPERF(2, 0.4);
  break_mperf(&play, 1, EACCES);
  play_open(&play);
  assert_int_equal(play_source(&play, 1), SOURCE_IDLE);
}

TEST(a_core_that_cannot_be_read_does_not_affect_others) {
  PLAY_MPERF(4, 0.4);
  play_open_for(&play, 2);
  uint64_t epoch = play_core(&play, 1)->total.epoch;
  play.fake->cores[2].read_error = EIO;
  play_seconds(&play, 1);
  assert_near(play_load(&play, 2), 0.4, PLAY_SECOND_ERROR);
  assert_int_equal(play_source(&play, 2), SOURCE_IDLE);
  play_seconds(&play, 19);
  for (int core = 0; core < 4; core++)
    if (core != 2) {
      assert_int_equal(play_core(&play, core)->total.epoch, epoch);
      assert_near(play_load(&play, core), 0.4, PLAY_EXACT);
    }
  assert_true(play_counts(&play)->errors > 0);
  play.fake->cores[2].read_error = 0;
  play_seconds(&play, 70);
  assert_measured(&play, 2, SOURCE_MPERF, 0.4, PLAY_EXACT);
}

TEST(a_core_that_fails_is_retried_at_growing_intervals) {
  PLAY_MPERF(2, 0.4);
  break_mperf(&play, 1, EMFILE);
  play.options.source = SOURCE_MPERF;
  play_open(&play);
  /* The engine tries to open the counter at 0, 1, 3, 7, 15, 31 and 63 s, and
   * then every 60 s, which is 120 times in two hours. */
  int before = play.fake->perf_opens;
  play_seconds(&play, 63);
  int first = play.fake->perf_opens - before;
  assert_in_range(first, 5, 7);
  before = play.fake->perf_opens;
  play_seconds(&play, 7200);
  assert_in_range(play.fake->perf_opens - before, 118, 121);
  assert_true(play.journal.lines_len < 10);
  fake_machine_find_counter(play.fake, FAKE_MSR_TYPE, FAKE_MSR_MPERF, 1)
      ->open_error = 0;
  play_seconds(&play, 62);
  assert_int_equal(play_source(&play, 1), SOURCE_MPERF);
}

TEST(a_success_resets_the_wait_between_tries) {
  PLAY_MPERF(2, 0.4);
  play_open(&play);
  play.fake->cores[1].read_error = EIO;
  play_seconds(&play, 600); /* now the engine tries once per minute */
  play.fake->cores[1].read_error = 0;
  play_seconds(&play, 62);
  assert_int_equal(play_source(&play, 1), SOURCE_MPERF);
  play.fake->cores[1].read_error = EIO;
  play_seconds(&play, 1);
  play.fake->cores[1].read_error = 0;
  play_seconds(&play, 3);
  assert_int_equal(play_source(&play, 1), SOURCE_MPERF);
}

TEST(a_counter_that_keeps_failing_does_not_flood_the_journal) {
  PLAY_MPERF(2, 0.4);
  play_open(&play);
  play.fake->cores[1].read_error = EIO;
  play_seconds(&play, 3600);
  assert_true(play.journal.lines_len < 30);
}

/* ---------------------------------------------------------------------------
 * A TSC that changes
 */

/* Simulates a live migration to a host whose TSC has a different frequency. */
TEST(a_tsc_that_changes_its_rate_requires_a_new_proof) {
  for (int mperf = 0; mperf < 2; mperf++) {
    PLAY_REF_CYCLES(2, 0.5);
    if (mperf) {
      fake_machine_msr(play.fake, PLAY_TSC_HZ, true);
      play.options.source = SOURCE_MPERF;
    }
    play_open(&play);
    play_proof(&play, mperf ? SOURCE_MPERF : SOURCE_REF_CYCLES, PROOF_PROVEN);
    play_seconds(&play, 30);
    assert_int_equal(play_core(&play, 0)->proof, PROOF_PROVEN);
    fake_machine_find_counter(play.fake, FAKE_MSR_TYPE, FAKE_MSR_TSC, -1)->hz =
        PLAY_TSC_HZ * 1.002;
    (mperf ? fake_machine_find_counter(play.fake, FAKE_MSR_TYPE, FAKE_MSR_MPERF,
                                       -1)
           : fake_machine_find_counter(play.fake, PERF_TYPE_HARDWARE,
                                       PERF_COUNT_HW_REF_CPU_CYCLES, -1))
        ->hz = PLAY_TSC_HZ * 1.002;
    play_seconds(&play, 30);
    assert_int_equal(play_core(&play, 0)->proof, PROOF_PENDING);
    assert_int_equal(play_said(&play, "TSC", "again"), 1);
    assert_near(play_load(&play, 0), 0.5, PLAY_EXACT);
  }
}

/* Under kvm-clock, a live migration changes the rates of the TSC and of
 * ref-cycles, while the clocks of the machine continue at the same rate. */
TEST(a_migration_under_kvm_clock_gives_no_wrong_load) {
  static const double rates_hz[] = {3e9, 2e9};
  for (int i = 0; i < 4; i++) {
    double load = i < 2 ? 0.6 : 0.95;
    PLAY_REF_CYCLES(2, load);
    fake_machine_file(
        play.fake,
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        "kvm-clock\n");
    play.fake->cores[1].steal = 0.03;
    play_open(&play);
    play_proof(&play, SOURCE_REF_CYCLES, PROOF_PROVEN);
    play_seconds(&play, 20);
    fake_machine_run(play.fake, FAKE_SECOND / 3);
    for (size_t j = 0; j < play.fake->counters_len; j++)
      play.fake->counters[j].hz = rates_hz[i % 2];
    for (int second = 0; second < 3600; second++) {
      play_seconds(&play, 1);
      for (int core = 0; core < 2; core++) {
        assert_near(play_load(&play, core), load, PLAY_EXACT);
        assert_true(play_bounds(&play, core).low <= load);
        assert_true(play_bounds(&play, core).high >= load);
      }
    }
    assert_int_equal(play_source(&play, 0), SOURCE_REF_CYCLES);
    assert_int_equal(play_said(&play, "TSC went"), 1);
  }
}

/* The load changes at the moment of the migration, so the counts before and
 * after it have different weights. */
TEST(a_migration_leaves_the_truth_within_the_bounds) {
  static const double rates_hz[] = {3e9, 2e9, 2.6e9};
  static const double loads[] = {0, 0.3, 0.6, 0.95, 1};
  for (int i = 0; i < 2 * 3 * 5 * 5; i++) {
    double before = loads[i % 5], after = loads[i / 5 % 5];
    double rate_hz = rates_hz[i / 25 % 3], truth = (before + 2 * after) / 3;
    struct play play;
    if (i < 75)
      play_start_ref_cycles(&play, 1, before);
    else
      play_start_mperf(&play, 1, before);
    play_open(&play);
    play_proof(&play, i < 75 ? SOURCE_REF_CYCLES : SOURCE_MPERF, PROOF_PROVEN);
    play_seconds(&play, 20);
    fake_machine_run(play.fake, FAKE_SECOND / 3);
    for (size_t j = 0; j < play.fake->counters_len; j++)
      play.fake->counters[j].hz *= rate_hz / PLAY_TSC_HZ;
    fake_machine_load(play.fake, after);
    assert_int_equal(play_sample(&play, FAKE_SECOND * 2 / 3), 0);
    assert_true(play_bounds(&play, 0).low <= truth + PLAY_EXACT);
    assert_true(play_bounds(&play, 0).high >= truth - PLAY_EXACT);
    for (int second = 0; second < 20; second++) {
      play_seconds(&play, 1);
      assert_near(play_load(&play, 0), after, PLAY_EXACT);
    }
    assert_true(play_bounds(&play, 0).high - play_bounds(&play, 0).low < 0.06);
    play_end(&play);
  }
}

/* In one of ten seconds, the rate of the TSC falls to a third. */
TEST(a_migration_leaves_no_more_unknown_than_its_window) {
  PLAY_REF_CYCLES(1, 0.5);
  play_open(&play);
  play_proof(&play, SOURCE_REF_CYCLES, PROOF_PROVEN);
  play_seconds(&play, 2);
  struct core_totals begin = play_core(&play, 0)->total;
  for (size_t i = 0; i < play.fake->counters_len; i++)
    play.fake->counters[i].hz /= 3;
  play_seconds(&play, 10);
  struct bounds bounds = bounds_of(&begin, &play_core(&play, 0)->total);
  assert_near(bounds.low, 0.4, 0.02);
  assert_near(bounds.high, 0.6, 0.02);
}

/* The sampling thread loses its core for 20 ms right after a read. This must
 * not look like a change of the TSC frequency. */
TEST(an_interrupted_sample_is_not_a_change_of_the_tsc) {
  PLAY_REF_CYCLES(2, 0.5);
  play_open(&play);
  play_proof(&play, SOURCE_REF_CYCLES, PROOF_PROVEN);
  for (int i = 0; i < 60; i++) {
    play.fake->perf_read_ns = i % 7 == 0 ? 20 * FAKE_MS : 0;
    play_seconds(&play, 1);
  }
  assert_int_equal(play_core(&play, 0)->proof, PROOF_PROVEN);
  assert_int_equal(play_said(&play, "TSC"), 0);
}

TEST(on_a_quiet_core_the_bounds_of_counters_are_a_tenth_of_a_point_apart) {
  double widths[1000];
  PLAY_MPERF(1, 0);
  play_quiet_widths(&play, widths);
  assert_true(widths[500] <= 0.001);
}

TEST(closing_leaves_no_descriptor_open) {
  struct play play;
  play_start_mperf(&play, 2, 0.5);
  play_open_for(&play, 2);
  assert_int_equal(fake_machine_descriptors(play.fake, -1), 6);
  play_end(&play); /* play_end checks that all descriptors are closed */
}

TEST(one_read_per_group_and_sample) {
  PLAY_MPERF(8, 0.5);
  play_open_for(&play, 1);
  int before = play.fake->perf_reads;
  play_seconds(&play, 10);
  assert_int_equal(play.fake->perf_reads - before, 80);
}
