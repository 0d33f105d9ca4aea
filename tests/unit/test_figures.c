/* From totals to loads, load averages, columns and counters of an interval. */
#include "unit.h"

#include "cycles/figures.h"
#include "play.h"

#include <errno.h>
#include <string.h>

#define EXACT 1e-6
#define WINDOW_NS LOADAVG_INTERVAL_NS
#define WINDOW_S (60.0 / 13)
#define CPU "/sys/devices/system/cpu"

struct figures_play {
  struct play play;
  struct figures_options options;
  struct figures *figures;
};

static void prepare(struct figures_play *it, int cores, double load) {
  memset(&it->options, 0, sizeof it->options);
  play_start(&it->play, cores);
  fake_machine_msr(it->play.fake, PLAY_TSC_HZ, true);
  fake_machine_load(it->play.fake, load);
  it->options.run_queue = true;
  it->options.count_blocked = true;
}

static void start(struct figures_play *it) {
  play_open(&it->play);
  it->figures = figures_open(&it->options, it->play.engine);
  assert_non_null(it->figures);
  assert_int_equal(figures_sample(it->figures), 0);
  assert_int_equal(figures_load_average(it->figures), 0);
  snapshot_free(figures_interval(it->figures));
}

static void end(struct figures_play *it) {
  figures_close(it->figures);
  play_end(&it->play);
}

/* A sample window. */
static void sample(struct figures_play *it, uint64_t ns) {
  play_sample(&it->play, ns);
  assert_int_equal(figures_sample(it->figures), 0);
}

/* Whole windows of the load averages, a sample each. */
static void windows(struct figures_play *it, int count) {
  for (int i = 0; i < count; i++) {
    sample(it, WINDOW_NS);
    assert_int_equal(figures_load_average(it->figures), 0);
  }
}

static struct snapshot *interval(struct figures_play *it) {
  struct snapshot *snapshot = figures_interval(it->figures);
  assert_non_null(snapshot);
  return snapshot;
}

/* ---------------------------------------------------------------------------
 * Loads
 */

static void
an_interval_has_its_mean_and_the_extremes_of_its_windows(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 2, 0);
  start(&it);
  static const double loads[] = {0.2, 0.9, 0.4, 0.1};
  for (size_t i = 0; i < 4; i++) {
    it.play.fake->cores[1].load = loads[i];
    sample(&it, 2 * FAKE_SECOND);
  }
  struct snapshot *snapshot = interval(&it);
  assert_int_equal(snapshot->cores_len, 2);
  const struct core_figures *core = &snapshot->cores[1];
  assert_int_equal(core->core, 1);
  assert_int_equal(core->source, SOURCE_MPERF);
  assert_near(core->busy, 0.4, EXACT);
  assert_near(core->busy_min, 0.1, EXACT);
  assert_near(core->busy_max, 0.9, EXACT);
  snapshot_free(snapshot);

  it.play.fake->cores[1].load = 0.5;
  sample(&it, FAKE_SECOND);
  snapshot = interval(&it); /* nothing is left of the one before */
  assert_near(snapshot->cores[1].busy, 0.5, EXACT);
  assert_near(snapshot->cores[1].busy_min, 0.5, EXACT);
  assert_near(snapshot->cores[1].busy_max, 0.5, EXACT);
  snapshot_free(snapshot);
  end(&it);
}

static void the_first_interval_is_not_known(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 1, 0.5);
  play_open(&it.play);
  it.figures = figures_open(&it.options, it.play.engine);
  struct snapshot *snapshot = interval(&it);
  assert_nan(snapshot->cores[0].busy);
  assert_nan(snapshot->cores[0].busy_min);
  assert_nan(snapshot->cores[0].busy_max);
  assert_nan(snapshot->cores[0].hidden);
  assert_nan(snapshot->cores[0].frequency_hz);
  assert_nan(snapshot->cores[0].load_average[0]);
  assert_nan(snapshot->host.load_average[0]);
  assert_nan(snapshot->aggregates[0].mean);
  snapshot_free(snapshot);
  end(&it);
}

