/* Tests figures that are not loads: columns of /proc/stat, counters, C-states.
 */
#include "figures_play.h"

#define CPU "/sys/devices/system/cpu"

/* Starts with an interval, so that no total is 0 when the next one begins. */
static void start(struct figures_play *it) {
  figures_play_start(it);
  figures_play_seconds(it, 1);
}

/* ---------------------------------------------------------------------------
 * Columns
 */

TEST(hidden_is_load_that_the_busy_columns_did_not_see) {
  FIGURES_PLAY(3, 0.5);
  it.play.fake->cores[1].load = 0.868; /* the work runs between the ticks */
  it.play.fake->cores[1].seen = 0.004;
  it.play.fake->cores[2].load = 0.0665; /* the work runs at the ticks */
  it.play.fake->cores[2].seen = 0.999;
  start(&it);
  struct snapshot *snapshot = figures_play_seconds(&it, 100);
  assert_near(snapshot->cores[0].hidden, 0, 1e-3);
  assert_near(snapshot->cores[1].hidden, 0.864, 1e-3);
  assert_near(snapshot->cores[2].hidden, -0.9325, 1e-3);
  assert_near(snapshot->host.hidden, (0.864 - 0.9325) / 3, 1e-3);
}

TEST(columns_that_grew_by_more_than_time_can_show_no_figures) {
  FIGURES_PLAY(2, 0.5);
  it.play.fake->cores[1].seen = 1000;
  start(&it);
  struct snapshot *snapshot = figures_play_seconds(&it, 100);
  assert_near(snapshot->cores[0].hidden, 0, 1e-3);
  assert_nan(snapshot->cores[1].hidden);
}

TEST(idle_polls_are_load_and_leave_room_and_are_not_hidden) {
  for (int counter = 0; counter < 2; counter++) {
    FIGURES_PLAY(2, 0.2);
    it.play.options.source = counter ? SOURCE_AUTO : SOURCE_IDLE;
    it.play.fake->cpuidle_states = 3;
    start(&it);
    struct core_figures *core = &figures_play_seconds(&it, 10)->cores[1];
    assert_near(core->room, 0.8, 0.003);
    struct fake_core *polls = &it.play.fake->cores[1];
    polls->load = 0.5;
    polls->polled = 0.3;
    polls->idle = 0.8;
    polls->seen = 0.2;
    figures_play_windows(&it, 2);
    figures_play_interval(&it);
    core = figures_play_seconds(&it, 10)->cores;
    assert_near(core[0].room, 0.8, 0.003);
    assert_near(core[1].load, 0.5, 0.003);
    assert_near(core[1].room, 0.8, 0.003);
    assert_near(core[1].hidden, 0, 0.005);
    polls->load = 0.2;
    polls->polled = 0;
    core = &figures_play_seconds(&it, 10)->cores[1];
    assert_near(core->room, 0.8, 0.003);
  }
}

TEST(the_room_of_a_core_that_polls_is_unknown_while_its_polls_are) {
  FIGURES_PLAY(2, 0.2);
  it.play.fake->cpuidle_states = 3;
  start(&it);
  figures_play_seconds(&it, 10);
  struct fake_core *polls = &it.play.fake->cores[1];
  polls->load = 0.5;
  polls->polled = 0.3;
  polls->idle = 0.8;
  figures_play_windows(&it, 2);
  figures_play_interval(&it);
  assert_near(figures_play_seconds(&it, 10)->cores[1].room, 0.8, 0.003);
  core_set_add(&it.play.fake->stat_hidden, 1);
  figures_play_windows(&it, 2);
  struct core_figures *core = &figures_play_interval(&it)->cores[1];
  assert_near(core->load, 0.5, PLAY_EXACT);
  assert_nan(core->room);
}

TEST(steal_is_a_share_of_wall_time) {
  FIGURES_PLAY(2, 0.3);
  fake_machine_hypervisor(it.play.fake);
  it.play.fake->cores[1].steal = 0.4;
  it.play.fake->steal_apart = true;
  fake_machine_btf(it.play.fake, "idle_stealtime");
  start(&it);
  struct snapshot *snapshot = figures_play_seconds(&it, 100);
  assert_true(snapshot->hypervisor);
  assert_near(snapshot->cores[0].steal, 0, 1e-3);
  assert_near(snapshot->cores[1].steal, 0.4, 1e-3);
  assert_near(snapshot->host.steal, 0.2, 1e-3);
  assert_near(snapshot->cores[1].load, 0.3, 1e-3);
}

