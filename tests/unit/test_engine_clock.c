/* Tests the source "bpf": an engine that uses the idle clock. */
#include "unit.h"

#include "cycles/engine_private.h"
#include "play.h"

#define ISOLATED "/sys/devices/system/cpu/isolated"

/* Sets up a virtual machine without a PMU, with an idle clock that can be
 * loaded. */
static void start(struct play *play, int cores, double load) {
  play_start(play, cores);
  fake_machine_hypervisor(play->fake);
  fake_machine_idle_clock(play->fake);
  fake_machine_load(play->fake, load);
}

static void start_named(struct play *play, int cores, double load) {
  start(play, cores, load);
  play->options.source = SOURCE_BPF;
}

static void start_pinned(struct play *play, int cores, double load) {
  start(play, cores, load);
  fake_machine_pin_clock(play->fake);
}

static const char *reason(const struct play *play) {
  return engine_source_reason(play->engine, SOURCE_BPF);
}

/* ---------------------------------------------------------------------------
 * Loads
 */

TEST(unhalted_time_is_wall_time_less_halted_time) {
  PLAY_WITH(start_named(&play, 4, 0));
  for (int core = 0; core < 4; core++)
    play.fake->cores[core].load = core / 3.0;
  play_open(&play);
  assert_int_equal(play_said(&play, "idle"), 0);
  play_seconds(&play, 2);
  for (int core = 0; core < 4; core++) {
    assert_int_equal(play_source(&play, core), SOURCE_BPF);
    assert_int_equal(play_core(&play, core)->proof, PROOF_PROVEN);
    assert_near(play_load(&play, core), core / 3.0, PLAY_EXACT);
  }
}

TEST(softirqs_that_the_kernel_counts_as_idle_are_load) {
  PLAY_WITH(start_named(&play, 1, 0.6));
  play.fake->cores[0].seen = 0.1;
  play.fake->cores[0].idle = 0.9;
  play_open_for(&play, 2);
  assert_near(play_load(&play, 0), 0.6, PLAY_EXACT);
}

/* The load of 0.5 includes the stolen time, because the clock counts all time
 * that is not halted. Only the lower bound excludes stolen time. */
TEST(time_stolen_from_a_running_core_is_taken_off_the_lower_bound_only) {
  PLAY_WITH(start_named(&play, 1, 0.3));
  play.fake->cores[0].steal = 0.2;
  play.fake->cores[0].idle = 0.5;
  play_open_for(&play, 2);
  assert_near(play_load(&play, 0), 0.5, PLAY_EXACT);
  assert_near(play_low(&play, 0), 0.3, PLAY_SECOND_ERROR);
}

/* The hypervisor takes all time that the core would run. */
TEST(time_stolen_while_proc_stat_is_missing_is_taken_off_the_lower_bound) {
  for (int always = 0; always < 2; always++) {
    PLAY_WITH(start_named(&play, 1, 0));
    play.fake->cores[0].steal = 0.5;
    if (always)
      fake_machine_fail(play.fake, "/proc/stat", EIO);
    play_open_for(&play, 3);
    struct core_totals from = play_core(&play, 0)->total;
    for (int second = 0; second < 20; second++) {
      if (second == 5)
        fake_machine_fail(play.fake, "/proc/stat", EIO);
      if (second == 10 && !always)
        fake_machine_remove(play.fake, "/proc/stat");
      play_seconds(&play, 1);
      assert_near(play_load(&play, 0), 0.5, PLAY_EXACT);
      assert_true(play_bounds(&play, 0).low <= PLAY_EXACT);
    }
    assert_near(bounds_of(&from, &play_core(&play, 0)->total).low, 0, 1e-9);
  }
}

/* The last rows are those of the begin of a slow read. */
TEST(time_stolen_since_the_last_rows_is_taken_off_when_they_were_read_slowly) {
  PLAY_WITH(start_named(&play, 1, 0));
  play.fake->cores[0].steal = 1;
  play.fake->stat_read_before = 0;
  play_open_for(&play, 3);
  struct core_totals from = play_core(&play, 0)->total;
  play.fake->stat_read_ns = FAKE_SECOND / 10;
  play.fake->stat_slow_reads = -1;
  play_seconds(&play, 1);
  assert_near(play_bounds(&play, 0).low, 0, 1e-9);
  play.fake->stat_slow_reads = 0;
  fake_machine_fail(play.fake, "/proc/stat", EIO);
  play_seconds(&play, 5);
  fake_machine_remove(play.fake, "/proc/stat");
  play_seconds(&play, 5);
  assert_near(bounds_of(&from, &play_core(&play, 0)->total).low, 0, 1e-9);
}