static void an_interval_with_a_discarded_window_is_not_known(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 2, 0.5);
  start(&it);
  sample(&it, FAKE_SECOND);
  fake_machine_online(it.play.fake, 1, false);
  fake_machine_online(it.play.fake, 1, true);
  sample(&it, FAKE_SECOND);
  sample(&it, FAKE_SECOND);
  struct snapshot *snapshot = interval(&it);
  assert_near(snapshot->cores[0].busy, 0.5, EXACT);
  assert_nan(snapshot->cores[1].busy);
  assert_nan(snapshot->cores[1].busy_min);
  assert_nan(snapshot->cores[1].busy_max);
  assert_nan(snapshot->cores[1].hidden);
  snapshot_free(snapshot);
  sample(&it, FAKE_SECOND);
  snapshot = interval(&it);
  assert_near(snapshot->cores[1].busy, 0.5, EXACT);
  snapshot_free(snapshot);
  end(&it);
}

static void an_offline_core_has_no_figures(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 2, 0.5);
  it.play.fake->cpuidle_states = 2;
  it.options.cstates = true;
  start(&it);
  windows(&it, 2);
  fake_machine_online(it.play.fake, 1, false);
  windows(&it, 1);
  struct snapshot *snapshot = interval(&it);
  const struct core_figures *core = &snapshot->cores[1];
  assert_false(core->online);
  assert_nan(core->busy);
  assert_nan(core->load_average[0]);
  assert_nan(core->hidden);
  assert_nan(core->steal);
  assert_int_equal(core->cstates_len, 0);
  assert_int_equal(snapshot->self.cores_online, 1);
  assert_false(isnan(snapshot->host.load_average[0]));
  snapshot_free(snapshot);
  end(&it);
}

/* ---------------------------------------------------------------------------
 * Load averages
 */

static void
a_steady_load_shows_in_every_period_from_the_first_window(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 2, 0.8);
  static const double periods[] = {60, 300, 900, 10, 3600};
  memcpy(it.options.period_s, periods, sizeof periods);
  it.options.periods_len = 5;
  start(&it);
  for (int i = 0; i < 65; i++) {
    windows(&it, 1);
    struct snapshot *snapshot = interval(&it);
    assert_int_equal(snapshot->periods_len, 5);
    for (size_t period = 0; period < 5; period++) {
      assert_near(snapshot->period_s[period], periods[period], 0);
      assert_near(snapshot->cores[1].load_average[period], 0.8, EXACT);
      assert_near(snapshot->host.load_average[period], 1.6, EXACT);
    }
    snapshot_free(snapshot);
  }
  end(&it);
}

static void periods_are_1_5_and_15_minutes_unless_told(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 1, 0);
  start(&it);
  windows(&it, 1);
  struct snapshot *snapshot = interval(&it);
  assert_int_equal(snapshot->periods_len, 3);
  assert_near(snapshot->period_s[0], 60, 0);
  assert_near(snapshot->period_s[1], 300, 0);
  assert_near(snapshot->period_s[2], 900, 0);
  snapshot_free(snapshot);
  end(&it);
}

/* After T seconds at 1 behind T0 at 0, as the integral has it. */
static double step_answer(double zero_s, double one_s, double period_s) {
  return (1 - exp(-one_s / period_s)) / (1 - exp(-(zero_s + one_s) / period_s));
}

static void a_step_is_answered_as_the_closed_form_has_it(void **state) {
  (void)state;
  static const double periods[] = {60, 300, 900};
  struct figures_play it;
  prepare(&it, 1, 0);
  start(&it);
  windows(&it, 26);
  fake_machine_load(it.play.fake, 1);
  for (int i = 1; i <= 39; i++) {
    windows(&it, 1);
    struct snapshot *snapshot = interval(&it);
    for (size_t period = 0; period < 3; period++)
      assert_near(snapshot->cores[0].load_average[period],
                  step_answer(26 * WINDOW_S, i * WINDOW_S, periods[period]),
                  EXACT);
    snapshot_free(snapshot);
  }
  end(&it);
}

static void a_gap_enters_the_averages_once_with_its_length(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 1, 0);
  start(&it);
  windows(&it, 26);
  fake_machine_load(it.play.fake, 1);
  sample(&it, 45 * FAKE_SECOND);
  figures_load_average(it.figures);
  struct snapshot *snapshot = interval(&it);
  assert_near(snapshot->cores[0].load_average[0],
              step_answer(26 * WINDOW_S, 45, 60), EXACT);
  snapshot_free(snapshot);
  end(&it);
}

