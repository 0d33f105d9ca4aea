/* Tests when a hardware source is condemned (no longer used, because it misses
 * work), and when it must not be. */
#include "unit.h"

#include "cycles/engine_private.h"
#include "play.h"

#define MS UINT64_C(1000000)

/* ---------------------------------------------------------------------------
 * engine_condemns
 */

/* Returns after how many equal windows a source is condemned, or 0 if it is not
 * condemned after 100 windows. */
static int windows_to_condemn(double hardware, double kernel, double steal,
                              uint64_t bracket_ns, bool tick_sampled) {
  int low_windows = 0;
  for (int window = 1; window <= 100; window++)
    if (engine_condemns(&low_windows, hardware, kernel, steal, bracket_ns,
                        tick_sampled))
      return window;
  return 0;
}

TEST(three_windows_below_the_kernel_condemn_a_source) {
  assert_int_equal(windows_to_condemn(0.40, 0.46, 0, MS, false), 3);
  assert_int_equal(windows_to_condemn(0, 1, 0, MS, false), 3);
}

TEST(less_than_5_points_below_the_kernel_is_accepted) {
  assert_int_equal(windows_to_condemn(0.40, 0.4499, 0, MS, false), 0);
  assert_int_equal(windows_to_condemn(0.40, 0.40, 0, MS, false), 0);
}

TEST(a_source_above_the_kernel_is_never_condemned) {
  assert_int_equal(windows_to_condemn(1, 0, 0, MS, false), 0);
  assert_int_equal(windows_to_condemn(0.5, 0.1, 0, MS, false), 0);
}

TEST(steal_widens_the_margin) {
  assert_int_equal(windows_to_condemn(0.40, 0.46, 0.02, MS, false), 0);
  assert_int_equal(windows_to_condemn(0.40, 0.48, 0.02, MS, false), 3);
  assert_int_equal(windows_to_condemn(0, 0.5, 0.3, MS, false), 3);
  assert_int_equal(windows_to_condemn(0, 1, NAN, MS, false), 0);
}

TEST(a_slow_read_widens_the_margin) {
  assert_int_equal(windows_to_condemn(0.40, 0.46, 0, 50 * MS, false), 0);
  assert_int_equal(windows_to_condemn(0.40, 0.48, 0, 50 * MS, false), 3);
}

TEST(tick_sampled_idle_time_proves_nothing_against_a_source) {
  assert_int_equal(windows_to_condemn(0, 1, 0, MS, true), 0);
}

TEST(unknown_figures_prove_nothing_against_a_source) {
  assert_int_equal(windows_to_condemn(NAN, 1, 0, MS, false), 0);
  assert_int_equal(windows_to_condemn(0, NAN, 0, MS, false), 0);
}

TEST(one_good_window_interrupts_the_sequence) {
  int low_windows = 0;
  for (int i = 0; i < 20; i++) {
    assert_false(engine_condemns(&low_windows, 0, 1, 0, MS, false));
    assert_false(engine_condemns(&low_windows, 0, 1, 0, MS, false));
    assert_false(engine_condemns(&low_windows, 1, 1, 0, MS, false));
  }
}

TEST(a_skipped_window_neither_counts_nor_interrupts) {
  int low_windows = 0;
  assert_false(engine_condemns(&low_windows, 0, 1, 0, MS, false));
  assert_false(engine_condemns(&low_windows, 0, 1, NAN, MS, false));
  assert_false(engine_condemns(&low_windows, 0, 1, 0, MS, false));
  assert_false(engine_condemns(&low_windows, NAN, 1, 0, MS, false));
  assert_true(engine_condemns(&low_windows, 0, 1, 0, MS, false));
}

TEST(after_a_verdict_the_count_starts_again) {
  int low_windows = 0;
  for (int i = 1; i <= 9; i++)
    assert_int_equal(engine_condemns(&low_windows, 0, 1, 0, MS, false),
                     i % 3 == 0);
}