/* The window of the clock then covers two of /proc/stat. */
TEST(time_stolen_in_a_sample_without_a_reading_is_taken_off_the_next) {
  PLAY_WITH(start_named(&play, 1, 0.1));
  play.fake->cores[0].steal = 0.4;
  play_open_for(&play, 3);
  play.fake->clock.read_ns = FAKE_SECOND / 2;
  play_seconds(&play, 1);
  assert_nan(play_load(&play, 0));
  play.fake->clock.read_ns = 0;
  play_seconds(&play, 1);
  assert_near(play_load(&play, 0), 0.5, 0.01);
  assert_true(play_bounds(&play, 0).low <= 0.1);
}

/* Halts begin before and end after the programs of the clock. */
TEST(what_the_programs_miss_of_each_halt_is_within_the_bounds) {
  PLAY_WITH(start_named(&play, 1, 0.4));
  struct fake_core *core = &play.fake->cores[0];
  core->halts_per_s = 10000;
  core->entry_ns = 1900;
  core->loop_ns = 6000;
  play_open_for(&play, 2);
  for (int i = 0; i < 20; i++) {
    play_seconds(&play, 1);
    struct bounds bounds = play_bounds(&play, 0);
    assert_near(play_load(&play, 0), 0.4 - 0.019, 0.001);
    assert_true(bounds.low <= 0.4 && 0.4 <= bounds.high);
    assert_true(bounds.high < 0.402);
  }
}

/* The idle driver is read after the columns, and after the clock. */
TEST(halts_while_the_clock_was_read_slowly_are_within_later_bounds) {
  PLAY_WITH(start_named(&play, 1, 0.4));
  struct fake_core *core = &play.fake->cores[0];
  play.options.bounds = true;
  play.fake->cpuidle_states = 3;
  core->halts_per_s = 30000;
  core->entry_ns = core->loop_ns = 2000;
  play_open_for(&play, 2);
  struct core_totals from = play_core(&play, 0)->total;
  play.fake->clock.read_ns = FAKE_SECOND / 10;
  play_seconds(&play, 1);
  play.fake->clock.read_ns = 0;
  core->halts_per_s = 0;
  play.fake->interrupts += 30000; /* of another core */
  play_seconds(&play, 2);
  assert_true(bounds_of(&from, &play_core(&play, 0)->total).high >= 0.4);
}

/* Where it may be a virtual machine, the columns tell that it was not paused.
 * One column is wrong by up to 10 ms, the tick by up to 2 ms more. */
TEST(a_busy_core_of_a_virtual_machine_has_narrow_bounds) {
  for (int busy = 0; busy < 2; busy++) {
    PLAY_WITH(start_named(&play, 1, busy ? 1 : 0.4));
    fake_machine_hypervisor(play.fake);
    play_open_for(&play, 2);
    for (int i = 0; i < 100; i++) {
      play.fake->cores[0].halts_per_s = busy ? 0 : 5000;
      play_seconds(&play, 1);
      struct bounds bounds = play_bounds(&play, 0);
      assert_true(bounds.high - bounds.low < (busy ? 0.023 : 0.05));
    }
  }
}

/* And by the time since the columns, whose halts are not known yet: it is tried
 * three times to read the clock. */
TEST(a_slow_read_widens_the_bounds_by_its_bracket) {
  PLAY_WITH(start_named(&play, 1, 0.4));
  fake_machine_file(play.fake, "/proc/cpuinfo",
                    "processor\t: 0\nflags\t\t: fpu\n"); /* not virtual */
  play_open_for(&play, 2);
  assert_true(play_bounds(&play, 0).high - play_bounds(&play, 0).low < 0.001);
  play.fake->clock.read_ns = 5 * FAKE_MS;
  play_seconds(&play, 100);
  assert_measured(&play, 0, SOURCE_BPF, 0.4, 0.01);
  assert_near(play_bounds(&play, 0).high, 0.41 + 0.015, 0.001);
  assert_near(play_bounds(&play, 0).low, 0.39 - 0.015, 0.001);
  assert_int_equal(play_counts(&play)->errors, 0);
}