static void a_discarded_window_leaves_the_averages_as_they_were(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 2, 0.25);
  start(&it);
  windows(&it, 13);
  it.play.fake->cores[1].load = 1;
  fake_machine_online(it.play.fake, 1, false);
  fake_machine_online(it.play.fake, 1, true);
  windows(&it, 1);
  struct snapshot *snapshot = interval(&it);
  assert_near(snapshot->cores[1].load_average[0], 0.25, EXACT);
  snapshot_free(snapshot);
  windows(&it, 1);
  snapshot = interval(&it);
  assert_near(snapshot->cores[1].load_average[0],
              0.25 + 0.75 * step_answer(13 * WINDOW_S, WINDOW_S, 60), EXACT);
  snapshot_free(snapshot);
  end(&it);
}

static void
a_core_that_was_away_for_longer_than_a_period_starts_anew(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 2, 0);
  start(&it);
  windows(&it, 65);
  fake_machine_online(it.play.fake, 1, false);
  windows(&it, 26); /* two minutes */
  fake_machine_load(it.play.fake, 1);
  fake_machine_online(it.play.fake, 1, true);
  windows(&it, 2);
  struct snapshot *snapshot = interval(&it);
  assert_near(snapshot->cores[1].load_average[0], 1, EXACT);
  assert_true(snapshot->cores[1].load_average[1] < 0.1);
  assert_true(snapshot->cores[1].load_average[2] < 0.1);
  snapshot_free(snapshot);
  end(&it);
}

static void
the_host_has_an_average_when_every_online_core_has_one(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 4, 0.5);
  fake_machine_online(it.play.fake, 3, false);
  start(&it);
  windows(&it, 2);
  struct snapshot *snapshot = interval(&it);
  assert_near(snapshot->host.load_average[0], 1.5, EXACT);
  snapshot_free(snapshot);
  fake_machine_online(it.play.fake, 3, true);
  windows(&it, 1);
  snapshot = interval(&it);
  assert_nan(snapshot->host.load_average[0]);
  snapshot_free(snapshot);
  windows(&it, 1);
  snapshot = interval(&it);
  assert_near(snapshot->host.load_average[0], 2, EXACT);
  snapshot_free(snapshot);
  end(&it);
}

/* ---------------------------------------------------------------------------
 * The run queue
 */

static void a_host_without_selected_cores_online_has_no_average(void **state) {
  (void)state;
  struct figures_play it;
  struct core_set set;
  prepare(&it, 4, 0.5);
  core_set_parse(&set, "3");
  it.play.options.cores = &set;
  start(&it);
  windows(&it, 2);
  fake_machine_online(it.play.fake, 3, false);
  windows(&it, 1);
  struct snapshot *snapshot = interval(&it);
  assert_nan(snapshot->host.load_average[0]);
  snapshot_free(snapshot);
  end(&it);
}

static void the_run_queue_starts_from_the_kernels_averages(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 1, 0);
  fake_machine_file(it.play.fake, "/proc/loadavg",
                    "0.50 10.00 3.00 2/345 6789\n");
  static const double periods[] = {60, 300, 900, 10, 3600};
  memcpy(it.options.period_s, periods, sizeof periods);
  it.options.periods_len = 5;
  it.play.fake->procs_running = 1;
  play_open(&it.play);
  it.figures = figures_open(&it.options, it.play.engine);
  struct snapshot *snapshot = interval(&it);
  static const double wanted[] = {0.5, 10, 3, 0.5, 3};
  for (size_t i = 0; i < 5; i++)
    assert_near(snapshot->host.run_queue_average[i], wanted[i], EXACT);
  snapshot_free(snapshot);
  windows(&it, 1);
  snapshot = interval(&it);
  assert_near(snapshot->host.run_queue_average[1], 10 * exp(-WINDOW_S / 300),
              EXACT);
  snapshot_free(snapshot);
  end(&it);
}