/* ---------------------------------------------------------------------------
 * Condemnation by an engine, for a core whose mperf counts only some of the
 * work
 */

static void start(struct play *play, double load, double seen_by_mperf) {
  play_start(play, 2);
  fake_machine_msr(play->fake, PLAY_TSC_HZ, true);
  fake_machine_load(play->fake, load);
  fake_machine_counter(play->fake, FAKE_MSR_TYPE, FAKE_MSR_MPERF,
                       FAKE_PER_UNHALTED, PLAY_TSC_HZ * seen_by_mperf / load)
      ->core = 1;
  play_open(play);
  play_proof(play, SOURCE_IDLE, PROOF_PROVEN);
}

TEST(a_counter_that_misses_work_is_replaced_by_the_next_source) {
  PLAY_WITH(start(&play, 0.5, 0.4));
  play_seconds(&play, 13);
  assert_int_equal(play_source(&play, 1), SOURCE_MPERF);
  play_seconds(&play, 10);
  assert_measured(&play, 1, SOURCE_IDLE, 0.5, PLAY_SECOND_ERROR);
  assert_int_equal(play_counts(&play)->source_changes, 1);
}

TEST(one_line_names_both_sources_and_why) {
  PLAY_WITH(start(&play, 0.5, 0.4));
  play_seconds(&play, 60);
  assert_int_equal(play_said(&play, "core 1", "mperf", "idle", "%"), 1);
}

static enum journal_level changes[8];
static int changes_len;

static void note_change(void *context, enum journal_level level,
                        const char *line) {
  (void)context;
  assert_non_null(strstr(line, "gives way"));
  if (changes_len < 8)
    changes[changes_len++] = level;
}

TEST(each_change_of_source_is_told_once_as_worse_better_or_lost) {
  PLAY(4);
  play.journal.journal.change = note_change;
  play.options.journal = play.journal.journal;
  changes_len = 0;
  play_open_for(&play, 3);
  assert_int_equal(changes_len, 0); /* the first source */
  play.fake->procstat = false;
  play_sample(&play, 1000 * MS);
  play_sample(&play, 1000 * MS);
  play.fake->procstat = true;
  play_seconds(&play, 3);
  assert_int_equal(changes_len, 2);
  assert_int_equal(changes[0], JOURNAL_ERROR);
  assert_int_equal(changes[1], JOURNAL_NOTICE);
  assert_int_equal(play_said(&play, "cores 0-3", "gives way"), 2);
}

TEST(a_source_is_condemned_per_core) {
  PLAY_WITH(start(&play, 0.5, 0.4));
  uint64_t epoch = play_core(&play, 0)->total.epoch;
  play_seconds(&play, 100);
  assert_int_equal(play_source(&play, 0), SOURCE_MPERF);
  assert_int_equal(play_core(&play, 0)->total.epoch, epoch);
  assert_near(play_load(&play, 0), 0.5, PLAY_EXACT);
}

TEST(a_single_sample_condemns_no_source) {
  PLAY_WITH(start(&play, 0.5, 0.4));
  for (int i = 0; i < 100; i++)
    assert_int_equal(play_sample(&play, 100 * MS), 0);
  assert_int_equal(play_source(&play, 1), SOURCE_MPERF);
}

TEST(a_condemned_source_returns_only_through_a_proof) {
  PLAY_WITH(start(&play, 0.2, 0.1));
  play_proof(&play, SOURCE_MPERF, PROOF_PROVEN);
  play_proof(&play, SOURCE_IDLE, PROOF_PROVEN);
  play_seconds(&play, 880);
  assert_int_equal(play_source(&play, 1), SOURCE_IDLE);
  assert_false(engine_proof_due(play.engine));
  play_seconds(&play, 3000);
  assert_int_equal(play_source(&play, 1), SOURCE_IDLE);
  assert_true(engine_proof_due(play.engine));
  fake_machine_find_counter(play.fake, FAKE_MSR_TYPE, FAKE_MSR_MPERF, 1)->hz =
      PLAY_TSC_HZ;
  play_proof(&play, SOURCE_MPERF, PROOF_PROVEN);
  play_seconds(&play, 100);
  assert_measured(&play, 1, SOURCE_MPERF, 0.2, PLAY_EXACT);
  assert_false(engine_proof_due(play.engine));
}

