/* Tests loads and load averages, computed from totals. */
#include "figures_play.h"

#define WINDOW_S (60.0 / 13)

/* ---------------------------------------------------------------------------
 * Loads
 */

TEST(an_interval_has_a_mean_and_the_extremes_of_its_windows) {
  FIGURES_PLAY(2, 0);
  figures_play_start(&it);
  static const double loads[] = {0.2, 0.9, 0.4, 0.1};
  for (size_t i = 0; i < 4; i++) {
    it.play.fake->cores[1].load = loads[i];
    figures_play_sample(&it, 2 * FAKE_SECOND);
  }
  struct snapshot *snapshot = figures_play_interval(&it);
  assert_int_equal(snapshot->cores_len, 2);
  const struct core_figures *core = &snapshot->cores[1];
  assert_int_equal(core->core, 1);
  assert_int_equal(core->source, SOURCE_MPERF);
  assert_near(core->load, 0.4, PLAY_EXACT);
  assert_near(core->load_trough, 0.1, PLAY_EXACT);
  assert_near(core->load_peak, 0.9, PLAY_EXACT);

  it.play.fake->cores[1].load = 0.5;
  snapshot = figures_play_seconds(&it, 1); /* earlier loads have no effect */
  assert_near(snapshot->cores[1].load, 0.5, PLAY_EXACT);
  assert_near(snapshot->cores[1].load_trough, 0.5, PLAY_EXACT);
  assert_near(snapshot->cores[1].load_peak, 0.5, PLAY_EXACT);
}

TEST(the_load_of_the_first_interval_is_unknown) {
  FIGURES_PLAY(1, 0.5);
  play_open(&it.play);
  it.figures = figures_open(&it.options, it.play.engine);
  struct snapshot *snapshot = figures_play_interval(&it);
  assert_nan(snapshot->cores[0].load);
  assert_nan(snapshot->cores[0].load_trough);
  assert_nan(snapshot->cores[0].load_peak);
  assert_nan(snapshot->cores[0].hidden);
  assert_nan(snapshot->cores[0].frequency_hz);
  assert_nan(snapshot->cores[0].load_average[0]);
  assert_nan(snapshot->host.load_average[0]);
  assert_nan(snapshot->aggregates[0].load.mean);
}

TEST(an_interval_with_a_discarded_window_has_no_load) {
  FIGURES_PLAY(2, 0.5);
  figures_play_start(&it);
  figures_play_sample(&it, FAKE_SECOND);
  fake_machine_online(it.play.fake, 1, false);
  fake_machine_online(it.play.fake, 1, true);
  figures_play_sample(&it, FAKE_SECOND);
  struct snapshot *snapshot = figures_play_seconds(&it, 1);
  assert_near(snapshot->cores[0].load, 0.5, PLAY_EXACT);
  assert_nan(snapshot->cores[1].load);
  assert_nan(snapshot->cores[1].load_trough);
  assert_nan(snapshot->cores[1].load_peak);
  assert_nan(snapshot->cores[1].hidden);
  snapshot = figures_play_seconds(&it, 1);
  assert_near(snapshot->cores[1].load, 0.5, PLAY_EXACT);
}

TEST(an_offline_core_has_no_figures) {
  FIGURES_PLAY(2, 0.5);
  it.play.fake->cpuidle_states = 2;
  it.options.cstates = true;
  figures_play_start(&it);
  figures_play_windows(&it, 2);
  fake_machine_online(it.play.fake, 1, false);
  figures_play_windows(&it, 1);
  struct snapshot *snapshot = figures_play_interval(&it);
  const struct core_figures *core = &snapshot->cores[1];
  assert_false(core->online);
  assert_nan(core->load);
  assert_nan(core->load_average[0]);
  assert_nan(core->hidden);
  assert_nan(core->steal);
  assert_int_equal(core->cstates.states_len, 0);
  assert_int_equal(snapshot->self.cores_online, 1);
  assert_false(isnan(snapshot->host.load_average[0]));
}

/* ---------------------------------------------------------------------------
 * Load averages
 */

TEST(every_average_shows_a_steady_load_from_the_first_window_on) {
  FIGURES_PLAY(2, 0.8);
  figures_play_start(&it);
  for (int i = 0; i < 65; i++) {
    figures_play_windows(&it, 1);
    struct snapshot *snapshot = figures_play_interval(&it);
    for (int period = 0; period < LOADAVG_PERIODS; period++) {
      assert_near(snapshot->cores[1].load_average[period], 0.8, PLAY_EXACT);
      assert_near(snapshot->host.load_average[period], 1.6, PLAY_EXACT);
    }
  }
}