static void without_them_it_starts_from_nothing(void **state) {
  (void)state;
  static const char *const bad[] = {"",          "junk\n",   "0.5 10\n",
                                    "nan 1 1\n", "-1 0 0\n", "inf 0 0\n"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct figures_play it;
    prepare(&it, 1, 0);
    fake_machine_file(it.play.fake, "/proc/loadavg", bad[i]);
    it.play.fake->procs_running = 5;
    play_open(&it.play);
    it.figures = figures_open(&it.options, it.play.engine);
    struct snapshot *snapshot = interval(&it);
    assert_nan(snapshot->host.run_queue_average[0]);
    snapshot_free(snapshot);
    windows(&it, 1);
    snapshot = interval(&it);
    assert_near(snapshot->host.run_queue_average[2], 4, EXACT);
    snapshot_free(snapshot);
    end(&it);
  }
}

static double run_queue_of(int running, int blocked, bool count_blocked) {
  struct figures_play it;
  prepare(&it, 1, 0);
  it.options.count_blocked = count_blocked;
  it.play.fake->procs_running = running;
  it.play.fake->procs_blocked = blocked;
  start(&it);
  windows(&it, 1);
  struct snapshot *snapshot = interval(&it);
  double average = snapshot->host.run_queue_average[0];
  snapshot_free(snapshot);
  end(&it);
  return average;
}

static void the_run_queue_is_averaged_as_loads_are(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 1, 0);
  start(&it);
  windows(&it, 26);
  it.play.fake->procs_running = 5;
  for (int i = 1; i <= 13; i++) {
    windows(&it, 1);
    struct snapshot *snapshot = interval(&it);
    assert_near(snapshot->host.run_queue_average[1],
                4 * step_answer(26 * WINDOW_S, i * WINDOW_S, 300), EXACT);
    snapshot_free(snapshot);
  }
  end(&it);
}

static void our_own_thread_is_not_in_the_run_queue(void **state) {
  (void)state;
  assert_near(run_queue_of(1, 0, true), 0, EXACT);
  assert_near(run_queue_of(8, 0, true), 7, EXACT);
  assert_near(run_queue_of(0, 0, true), 0, EXACT);
  assert_near(run_queue_of(0, 3, true), 3, EXACT);
}

static void blocked_processes_count_where_that_is_wanted(void **state) {
  (void)state;
  assert_near(run_queue_of(3, 4, true), 6, EXACT);
  assert_near(run_queue_of(3, 4, false), 2, EXACT);
}

static void the_run_queue_may_be_left_out(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 1, 0);
  it.options.run_queue = false;
  fake_machine_file(it.play.fake, "/proc/loadavg", "1 1 1 1/1 1\n");
  start(&it);
  windows(&it, 2);
  struct snapshot *snapshot = interval(&it);
  assert_nan(snapshot->host.run_queue_average[0]);
  snapshot_free(snapshot);
  end(&it);
}

/* ---------------------------------------------------------------------------
 * Columns
 */

static void hidden_is_what_the_busy_columns_did_not_see(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 3, 0.5);
  it.play.fake->cores[1].load = 0.868; /* runs between the ticks */
  it.play.fake->cores[1].seen = 0.004;
  it.play.fake->cores[2].load = 0.0665; /* runs at the ticks */
  it.play.fake->cores[2].seen = 0.999;
  start(&it);
  sample(&it, 100 * FAKE_SECOND);
  struct snapshot *snapshot = interval(&it);
  assert_near(snapshot->cores[0].hidden, 0, 1e-3);
  assert_near(snapshot->cores[1].hidden, 0.864, 1e-3);
  assert_near(snapshot->cores[2].hidden, -0.9325, 1e-3);
  assert_near(snapshot->host.hidden, (0.864 - 0.9325) / 3, 1e-3);
  /* columns: 0.5 + 0.5; 0.004 + 0.132; 0.999 + 0.9335 */
  assert_near(snapshot->cores[0].unaccounted, 0, 1e-3);
  assert_near(snapshot->cores[1].unaccounted, 0.864, 1e-3);
  assert_near(snapshot->cores[2].unaccounted, -0.9325, 1e-3);
  snapshot_free(snapshot);
  end(&it);
}