TEST(a_sample_without_a_reading_is_part_of_the_next) {
  PLAY_WITH(start_named(&play, 1, 0.4));
  play_open_for(&play, 2);
  struct core_totals before = play_core(&play, 0)->total;
  play.fake->clock.read_ns = 200 * FAKE_MS;
  play_seconds(&play, 1);
  assert_nan(play_load(&play, 0));
  play.fake->clock.read_ns = 0;
  play.fake->cores[0].load = 0.8;
  play_seconds(&play, 1);
  assert_int_equal(play_source(&play, 0), SOURCE_BPF);
  const struct core_totals *now = &play_core(&play, 0)->total;
  double ran = (0.4 * 1.6 + 0.8) / 2.6;
  struct bounds bounds = bounds_of(&before, now);
  assert_near(engine_load(&before, now), ran, PLAY_EXACT);
  assert_true(bounds.low <= ran && ran <= bounds.high);
  assert_int_equal(play_counts(&play)->errors, 0);
}

TEST(a_core_that_came_back_online_begins_a_new_window) {
  PLAY_WITH(start_named(&play, 2, 0.5));
  play_open_for(&play, 2);
  fake_machine_online(play.fake, 1, false);
  play_seconds(&play, 3);
  fake_machine_online(play.fake, 1, true);
  play.fake->cores[1].load = 0.2;
  play_seconds(&play, 1);
  assert_nan(play_load(&play, 1));
  play_seconds(&play, 1);
  assert_measured(&play, 1, SOURCE_BPF, 0.2, PLAY_EXACT);
  assert_near(play_load(&play, 0), 0.5, PLAY_EXACT);
}

TEST(a_window_across_a_suspend_is_dropped) {
  PLAY_WITH(start_named(&play, 1, 0.5));
  play_open_for(&play, 2);
  fake_machine_suspend(play.fake, 100 * FAKE_SECOND);
  play_seconds(&play, 1);
  assert_nan(play_load(&play, 0));
  play_seconds(&play, 1);
  assert_measured(&play, 0, SOURCE_BPF, 0.5, PLAY_EXACT);
}

/* ---------------------------------------------------------------------------
 * Opening the clock
 */

TEST(a_named_clock_that_cannot_be_loaded_gives_way_and_is_tried_again) {
  PLAY_WITH(start_named(&play, 2, 0.5));
  play.fake->clock.load_error = EPERM;
  play_open_for(&play, 2);
  assert_int_equal(play_source(&play, 1), SOURCE_IDLE);
  assert_int_equal(play_said(&play, "bpf", "CAP_BPF"), 1);
  play.fake->clock.load_error = 0;
  play_seconds(&play, 30);
  assert_int_equal(play_source(&play, 1), SOURCE_BPF);
}

TEST(auto_uses_a_pinned_clock_if_no_counter_can_be_used) {
  PLAY_WITH(start_pinned(&play, 2, 0.3));
  play_open_for(&play, 2);
  assert_measured(&play, 0, SOURCE_BPF, 0.3, PLAY_EXACT);
  assert_int_equal(play.fake->clock.loads, 0);
}

TEST(a_counter_is_taken_before_the_clock) {
  PLAY_REF_CYCLES(2, 0.5);
  fake_machine_pin_clock(play.fake);
  play_open_for(&play, 2);
  assert_int_equal(play_source(&play, 0), SOURCE_REF_CYCLES);
}

TEST(if_another_source_is_named_the_clock_is_not_used) {
  PLAY_WITH(start_pinned(&play, 1, 0.5));
  play.options.source = SOURCE_IDLE;
  play_open_for(&play, 2);
  assert_int_equal(play_source(&play, 0), SOURCE_IDLE);
  assert_int_equal(play.fake->clock.reads, 0);
}

TEST(the_clock_of_another_sysroot_is_not_used) {
  PLAY_WITH(start_pinned(&play, 1, 0.5));
  play.options.hardware = false;
  play_open_for(&play, 2);
  assert_int_equal(play_source(&play, 0), SOURCE_IDLE);
  assert_int_equal(play.fake->clock.reads, 0);
}