/* Returns the exact load average over period_s, after a load of 0 for zero_s
 * seconds and then a load of 1 for one_s seconds. */
static double step_answer(double zero_s, double one_s, double period_s) {
  return (1 - exp(-one_s / period_s)) / (1 - exp(-(zero_s + one_s) / period_s));
}

TEST(a_step_is_followed_as_in_the_closed_form) {
  static const double periods[] = {60, 300, 900};
  FIGURES_PLAY(1, 0);
  figures_play_start(&it);
  figures_play_windows(&it, 26);
  fake_machine_load(it.play.fake, 1);
  for (int i = 1; i <= 39; i++) {
    figures_play_windows(&it, 1);
    struct snapshot *snapshot = figures_play_interval(&it);
    for (size_t period = 0; period < 3; period++)
      assert_near(snapshot->cores[0].load_average[period],
                  step_answer(26 * WINDOW_S, i * WINDOW_S, periods[period]),
                  PLAY_EXACT);
  }
}

TEST(a_gap_enters_the_averages_once_with_its_length) {
  FIGURES_PLAY(1, 0);
  figures_play_start(&it);
  figures_play_windows(&it, 26);
  fake_machine_load(it.play.fake, 1);
  figures_play_sample(&it, 45 * FAKE_SECOND);
  figures_load_average(it.figures);
  struct snapshot *snapshot = figures_play_interval(&it);
  assert_near(snapshot->cores[0].load_average[0],
              step_answer(26 * WINDOW_S, 45, 60), PLAY_EXACT);
}

TEST(a_discarded_window_does_not_change_the_averages) {
  FIGURES_PLAY(2, 0.25);
  figures_play_start(&it);
  figures_play_windows(&it, 13);
  it.play.fake->cores[1].load = 1;
  fake_machine_online(it.play.fake, 1, false);
  fake_machine_online(it.play.fake, 1, true);
  figures_play_windows(&it, 1);
  struct snapshot *snapshot = figures_play_interval(&it);
  assert_near(snapshot->cores[1].load_average[0], 0.25, PLAY_EXACT);
  figures_play_windows(&it, 1);
  snapshot = figures_play_interval(&it);
  assert_near(snapshot->cores[1].load_average[0],
              0.25 + 0.75 * step_answer(13 * WINDOW_S, WINDOW_S, 60),
              PLAY_EXACT);
}

TEST(the_average_of_a_core_away_longer_than_its_period_restarts) {
  FIGURES_PLAY(2, 0);
  figures_play_start(&it);
  figures_play_windows(&it, 65);
  fake_machine_online(it.play.fake, 1, false);
  figures_play_windows(&it, 26); /* two minutes */
  fake_machine_load(it.play.fake, 1);
  fake_machine_online(it.play.fake, 1, true);
  figures_play_windows(&it, 2);
  struct snapshot *snapshot = figures_play_interval(&it);
  assert_near(snapshot->cores[1].load_average[0], 1, PLAY_EXACT);
  assert_true(snapshot->cores[1].load_average[1] < 0.1);
  assert_true(snapshot->cores[1].load_average[2] < 0.1);
}

TEST(the_host_has_an_average_if_every_online_core_has_one) {
  FIGURES_PLAY(4, 0.5);
  fake_machine_online(it.play.fake, 3, false);
  figures_play_start(&it);
  figures_play_windows(&it, 2);
  struct snapshot *snapshot = figures_play_interval(&it);
  assert_near(snapshot->host.load_average[0], 1.5, PLAY_EXACT);
  fake_machine_online(it.play.fake, 3, true);
  figures_play_windows(&it, 1);
  snapshot = figures_play_interval(&it);
  assert_nan(snapshot->host.load_average[0]);
  figures_play_windows(&it, 1);
  snapshot = figures_play_interval(&it);
  assert_near(snapshot->host.load_average[0], 2, PLAY_EXACT);
}

/* ---------------------------------------------------------------------------
 * The run queue
 */

TEST(a_host_without_selected_cores_online_has_no_average) {
  struct core_set set;
  FIGURES_PLAY(4, 0.5);
  core_set_parse(&set, "3");
  it.play.options.cores = &set;
  figures_play_start(&it);
  figures_play_windows(&it, 2);
  fake_machine_online(it.play.fake, 3, false);
  figures_play_windows(&it, 1);
  struct snapshot *snapshot = figures_play_interval(&it);
  assert_nan(snapshot->host.load_average[0]);
}