static void steal_is_its_share_of_wall_time(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 2, 0.3);
  fake_machine_hypervisor(it.play.fake);
  it.play.fake->cores[1].steal = 0.4;
  start(&it);
  sample(&it, 100 * FAKE_SECOND);
  struct snapshot *snapshot = interval(&it);
  assert_true(snapshot->hypervisor);
  assert_near(snapshot->cores[0].steal, 0, 1e-3);
  assert_near(snapshot->cores[1].steal, 0.4, 1e-3);
  assert_near(snapshot->host.steal, 0.2, 1e-3);
  assert_near(snapshot->cores[1].busy, 0.3, 1e-3);
  assert_near(snapshot->cores[1].unaccounted, 0, 1e-3); /* a column, too */
  snapshot_free(snapshot);
  end(&it);
}

static void
tick_sampled_idle_time_hides_nothing_that_could_be_told(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 2, 0.5);
  it.play.options.source = SOURCE_IDLE;
  start(&it);
  play_proof(&it.play, SOURCE_IDLE, PROOF_TICK_SAMPLED);
  sample(&it, FAKE_SECOND);
  snapshot_free(interval(&it));
  sample(&it, FAKE_SECOND);
  struct snapshot *snapshot = interval(&it);
  assert_nan(snapshot->cores[0].hidden);
  assert_nan(snapshot->host.hidden);
  assert_false(isnan(snapshot->cores[0].busy));
  assert_int_equal(snapshot->self.cores_tick_sampled, 2);
  snapshot_free(snapshot);
  end(&it);
}

static void renumbered_rows_withhold_what_comes_from_them_alone(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 2, 0.5);
  core_set_add(&it.play.fake->stat_hidden, 1);
  start(&it);
  windows(&it, 2);
  struct snapshot *snapshot = interval(&it);
  for (int core = 0; core < 2; core++) {
    assert_near(snapshot->cores[core].busy, 0.5, EXACT);
    assert_near(snapshot->cores[core].load_average[0], 0.5, EXACT);
    assert_nan(snapshot->cores[core].hidden);
    assert_nan(snapshot->cores[core].unaccounted);
    assert_nan(snapshot->cores[core].steal);
  }
  assert_nan(snapshot->host.hidden);
  assert_nan(snapshot->host.steal);
  assert_nan(snapshot->host.run_queue_average[0]);
  assert_near(snapshot->host.load_average[0], 1, EXACT);
  snapshot_free(snapshot);
  end(&it);
}

/* ---------------------------------------------------------------------------
 * Counters and C-states
 */

static void the_busy_frequency_is_base_times_boost(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 1, 0.1);
  start(&it);
  sample(&it, FAKE_SECOND);
  struct snapshot *snapshot = interval(&it);
  assert_near(snapshot->cores[0].frequency_hz, PLAY_TSC_HZ * 1.25, 1e4);
  assert_near(snapshot->cores[0].counter_running, 1, EXACT);
  assert_nan(snapshot->cores[0].ipc);
  snapshot_free(snapshot);
  end(&it);
}

static void the_source_idle_has_no_frequency(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 1, 0.1);
  it.play.options.source = SOURCE_IDLE;
  start(&it);
  sample(&it, FAKE_SECOND);
  struct snapshot *snapshot = interval(&it);
  assert_nan(snapshot->cores[0].frequency_hz);
  assert_nan(snapshot->cores[0].counter_running);
  snapshot_free(snapshot);
  end(&it);
}