/* The counter passes each proof. */
TEST(a_source_that_is_condemned_again_is_proven_after_longer_pauses) {
  PLAY_WITH(start(&play, 0.2, 0.1));
  play_proof(&play, SOURCE_REF_CYCLES, PROOF_PROVEN);
  play_proof(&play, SOURCE_IDLE, PROOF_PROVEN);
  play_proof(&play, SOURCE_MPERF, PROOF_PROVEN);
  for (int second = 0; second < 12 * 3600; second++) {
    play_seconds(&play, 1);
    if (engine_proof_due(play.engine))
      play_proof(&play, SOURCE_MPERF, PROOF_PROVEN);
  }
  assert_in_range(play_counts(&play)->source_changes, 9, 15);
  assert_true(play.journal.lines_len < 20);
}

TEST(a_refuted_source_is_proven_again_after_a_pause) {
  for (int idle = 0; idle < 2; idle++) {
    PLAY_MPERF(2, 0.2);
    play_open(&play);
    play_proof(&play, SOURCE_REF_CYCLES, PROOF_PROVEN);
    play_proof(&play, SOURCE_IDLE, idle ? PROOF_TICK_SAMPLED : PROOF_PROVEN);
    play_proof(&play, SOURCE_MPERF, idle ? PROOF_PROVEN : PROOF_REFUTED);
    play_seconds(&play, 20);
    assert_true(engine_proof_due(play.engine));
    fake_machine_load(play.fake, 0.5); /* it would not be free to prove it */
    play_seconds(&play, 20);
    assert_false(engine_proof_due(play.engine));
  }
}

/* A proof there would take time from other work and prove nothing. */
TEST(on_a_busy_host_no_proof_is_repeated_for_ten_minutes) {
  static const enum source_kind sources[] = {SOURCE_MPERF, SOURCE_IDLE};
  for (int busy = 0; busy < 2; busy++) {
    int due = 0;
    PLAY_MPERF(2, busy ? 0.95 : 0.2);
    play_open(&play);
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++)
      play_proof(&play, sources[i], PROOF_UNPROVEN);
    play_seconds(&play, 10);
    for (int second = 10; second < 600; second++) {
      play_seconds(&play, 1);
      due += engine_proof_due(play.engine);
    }
    assert_int_equal(due, busy ? 0 : 590);
  }
}

/* XDP and softirqs can run while the kernel considers the core idle, so a
 * source may rightly count more work than the kernel. */
TEST(work_that_the_kernel_counts_as_idle_condemns_no_source) {
  PLAY_MPERF(2, 1);
  play.fake->cores[1].idle = 0.7;
  play.fake->cores[1].seen = 0.3;
  play_open_for(&play, 100);
  assert_measured(&play, 1, SOURCE_MPERF, 1, PLAY_EXACT);
}

TEST(work_that_is_missed_under_steal_condemns_a_source) {
  PLAY_WITH(start(&play, 0.5, 0.3));
  play.fake->cores[1].steal = 0.03;
  play_seconds(&play, 100);
  assert_int_equal(play_source(&play, 1), SOURCE_IDLE);
}

TEST(steal_alone_condemns_no_source) {
  PLAY_WITH(start(&play, 0.5, 0.5));
  play.fake->cores[1].steal = 0.3;
  play.fake->cores[1].woken = 0.1;
  play_seconds(&play, 100);
  assert_int_equal(play_source(&play, 1), SOURCE_MPERF);
}

TEST(slow_reads_of_proc_stat_do_not_keep_a_wrong_source) {
  PLAY_WITH(start(&play, 0.5, 0.3));
  play.fake->stat_read_ns = 6 * MS;
  play.fake->stat_slow_reads = -1;
  play_seconds(&play, 100);
  assert_int_equal(play_source(&play, 1), SOURCE_IDLE);
}