TEST(with_tick_sampled_idle_time_hidden_work_is_unknown) {
  FIGURES_PLAY(2, 0.5);
  it.play.options.source = SOURCE_IDLE;
  start(&it);
  play_proof(&it.play, SOURCE_IDLE, PROOF_TICK_SAMPLED);
  figures_play_seconds(&it, 1);
  struct snapshot *snapshot = figures_play_seconds(&it, 1);
  assert_nan(snapshot->cores[0].hidden);
  assert_nan(snapshot->host.hidden);
  assert_false(isnan(snapshot->cores[0].load));
  assert_int_equal(snapshot->self.cores_tick_sampled, 2);
}

TEST(renumbered_rows_withhold_only_figures_of_proc_stat) {
  FIGURES_PLAY(2, 0.5);
  core_set_add(&it.play.fake->stat_hidden, 1);
  start(&it);
  figures_play_windows(&it, 2);
  struct snapshot *snapshot = figures_play_interval(&it);
  for (int core = 0; core < 2; core++) {
    assert_near(snapshot->cores[core].load, 0.5, PLAY_EXACT);
    assert_near(snapshot->cores[core].load_average[0], 0.5, PLAY_EXACT);
    assert_nan(snapshot->cores[core].hidden);
    assert_near(snapshot->cores[core].room, 0.5, PLAY_EXACT);
    assert_nan(snapshot->cores[core].steal);
  }
  assert_nan(snapshot->host.hidden);
  assert_nan(snapshot->host.steal);
  assert_nan(snapshot->host.run_queue_average[0]);
  assert_near(snapshot->host.load_average[0], 1, PLAY_EXACT);
}

/* ---------------------------------------------------------------------------
 * Counters and C-states
 */

TEST(the_busy_frequency_is_base_times_boost) {
  FIGURES_PLAY(1, 0.1);
  start(&it);
  struct snapshot *snapshot = figures_play_seconds(&it, 1);
  assert_near(snapshot->cores[0].frequency_hz, PLAY_TSC_HZ * 1.25, 1e4);
}

TEST(the_source_idle_has_no_frequency) {
  FIGURES_PLAY(1, 0.1);
  it.play.options.source = SOURCE_IDLE;
  start(&it);
  struct snapshot *snapshot = figures_play_seconds(&it, 1);
  assert_nan(snapshot->cores[0].frequency_hz);
}

TEST(residency_is_a_share_of_the_interval) {
  FIGURES_PLAY(2, 0.3);
  it.options.cstates = true;
  it.play.fake->cpuidle_states = 3;
  start(&it);
  struct snapshot *snapshot = figures_play_seconds(&it, 10);
  const struct core_figures *core = &snapshot->cores[1];
  assert_int_equal(core->cstates.states_len, 3);
  assert_string_equal(core->cstates.state[0].name, "POLL");
  assert_true(core->cstates.state[0].poll);
  assert_near(core->residency[0], 0, PLAY_EXACT);
  assert_string_equal(core->cstates.state[2].name, "C6");
  assert_near(core->residency[2], 0.7, 1e-3);
  assert_true(core->cstates.state[2].entries > 0);
}

TEST(c_states_are_not_read_unless_wanted) {
  FIGURES_PLAY(1, 0.3);
  it.play.fake->cpuidle_states = 3;
  start(&it);
  struct snapshot *snapshot = figures_play_seconds(&it, 1);
  assert_int_equal(snapshot->cores[0].cstates.states_len, 0);
}

/* ---------------------------------------------------------------------------
 * Figures of a snapshot about the sampler itself
 */

TEST(a_snapshot_counts_the_cores_of_each_source) {
  FIGURES_PLAY(8, 0.5);
  fake_machine_file(it.play.fake, CPU "/isolated", "4-5\n");
  struct fake_counter *broken = fake_machine_counter(
      it.play.fake, FAKE_MSR_TYPE, FAKE_MSR_MPERF, FAKE_PER_UNHALTED, 1e9);
  broken->core = 6;
  broken->open_error = ENOENT;
  fake_machine_online(it.play.fake, 7, false);
  start(&it);
  play_proof(&it.play, SOURCE_MPERF, PROOF_PROVEN);
  struct snapshot *snapshot = figures_play_seconds(&it, 1);
  const struct self_figures *self = &snapshot->self;
  assert_int_equal(self->cores_online, 7);
  assert_int_equal(self->cores_by_source[SOURCE_MPERF], 4);
  assert_int_equal(self->cores_by_source[SOURCE_IDLE], 3);
  assert_int_equal(self->cores_unproven, 3);
  assert_int_equal(self->cores_without_value, 0);
  assert_true(snapshot->cores[4].isolated);
  assert_false(snapshot->cores[3].isolated);
}