static void
instructions_per_cycle_tell_how_long_they_were_counted(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 2, 0.5);
  fake_machine_counter(it.play.fake, PERF_TYPE_HARDWARE,
                       PERF_COUNT_HW_CPU_CYCLES, FAKE_PER_UNHALTED, 3e9);
  fake_machine_counter(it.play.fake, PERF_TYPE_HARDWARE,
                       PERF_COUNT_HW_INSTRUCTIONS, FAKE_PER_UNHALTED, 4.5e9);
  it.play.options.ipc = true;
  it.play.fake->cores[1].running = 0.25;
  start(&it);
  sample(&it, FAKE_SECOND);
  struct snapshot *snapshot = interval(&it);
  assert_near(snapshot->cores[0].ipc, 1.5, EXACT);
  assert_near(snapshot->cores[0].ipc_running, 1, EXACT);
  assert_near(snapshot->cores[1].ipc, 1.5, EXACT);
  assert_near(snapshot->cores[1].ipc_running, 0.25, EXACT);
  snapshot_free(snapshot);
  sample(&it, FAKE_SECOND);
  fake_machine_online(it.play.fake, 1, false);
  fake_machine_online(it.play.fake, 1, true);
  sample(&it, FAKE_SECOND);
  sample(&it, FAKE_SECOND);
  snapshot = interval(&it);
  assert_near(snapshot->cores[0].ipc, 1.5, EXACT);
  assert_nan(snapshot->cores[1].ipc); /* it was away in this interval */
  assert_nan(snapshot->cores[1].ipc_running);
  assert_nan(snapshot->cores[1].frequency_hz);
  snapshot_free(snapshot);
  end(&it);
}

/* Its counters were never scheduled in, or the core never ran. */
static void no_cycles_are_no_instructions_per_cycle(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 1, 0);
  fake_machine_counter(it.play.fake, PERF_TYPE_HARDWARE,
                       PERF_COUNT_HW_CPU_CYCLES, FAKE_PER_UNHALTED, 3e9);
  fake_machine_counter(it.play.fake, PERF_TYPE_HARDWARE,
                       PERF_COUNT_HW_INSTRUCTIONS, FAKE_PER_UNHALTED, 4.5e9);
  it.play.options.ipc = true;
  start(&it);
  sample(&it, FAKE_SECOND);
  struct snapshot *snapshot = interval(&it);
  assert_nan(snapshot->cores[0].ipc);
  assert_nan(snapshot->cores[0].frequency_hz);
  snapshot_free(snapshot);
  end(&it);
}

static void residency_is_a_share_of_the_interval(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 2, 0.3);
  it.options.cstates = true;
  it.play.fake->cpuidle_states = 3;
  start(&it);
  sample(&it, 10 * FAKE_SECOND);
  struct snapshot *snapshot = interval(&it);
  const struct core_figures *core = &snapshot->cores[1];
  assert_int_equal(core->cstates_len, 3);
  assert_string_equal(core->cstate[0].name, "POLL");
  assert_true(core->cstate[0].poll);
  assert_near(core->cstate[0].residency, 0, EXACT);
  assert_string_equal(core->cstate[2].name, "C6");
  assert_near(core->cstate[2].residency, 0.7, 1e-3);
  assert_true(core->cstate[2].entries > 0);
  snapshot_free(snapshot);
  end(&it);
}

static void c_states_are_left_out_unless_wanted(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 1, 0.3);
  it.play.fake->cpuidle_states = 3;
  start(&it);
  sample(&it, FAKE_SECOND);
  struct snapshot *snapshot = interval(&it);
  assert_int_equal(snapshot->cores[0].cstates_len, 0);
  snapshot_free(snapshot);
  end(&it);
}

/* ---------------------------------------------------------------------------
 * About itself
 */

static void a_snapshot_tells_which_source_serves_how_many_cores(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 8, 0.5);
  fake_machine_file(it.play.fake, CPU "/isolated", "4-5\n");
  struct fake_counter *broken = fake_machine_counter(
      it.play.fake, FAKE_MSR_TYPE, FAKE_MSR_MPERF, FAKE_PER_UNHALTED, 1e9);
  broken->core = 6;
  broken->open_error = ENOENT;
  fake_machine_online(it.play.fake, 7, false);
  start(&it);
  play_proof(&it.play, SOURCE_MPERF, PROOF_PROVEN);
  sample(&it, FAKE_SECOND);
  struct snapshot *snapshot = interval(&it);
  const struct self_figures *self = &snapshot->self;
  assert_int_equal(self->cores_online, 7);
  assert_int_equal(self->cores_by_source[SOURCE_MPERF], 4);
  assert_int_equal(self->cores_by_source[SOURCE_IDLE], 3);
  assert_int_equal(self->cores_unproven, 3);
  assert_int_equal(self->cores_without_value, 0);
  assert_true(snapshot->cores[4].isolated);
  assert_false(snapshot->cores[3].isolated);
  snapshot_free(snapshot);
  end(&it);
}