TEST(tick_sampled_idle_time_condemns_no_source) {
  PLAY_WITH(start(&play, 0.5, 0.3));
  play_proof(&play, SOURCE_IDLE, PROOF_TICK_SAMPLED);
  play_seconds(&play, 100);
  assert_int_equal(play_source(&play, 1), SOURCE_MPERF);
}

/* Of each 8 seconds, the core is idle for 3, and its columns are refused then,
 * because they have started anew. */
TEST(columns_that_are_refused_at_times_condemn_no_source) {
  PLAY_MPERF(1, 0);
  play.fake->cores[0].column_ns[3] = 1e15;
  play_open(&play);
  play_proof(&play, SOURCE_IDLE, PROOF_PROVEN);
  for (int second = 0; second < 100; second++) {
    play.fake->cores[0].load = second % 8 >= 3;
    if (second % 8 == 0)
      play.fake->cores[0].column_ns[3] -= 100e9;
    play_seconds(&play, 1);
  }
  assert_int_equal(play_source(&play, 0), SOURCE_MPERF);
}

TEST(renumbered_rows_condemn_no_source) {
  PLAY_WITH(start(&play, 0.5, 0.3));
  core_set_add(&play.fake->stat_hidden, 0);
  play_seconds(&play, 100);
  assert_int_equal(play_source(&play, 1), SOURCE_MPERF);
}

/* A guest that owns a core can halt it without leaving guest mode (-overcommit
 * cpu-pm=on). To the host's kernel, the guest then runs all the time. */
TEST(guests_that_halt_their_core_condemn_no_source) {
  PLAY_MPERF(2, 0.03);
  play.fake->cores[1].idle = 0;
  play.fake->cores[1].seen = 1;
  play.fake->cores[1].guest = 0.98;
  play_open_for(&play, 100);
  assert_measured(&play, 1, SOURCE_MPERF, 0.03, PLAY_EXACT);
}

/* A counter that misses work of the host itself is condemned even if a guest
 * runs on the core. */
TEST(a_guest_does_not_excuse_work_of_the_host) {
  PLAY_WITH(start(&play, 0.9, 0.2));
  play.fake->cores[1].guest = 0.5;
  play_seconds(&play, 30);
  assert_int_equal(play_source(&play, 1), SOURCE_IDLE);
}

/* Sets up a virtual machine whose core 1 runs for 60 % of the time. The
 * hypervisor takes 30 % without reporting it as steal. */
static void start_without_steal(struct play *play) {
  play_start_ref_cycles(play, 2, 0.6);
  play->fake->cores[1].idle = 0.1;
  play->fake->cores[1].seen = 0.9;
}

static void open_proven(struct play *play) {
  play_open(play);
  play_proof(play, SOURCE_IDLE, PROOF_PROVEN);
}

TEST(under_a_hypervisor_without_steal_there_is_only_a_warning) {
  PLAY_WITH(start_without_steal(&play));
  open_proven(&play);
  play_seconds(&play, 600);
  assert_measured(&play, 1, SOURCE_REF_CYCLES, 0.6, PLAY_EXACT);
  assert_int_equal(play_said(&play, "ref-cycles", "60.0 %", "90.0 %", "stolen"),
                   1);
  assert_non_null(strstr(engine_source_reason(play.engine, SOURCE_REF_CYCLES),
                         "no stolen time"));
  assert_true(engine_steal_is_unknown(play.engine));
}