TEST(a_snapshot_counts_readings_that_failed) {
  FIGURES_PLAY(2, 0.5);
  start(&it);
  it.play.fake->cores[1].read_error = EIO;
  assert_int_equal(figures_play_seconds(&it, 1)->self.counts.errors, 1);
}

TEST(an_isolated_core_counts_even_if_it_is_not_selected) {
  FIGURES_PLAY(4, 0.5);
  struct core_set selected;
  core_set_clear(&selected);
  core_set_add(&selected, 0);
  it.play.options.cores = &selected;
  core_set_add(&it.play.options.also_isolated, 3);
  start(&it);
  for (int i = 0; i < 2; i++) {
    struct snapshot *snapshot = figures_play_seconds(&it, 1);
    assert_int_equal(snapshot->cores_len, 1);
    assert_int_equal(snapshot->isolates, i == 0);
    fake_machine_online(it.play.fake, 3, false);
  }
}

TEST(cores_without_value_are_counted) {
  FIGURES_PLAY(4, 0.5);
  fake_machine_file(it.play.fake, CPU "/isolated", "2-3\n");
  it.play.options.isolated_cores = ISOLATED_CORES_SKIP;
  start(&it);
  struct snapshot *snapshot = figures_play_seconds(&it, 1);
  assert_int_equal(snapshot->self.cores_without_value, 2);
  assert_int_equal(snapshot->self.cores_online, 4);
}

TEST(no_snapshot_of_256_cores_holds_a_figure_out_of_range) {
  FIGURES_PLAY(256, 0);
  for (int core = 0; core < 256; core++) {
    it.play.fake->cores[core].load = core / 255.0;
    it.play.fake->cores[core].seen = 1 - core / 255.0;
  }
  start(&it);
  figures_play_windows(&it, 3);
  struct snapshot *snapshot = figures_play_interval(&it);
  assert_int_equal(snapshot->cores_len, 256);
  for (int i = 0; i < 256; i++) {
    const struct core_figures *core = &snapshot->cores[i];
    assert_int_equal(core->core, i);
    assert_near(core->load, i / 255.0, PLAY_EXACT);
    assert_near(core->load_average[2], i / 255.0, PLAY_EXACT);
    assert_true(core->load_trough <= core->load &&
                core->load <= core->load_peak);
    assert_true(core->load_trough >= 0 && core->load_peak <= 1);
  }
  assert_near(snapshot->host.load_average[0], 128, 1e-3);
}

TEST(times_seen_by_the_tick_are_shares_without_overlap) {
  static const double shares[2][TIMES] = {
      {0.10, 0.05, 0.15, 0.01, 0.04, 0.25, 0.06}, {0, 0, 0, 0, 0.4, 0, 0}};
  FIGURES_PLAY(2, 0.3);
  it.play.fake->procstat = false;
  fake_machine_file(it.play.fake, "/proc/stat",
                    "cpu0 0 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\n");
  figures_play_start(&it);
  struct snapshot *snapshot = NULL;
  for (int interval = 1; interval <= 2; interval++) {
    char rows[128];
    snprintf(rows, sizeof rows,
             "cpu0 %d000 %d000 %d %d %d00 %d00 %d00 %d00 %d000 %d\n"
             "cpu1 0 0 0 %d000 0 0 %d000 0 0 0\n",
             3 * interval, interval, 1500 * interval, 3200 * interval,
             6 * interval, interval, 4 * interval, 2 * interval, 2 * interval,
             500 * interval, 6 * interval, 4 * interval);
    fake_machine_file(it.play.fake, "/proc/stat", rows);
    snapshot = figures_play_seconds(&it, 100);
    for (int core = 0; core < 2; core++)
      for (int i = 0; i < TIMES; i++)
        assert_near(snapshot->cores[core].time[i], shares[core][i], 1e-6);
  }
  const struct spread_figures *softirq =
      &snapshot->aggregates[0].time[TIME_SOFTIRQ];
  assert_near(softirq->mean, 0.22, 1e-6);
  assert_near(softirq->min, 0.04, 1e-6);
  assert_near(softirq->max, 0.4, 1e-6);
  assert_near(softirq->stddev, 0.18, 1e-6);
}

/* On arm64, /proc/cpuinfo does not show whether the machine has a hypervisor.
 */
TEST(stolen_time_reveals_a_hypervisor) {
  FIGURES_PLAY(2, 0.3);
  start(&it);
  for (int stolen = 0; stolen < 3; stolen++) {
    it.play.fake->cores[1].steal = stolen == 1 ? 0.2 : 0;
    struct snapshot *snapshot = figures_play_seconds(&it, 1);
    assert_int_equal(snapshot->hypervisor, stolen > 0);
  }
}