static void cores_without_value_are_counted(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 4, 0.5);
  fake_machine_file(it.play.fake, CPU "/isolated", "2-3\n");
  it.play.options.isolated_cores = ISOLATED_CORES_SKIP;
  start(&it);
  sample(&it, FAKE_SECOND);
  struct snapshot *snapshot = interval(&it);
  assert_int_equal(snapshot->self.cores_without_value, 2);
  assert_int_equal(snapshot->self.cores_online, 4);
  snapshot_free(snapshot);
  end(&it);
}

static void no_snapshot_of_256_cores_holds_a_figure_out_of_range(void **state) {
  (void)state;
  struct figures_play it;
  prepare(&it, 256, 0);
  for (int core = 0; core < 256; core++) {
    it.play.fake->cores[core].load = core / 255.0;
    it.play.fake->cores[core].seen = 1 - core / 255.0;
  }
  start(&it);
  windows(&it, 3);
  struct snapshot *snapshot = interval(&it);
  assert_int_equal(snapshot->cores_len, 256);
  for (int i = 0; i < 256; i++) {
    const struct core_figures *core = &snapshot->cores[i];
    assert_int_equal(core->core, i);
    assert_near(core->busy, i / 255.0, EXACT);
    assert_near(core->load_average[2], i / 255.0, EXACT);
    assert_true(core->busy_min <= core->busy && core->busy <= core->busy_max);
    assert_true(core->busy_min >= 0 && core->busy_max <= 1);
  }
  assert_near(snapshot->host.load_average[0], 128, 1e-3);
  snapshot_free(snapshot);
  end(&it);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(
          an_interval_has_its_mean_and_the_extremes_of_its_windows),
      cmocka_unit_test(the_first_interval_is_not_known),
      cmocka_unit_test(an_interval_with_a_discarded_window_is_not_known),
      cmocka_unit_test(an_offline_core_has_no_figures),
      cmocka_unit_test(
          a_steady_load_shows_in_every_period_from_the_first_window),
      cmocka_unit_test(periods_are_1_5_and_15_minutes_unless_told),
      cmocka_unit_test(a_step_is_answered_as_the_closed_form_has_it),
      cmocka_unit_test(a_gap_enters_the_averages_once_with_its_length),
      cmocka_unit_test(a_discarded_window_leaves_the_averages_as_they_were),
      cmocka_unit_test(
          a_core_that_was_away_for_longer_than_a_period_starts_anew),
      cmocka_unit_test(the_host_has_an_average_when_every_online_core_has_one),
      cmocka_unit_test(a_host_without_selected_cores_online_has_no_average),
      cmocka_unit_test(the_run_queue_starts_from_the_kernels_averages),
      cmocka_unit_test(without_them_it_starts_from_nothing),
      cmocka_unit_test(the_run_queue_is_averaged_as_loads_are),
      cmocka_unit_test(our_own_thread_is_not_in_the_run_queue),
      cmocka_unit_test(blocked_processes_count_where_that_is_wanted),
      cmocka_unit_test(the_run_queue_may_be_left_out),
      cmocka_unit_test(hidden_is_what_the_busy_columns_did_not_see),
      cmocka_unit_test(steal_is_its_share_of_wall_time),
      cmocka_unit_test(tick_sampled_idle_time_hides_nothing_that_could_be_told),
      cmocka_unit_test(renumbered_rows_withhold_what_comes_from_them_alone),
      cmocka_unit_test(the_busy_frequency_is_base_times_boost),
      cmocka_unit_test(the_source_idle_has_no_frequency),
      cmocka_unit_test(instructions_per_cycle_tell_how_long_they_were_counted),
      cmocka_unit_test(no_cycles_are_no_instructions_per_cycle),
      cmocka_unit_test(residency_is_a_share_of_the_interval),
      cmocka_unit_test(c_states_are_left_out_unless_wanted),
      cmocka_unit_test(a_snapshot_tells_which_source_serves_how_many_cores),
      cmocka_unit_test(cores_without_value_are_counted),
      cmocka_unit_test(no_snapshot_of_256_cores_holds_a_figure_out_of_range),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