TEST(the_run_queue_starts_from_the_kernels_averages) {
  FIGURES_PLAY(1, 0);
  fake_machine_file(it.play.fake, "/proc/loadavg",
                    "0.50 10.00 3.00 2/345 6789\n");
  it.play.fake->procs_running = 1;
  play_open(&it.play);
  it.figures = figures_open(&it.options, it.play.engine);
  struct snapshot *snapshot = figures_play_interval(&it);
  static const double wanted[] = {0.5, 10, 3};
  for (size_t i = 0; i < 3; i++)
    assert_near(snapshot->host.run_queue_average[i], wanted[i], PLAY_EXACT);
  figures_play_windows(&it, 1);
  snapshot = figures_play_interval(&it);
  assert_near(snapshot->host.run_queue_average[1], 10 * exp(-WINDOW_S / 300),
              PLAY_EXACT);
}

TEST(without_the_kernels_averages_the_run_queue_starts_unknown) {
  static const char *const bad[] = {"",          "junk\n",   "0.5 10\n",
                                    "nan 1 1\n", "-1 0 0\n", "inf 0 0\n"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    FIGURES_PLAY(1, 0);
    fake_machine_file(it.play.fake, "/proc/loadavg", bad[i]);
    it.play.fake->procs_running = 5;
    play_open(&it.play);
    it.figures = figures_open(&it.options, it.play.engine);
    struct snapshot *snapshot = figures_play_interval(&it);
    assert_nan(snapshot->host.run_queue_average[0]);
    figures_play_windows(&it, 1);
    snapshot = figures_play_interval(&it);
    assert_near(snapshot->host.run_queue_average[2], 4, PLAY_EXACT);
  }
}

static double run_queue_of(int running, int blocked) {
  struct figures_play it;
  figures_play_prepare(&it, 1, 0);
  it.play.fake->procs_running = running;
  it.play.fake->procs_blocked = blocked;
  figures_play_start(&it);
  figures_play_windows(&it, 1);
  struct snapshot *snapshot = figures_play_interval(&it);
  double average = snapshot->host.run_queue_average[0];
  figures_play_end(&it);
  return average;
}

TEST(the_run_queue_is_averaged_like_loads) {
  FIGURES_PLAY(1, 0);
  figures_play_start(&it);
  figures_play_windows(&it, 26);
  it.play.fake->procs_running = 5;
  for (int i = 1; i <= 13; i++) {
    figures_play_windows(&it, 1);
    struct snapshot *snapshot = figures_play_interval(&it);
    assert_near(snapshot->host.run_queue_average[1],
                4 * step_answer(26 * WINDOW_S, i * WINDOW_S, 300), PLAY_EXACT);
  }
}

TEST(our_own_thread_is_not_in_the_run_queue) {
  assert_near(run_queue_of(1, 0), 0, PLAY_EXACT);
  assert_near(run_queue_of(8, 0), 7, PLAY_EXACT);
  assert_near(run_queue_of(0, 0), 0, PLAY_EXACT);
  assert_near(run_queue_of(0, 3), 3, PLAY_EXACT);
}

TEST(blocked_tasks_are_in_the_run_queue) {
  assert_near(run_queue_of(3, 4), 6, PLAY_EXACT);
}

TEST(each_core_has_the_load_of_its_busiest_sibling) {
  FIGURES_PLAY(5, 0);
  for (int core = 0; core < 5; core++) {
    it.play.fake->cores[core].load = 0.1 * (core + 1);
    fake_machine_filef(
        it.play.fake,
        core < 3    ? "0-2\n"
        : core == 3 ? "3-4\n"
                    : "4\n",
        "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", core);
  }
  figures_play_start(&it);
  struct snapshot *snapshot = figures_play_seconds(&it, 1);
  assert_near(snapshot->cores[0].sibling_load, 0.3, PLAY_EXACT);
  assert_near(snapshot->cores[1].sibling_load, 0.3, PLAY_EXACT);
  assert_near(snapshot->cores[2].sibling_load, 0.2, PLAY_EXACT);
  assert_near(snapshot->cores[3].sibling_load, 0.5, PLAY_EXACT);
  assert_nan(
      snapshot->cores[4].sibling_load); /* its list of siblings is malformed */
}

/* As they may while a core goes offline. */
TEST(lists_of_siblings_that_contradict_each_other_end) {
  static const char *const siblings[] = {"0-1\n", "1-2\n", "1-2\n"};
  FIGURES_PLAY(3, 0);
  for (int core = 0; core < 3; core++) {
    it.play.fake->cores[core].load = 0.1 * (core + 1);
    fake_machine_filef(
        it.play.fake, siblings[core],
        "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", core);
  }
  figures_play_start(&it);
  struct snapshot *snapshot = figures_play_seconds(&it, 1);
  assert_near(snapshot->cores[0].sibling_load, 0.3, PLAY_EXACT);
}