TEST(auto_loads_no_clock_while_idle_is_not_known_to_miss_work) {
  PLAY_WITH(start(&play, 2, 0.5));
  play_open(&play);
  play_proof(&play, SOURCE_IDLE, PROOF_PROVEN);
  play_seconds(&play, 60);
  assert_int_equal(play_source(&play, 0), SOURCE_IDLE);
  assert_int_equal(play.fake->clock.loads, 0);
  assert_non_null(strstr(reason(&play), "Source \"bpf\""));
}

static void tick_sampled(struct play *play) {
  play_proof(play, SOURCE_IDLE, PROOF_TICK_SAMPLED);
}

static void spends_time_in_softirq(struct play *play) {
  play->fake->cores[1].load = 0.5;
  play->fake->cores[1].seen = 0.3;
  play->fake->cores[1].softirq = 0.2;
}

TEST(auto_loads_the_clock_if_idle_misses_work_and_says_why) {
  static const struct {
    void (*play)(struct play *play);
    const char *btf, *said;
  } cases[] = {
      {tick_sampled, NULL, "sampled at the tick"},
      {spends_time_in_softirq, NULL, "a core spends a lot of time in softirqs"},
      {NULL, "idle_dyntick", "counts softirqs on an idle core as idle"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    PLAY_WITH(start(&play, 2, 0.5));
    if (cases[i].btf != NULL)
      fake_machine_btf(play.fake, cases[i].btf);
    play_open_for(&play, 10);
    if (cases[i].play != NULL)
      cases[i].play(&play);
    play_seconds(&play, 20);
    assert_int_equal(play_source(&play, 0), SOURCE_BPF);
    assert_int_equal(play.fake->clock.loads, 1);
    assert_int_equal(play_said(&play, "bpf", cases[i].said), 1);
  }
}

TEST(auto_loads_the_clock_if_no_core_is_ever_idle_enough_to_prove_idle) {
  PLAY_WITH(start(&play, 2, 0.5));
  play_open(&play);
  play_proof(&play, SOURCE_IDLE, PROOF_UNPROVEN);
  engine_source(play.engine, SOURCE_IDLE)->proof_backoff.until_ns =
      play.fake->monotonic_ns;
  play_seconds(&play, 50);
  assert_int_equal(play_source(&play, 0), SOURCE_IDLE);
  play_seconds(&play, 30);
  assert_int_equal(play_source(&play, 0), SOURCE_BPF);
  assert_int_equal(play_core(&play, 0)->proof, PROOF_PROVEN);
  assert_int_equal(play_said(&play, "bpf", "could not be proven"), 1);
}

TEST(auto_waits_for_the_proof_of_idle_while_a_core_has_room_for_it) {
  PLAY_WITH(start(&play, 2, 0.1));
  play_open(&play);
  play_proof(&play, SOURCE_IDLE, PROOF_UNPROVEN);
  engine_source(play.engine, SOURCE_IDLE)->proof_backoff.until_ns =
      play.fake->monotonic_ns;
  play_seconds(&play, 100);
  assert_int_equal(play_source(&play, 0), SOURCE_IDLE);
}

/* One sample is enough, as for percore pick. */
TEST(auto_loads_the_clock_at_once_if_there_is_no_other_source) {
  PLAY_WITH(start(&play, 2, 0.4));
  fake_machine_fail(play.fake, "/proc/stat", EIO);
  play_open(&play);
  assert_int_equal(play_source(&play, 1), SOURCE_BPF);
  assert_int_equal(play.fake->clock.loads, 1);
  assert_int_equal(play_said(&play, "no source"), 0);
  play_seconds(&play, 1);
  assert_measured(&play, 1, SOURCE_BPF, 0.4, PLAY_EXACT);
}

TEST(auto_loads_the_clock_where_idle_is_unavailable) {
  PLAY_WITH(start(&play, 2, 0.5));
  play.fake->lxcfs = true;
  play_open_for(&play, 20);
  assert_measured(&play, 0, SOURCE_BPF, 0.5, PLAY_EXACT);
  assert_int_equal(play_said(&play, "bpf", "idle is unavailable"), 1);
}

TEST(a_clock_that_auto_loaded_stays) {
  PLAY_WITH(start(&play, 2, 0.5));
  play_open(&play);
  tick_sampled(&play);
  play_seconds(&play, 10);
  assert_int_equal(play_source(&play, 0), SOURCE_BPF);
  play_proof(&play, SOURCE_IDLE, PROOF_PROVEN);
  play_seconds(&play, 3600);
  assert_int_equal(play_source(&play, 0), SOURCE_BPF);
  assert_int_equal(play.fake->clock.loads, 1);
}

TEST(auto_loads_no_clock_if_a_counter_is_used) {
  PLAY_REF_CYCLES(2, 0.5);
  fake_machine_idle_clock(play.fake);
  play_open(&play);
  play_proof(&play, SOURCE_IDLE, PROOF_TICK_SAMPLED);
  play_seconds(&play, 60);
  assert_int_equal(play.fake->clock.loads, 0);
}

/* Loading the clock would interrupt the isolated cores, so the engine does not
 * load it. */
TEST(no_clock_is_loaded_if_cores_are_isolated) {
  for (int named = 0; named < 2; named++) {
    PLAY_WITH(start(&play, 2, 0.5));
    fake_machine_file(play.fake, ISOLATED, named ? "1\n" : "0\n");
    play.options.source = named ? SOURCE_BPF : SOURCE_AUTO;
    play_open(&play);
    play_proof(&play, SOURCE_IDLE, PROOF_TICK_SAMPLED);
    play_seconds(&play, 60);
    assert_int_equal(play.fake->clock.loads, 0);
    assert_int_equal(play_source(&play, 0), SOURCE_IDLE);
    assert_non_null(strstr(reason(&play), "percore clock --pin"));
  }
}

TEST(isolated_cores_use_the_pinned_clock_if_configured) {
  static const struct {
    enum isolated_cores isolated_cores;
    enum source_kind source;
  } cases[] = {{ISOLATED_CORES_BPF, SOURCE_BPF},
               {ISOLATED_CORES_IDLE, SOURCE_IDLE},
               {ISOLATED_CORES_SKIP, SOURCE_NONE}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    PLAY_MPERF(2, 0.7);
    fake_machine_pin_clock(play.fake);
    fake_machine_file(play.fake, ISOLATED, "1\n");
    play.options.isolated_cores = cases[i].isolated_cores;
    play_open_for(&play, 2);
    assert_int_equal(play_source(&play, 0), SOURCE_MPERF);
    assert_int_equal(play_source(&play, 1), cases[i].source);
    assert_int_equal(fake_machine_descriptors(play.fake, 1), 0);
    if (cases[i].source == SOURCE_BPF)
      assert_near(play_load(&play, 1), 0.7, PLAY_EXACT);
  }
}

/* ---------------------------------------------------------------------------
 * A clock that fails or stops
 */

TEST(a_core_on_which_a_pinned_clock_has_not_run_is_left_to_idle) {
  PLAY_WITH(start_pinned(&play, 2, 0.5));
  play.fake->cores[1].load = 1;
  play.fake->cores[1].clock_ran = false;
  play_open_for(&play, 3);
  assert_int_equal(play_source(&play, 0), SOURCE_BPF);
  assert_int_equal(play_source(&play, 1), SOURCE_IDLE);
  play.fake->cores[1].load = 0.9;
  play_seconds(&play, 70);
  assert_measured(&play, 1, SOURCE_BPF, 0.9, PLAY_EXACT);
}

TEST(a_clock_whose_pins_have_gone_gives_way_until_another_is_pinned) {
  PLAY_WITH(start_pinned(&play, 2, 0.5));
  play_open_for(&play, 2);
  play.fake->clock.pinned = false;
  play.fake->clock.read_error = ENOLINK;
  play_seconds(&play, 30);
  assert_measured(&play, 0, SOURCE_IDLE, 0.5, PLAY_SECOND_ERROR);
  assert_false(play.fake->clock.open);
  assert_int_equal(play.fake->clock.loads, 0);
  assert_int_equal(play_said(&play, "cores 0-1", "bpf", "no longer runs"), 1);
  play.fake->clock.read_error = 0;
  play.fake->clock.pinned = true;
  play_seconds(&play, 60);
  assert_int_equal(play_source(&play, 0), SOURCE_BPF);
}

TEST(closing_the_engine_closes_the_clock) {
  PLAY_WITH(start_named(&play, 1, 0.5));
  play_open(&play);
  assert_true(play.fake->clock.open);
  engine_close(play.engine);
  assert_false(play.fake->clock.open);
  play.engine = NULL;
}