/* Only on x86 does /proc/cpuinfo tell whether a machine is virtual. */
TEST(without_the_flags_of_x86_a_machine_without_steal_may_be_virtual) {
  for (int steal = 0; steal < 2; steal++) {
    PLAY_WITH(start_without_steal(&play));
    play_add_cnt_cycles(&play, "armv8_pmuv3_0", PLAY_PMU_TYPE, "0-1\n");
    play.options.source = SOURCE_EVENT;
    play.fake->cores[0].column_ns[7] = steal ? 1e9 : 0;
    open_proven(&play);
    play_proof(&play, SOURCE_EVENT, PROOF_PROVEN);
    play_seconds(&play, 60);
    assert_int_equal(play_source(&play, 1), steal ? SOURCE_IDLE : SOURCE_EVENT);
    assert_int_equal(play_said(&play, "60.0 %", "90.0 %", "stolen"), !steal);
  }
}

/* Without a dynamic tick, idle time is what the tick sees: here, work that
 * begins right before each tick. Idle time has not been proven, as no core was
 * free. */
TEST(idle_time_that_is_not_proven_condemns_no_source) {
  PLAY_MPERF(2, 0.1);
  for (int core = 0; core < 2; core++) {
    play.fake->cores[core].seen = 1;
    play.fake->cores[core].idle = 0;
  }
  play_open(&play);
  play_proof(&play, SOURCE_MPERF, PROOF_PROVEN);
  play_proof(&play, SOURCE_IDLE, PROOF_UNPROVEN);
  play_seconds(&play, 600);
  assert_measured(&play, 1, SOURCE_MPERF, 0.1, PLAY_EXACT);
  assert_int_equal(play_said(&play, "mperf", "10.0 %", "100.0 %", "proven"), 1);
  play_proof(&play, SOURCE_IDLE, PROOF_PROVEN);
  play_seconds(&play, 30);
  assert_int_equal(play_source(&play, 1), SOURCE_IDLE);
}

TEST(under_a_hypervisor_with_steal_a_source_is_condemned) {
  PLAY_WITH(start_without_steal(&play));
  open_proven(&play);
  play.fake->cores[0].steal = 0.1;
  play_seconds(&play, 2);
  play.fake->cores[0].steal = 0;
  play_seconds(&play, 30);
  assert_int_equal(play_source(&play, 1), SOURCE_IDLE);
  assert_false(engine_steal_is_unknown(play.engine));
}

/* Windows with hotplug or a suspend are discarded, so they cannot condemn a
 * source. */
TEST(hotplug_and_suspend_condemn_no_source) {
  PLAY_MPERF(2, 0.5);
  play_open(&play);
  for (int i = 0; i < 50; i++) {
    play_seconds(&play, 2);
    fake_machine_online(play.fake, 1, false);
    fake_machine_run(play.fake, FAKE_SECOND);
    fake_machine_online(play.fake, 1, true);
    play_seconds(&play, 2);
    fake_machine_suspend(play.fake, 100 * FAKE_SECOND);
  }
  play_seconds(&play, 2);
  assert_int_equal(play_source(&play, 0), SOURCE_MPERF);
  assert_int_equal(play_source(&play, 1), SOURCE_MPERF);
  assert_int_equal(play_counts(&play)->source_changes, 0);
}

TEST(windows_before_and_after_an_absence_are_not_consecutive) {
  PLAY_WITH(start(&play, 0.5, 0.4));
  for (int i = 0; i < 20; i++) {
    play_seconds(&play, 12);
    fake_machine_online(play.fake, 1, false);
    play_seconds(&play, 1);
    fake_machine_online(play.fake, 1, true);
  }
  assert_int_equal(play_said(&play, "gives way"), 0);
}

TEST(a_core_that_was_offline_may_use_its_condemned_source_again) {
  PLAY_WITH(start(&play, 0.5, 0.4));
  play_seconds(&play, 23);
  assert_int_equal(play_source(&play, 1), SOURCE_IDLE);
  fake_machine_online(play.fake, 1, false);
  play_seconds(&play, 1);
  fake_machine_find_counter(play.fake, FAKE_MSR_TYPE, FAKE_MSR_MPERF, 1)->hz =
      PLAY_TSC_HZ;
  fake_machine_online(play.fake, 1, true);
  play_seconds(&play, 2);
  assert_int_equal(play_source(&play, 1), SOURCE_MPERF);
}
