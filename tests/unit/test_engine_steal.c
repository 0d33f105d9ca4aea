/* Tests steal and interrupts under the accounting of old and new kernels;
 * cycles/engine.h describes both. */
#include "unit.h"

#include "figures_play.h"

/* Sets up two cores that run for 19 % of the time. On core 1, the hypervisor
 * takes 6 % of the time while the core runs, and 20 % while it wakes up. */
static void start(struct play *play, bool steal_apart) {
  play_start(play, 2);
  fake_machine_hypervisor(play->fake);
  fake_machine_load(play->fake, 0.19);
  play->fake->cores[1].steal = 0.06;
  play->fake->cores[1].woken = 0.20;
  play->fake->steal_apart = steal_apart;
  if (steal_apart)
    fake_machine_btf(play->fake, "rq idle_stealtime prev_irq_time");
}

TEST(time_stolen_while_waking_is_not_subtracted_twice) {
  PLAY_WITH(start(&play, false));
  play_open(&play);
  play_sample(&play, 10 * FAKE_SECOND);
  /* The load is 1 - idle, because time stolen from a running core cannot be
   * separated from running time. */
  assert_near(play_load(&play, 1), 0.25, PLAY_SECOND_ERROR / 10);
  assert_near(play_load(&play, 0), 0.19, PLAY_SECOND_ERROR / 10);
  assert_int_equal(play_counts(&play)->errors, 0);
}

TEST(work_is_between_the_lower_bound_and_the_load) {
  for (double steal = 0; steal < 0.4; steal += 0.1)
    for (double woken = 0; woken < 0.4; woken += 0.1) {
      PLAY_WITH(start(&play, false));
      play.fake->cores[1].steal = steal;
      play.fake->cores[1].woken = woken;
      play_open(&play);
      for (int i = 0; i < 10; i++) {
        play_sample(&play, FAKE_SECOND);
        assert_true(play_load(&play, 1) >= 0.19 - PLAY_SECOND_ERROR);
        assert_true(play_load(&play, 1) <= 0.19 + steal + PLAY_SECOND_ERROR);
        assert_true(play_low(&play, 1) <= 0.19 + PLAY_SECOND_ERROR);
        assert_true(play_low(&play, 1) >= 0.19 - woken - PLAY_SECOND_ERROR);
      }
    }
}

TEST(steal_is_subtracted_on_kernels_with_idle_stealtime) {
  PLAY_WITH(start(&play, true));
  play_open(&play);
  play_sample(&play, 10 * FAKE_SECOND);
  assert_near(play_load(&play, 1), 0.19, PLAY_SECOND_ERROR / 10);
  assert_near(play_low(&play, 1), play_load(&play, 1), 0);
}

/* The kernel adds it to the column at the core's next tick. */
TEST(after_steal_a_tick_of_it_may_be_missing_in_the_columns_for_a_minute) {
  PLAY_WITH(start(&play, false));
  play_open_for(&play, 10);
  play.fake->cores[1].steal = play.fake->cores[1].woken = 0;
  play_seconds(&play, 30);
  double soon = play_load(&play, 1) - play_low(&play, 1);
  struct bounds bounds = play_bounds(&play, 1);
  assert_near(play_load(&play, 1) - bounds.low, 0.04, 0.001);
  play_seconds(&play, 40);
  bounds = play_bounds(&play, 1);
  assert_near(play_load(&play, 1) - bounds.low, 0.03, 0.001);
  assert_near(soon, 0, 1e-9);
}

/* The kernel may still take it off idle time. */
TEST(the_upper_bound_adds_the_steal_of_two_samples_and_no_more) {
  PLAY_WITH(start(&play, true));
  play_open_for(&play, 60);
  assert_near(play_bounds(&play, 1).high, 0.19 + 2 * 0.26,
              2 * PLAY_SECOND_ERROR);
}

/* The counter fails when the columns have stood still for a second, so that
 * they stand in for it with a window of two seconds. */
TEST(all_that_was_stolen_in_a_longer_window_may_be_in_the_part_that_counts) {
  PLAY_WITH(play_start_ref_cycles(&play, 1, 0.9));
  struct fake_core *core = &play.fake->cores[0];
  core->column_ns[PROCSTAT_STEAL] = 1e12;
  play_open(&play);
  play_proof(&play, SOURCE_REF_CYCLES, PROOF_PROVEN);
  play_proof(&play, SOURCE_IDLE, PROOF_PROVEN);
  play_seconds(&play, 5);
  play.fake->stat_still = true;
  play_seconds(&play, 1);
  assert_near(play_load(&play, 0), 0.9, PLAY_SECOND_ERROR);
  play.fake->stat_still = false;
  core->read_error = EIO;
  core->load = core->seen = 0;
  core->steal = 0.9;
  play_seconds(&play, 1);
  assert_true(play_core(&play, 0)->sample.filled);
  assert_near(play_low(&play, 0), 0, 1e-9);
}

/* ---------------------------------------------------------------------------
 * Idle sequences as the kernel accounts for them
 */

/* A core that alternates between work and idle sequences. Lengths are means in
 * milliseconds. */
struct mix {
  double work_ms, idle_ms;
  double woken_ms, woken_chance; /* stolen while the core wakes */
  double steal_chance;           /* 5 ms are stolen while it works */
};

static uint64_t random_state = 7;

static double uniform(void) { /* xorshift64* */
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return (double)(random_state * UINT64_C(2685821657736338717) >> 11) / 0x1p53;
}

/* Returns a random length in nanoseconds, with an exponential distribution. */
static double length(double mean_ms) {
  return -log(uniform() + 1e-12) * mean_ms * 1e6;
}

/* Plays one work and one idle sequence, and returns how long the core worked.
 * If `carry` is not NULL, the kernel takes the steal of an idle sequence off
 * the next one; otherwise it counts that steal as idle and as steal. */
static double play_sequence(struct fake_machine *fake, const struct mix *mix,
                            double *carry) {
  double *column = fake->cores[0].column_ns;
  double work = length(mix->work_ms), idle = length(mix->idle_ms);
  double steal = uniform() < mix->steal_chance ? length(5) : 0;
  double woken = uniform() < mix->woken_chance ? length(mix->woken_ms) : 0;
  double sequence = idle + woken, taken = 0;
  if (carry != NULL) {
    taken = fmin(*carry, sequence);
    *carry += woken - taken;
  }
  column[0] += work;
  column[3] += sequence - taken;
  column[7] += steal + woken;
  fake_machine_pause(fake, (uint64_t)(work + steal + sequence));
  return work;
}

TEST(the_truth_is_within_the_bounds_however_steal_is_taken_off_idle) {
  static const struct mix mixes[] = {
      {1, 9, 0.2, 1, 0},     {1, 9, 5, 0.1, 0},       {1, 30, 20, 0.2, 0},
      {0.3, 30, 50, 0.1, 0}, {0.3, 100, 100, 0.2, 0}, {5, 5, 20, 0.05, 0.05},
      {20, 2, 30, 0.1, 0.1},
  };
  for (size_t i = 0; i < 2 * sizeof mixes / sizeof mixes[0]; i++) {
    bool apart = i % 2 != 0;
    double carry = 0, all_ns = 0;
    PLAY(1);
    fake_machine_hypervisor(play.fake);
    if (apart)
      fake_machine_btf(play.fake, "idle_stealtime");
    play_open(&play);
    const struct core_totals begin = play_core(&play, 0)->total;
    int outside = 0;
    for (int window = 0; window < 4000; window++) {
      double begin_ns = (double)play.fake->monotonic_ns, work_ns = 0;
      while ((double)play.fake->monotonic_ns < begin_ns + 1.154e9)
        work_ns +=
            play_sequence(play.fake, &mixes[i / 2], apart ? &carry : NULL);
      double truth = work_ns / ((double)play.fake->monotonic_ns - begin_ns);
      assert_int_equal(play_sample(&play, 0), 0);
      assert_false(isnan(play_load(&play, 0)));
      struct bounds bounds = play_bounds(&play, 0);
      outside += truth < bounds.low || truth > bounds.high;
      all_ns += work_ns;
    }
    assert_int_equal(outside, 0);
    const struct core_totals *end = &play_core(&play, 0)->total;
    if (apart) /* no steal is left in the mean of a long time */
      assert_near(engine_load(&begin, end), all_ns / (end->wall - begin.wall),
                  0.001);
  }
}

TEST(the_lower_bound_of_a_counter_is_its_load) {
  PLAY_MPERF(1, 0.3);
  play.fake->cores[0].steal = 0.2;
  play_open_for(&play, 2);
  assert_near(play_load(&play, 0), 0.3, PLAY_EXACT);
  assert_near(play_low(&play, 0), 0.3, PLAY_EXACT);
}

static void give_rows(struct play *play, const char *rows) {
  fake_machine_file(play->fake, "/proc/stat", rows);
}

TEST(steal_of_a_window_is_at_most_its_wall_time_and_a_tick) {
  PLAY(1);
  give_rows(&play, "cpu0 0 0 0 0 0 0 0 0 0 0\n");
  play_open(&play);
  give_rows(&play, "cpu0 0 0 0 0 0 0 0 500 0 0\n"); /* steal is added late */
  play_sample(&play, FAKE_SECOND);
  const struct core_totals *total = &play_core(&play, 0)->total;
  assert_near(total->stat_steal - play.before[0].stat_steal, 1.01e9, 0);
  assert_near(play_load(&play, 0), 1, 0);
  assert_near(play_low(&play, 0), 0, 0);
}

/* In one of ten seconds, 8 ticks of steal are added while the core is idle. */
TEST(a_discarded_second_does_not_cost_the_interval_its_load) {
  for (int steal_apart = 0; steal_apart < 2; steal_apart++) {
    struct figures_play it = {0};
    play_start(&it.play, 1);
    if (steal_apart)
      fake_machine_btf(it.play.fake, "idle_stealtime");
    give_rows(&it.play, "cpu0 0 0 0 0 0 0 0 0 0 0\n");
    figures_play_start(&it);
    for (int second = 1; second <= 10; second++) {
      char row[64];
      snprintf(row, sizeof row, "cpu0 %d 0 0 %d 0 0 0 %d 0 0\n", 2 * second,
               98 * second, second >= 5 ? 8 : 0);
      give_rows(&it.play, row);
      figures_play_sample(&it, FAKE_SECOND);
    }
    struct snapshot *snapshot = figures_play_interval(&it);
    assert_near(snapshot->cores[0].load, 0.02, 0.009);
    figures_play_end(&it);
  }
}

static double hidden(double steal, double woken, double seen) {
  struct figures_play it = {0};
  start(&it.play, false);
  it.play.fake->cores[1].steal = steal;
  it.play.fake->cores[1].woken = woken;
  it.play.fake->cores[1].seen = seen;
  figures_play_start(&it);
  figures_play_seconds(&it, 10); /* then, no total is 0 */
  struct snapshot *snapshot = figures_play_seconds(&it, 10);
  double value = snapshot->cores[1].hidden;
  figures_play_end(&it);
  return value;
}

TEST(work_between_the_bounds_is_not_hidden) {
  /* The load is 0.25, and the lower bound of the load is 0.15. */
  assert_near(hidden(0.06, 0.04, 0.20), 0, 0);
  assert_near(hidden(0.06, 0.04, 0.16), 0, 0);
  assert_near(hidden(0.06, 0.04, 0.05), 0.10, 5e-3);
  assert_near(hidden(0.06, 0.04, 0.35), -0.10, 5e-3);
}

/* ---------------------------------------------------------------------------
 * BTF
 */

TEST(without_btf_the_kernel_counts_as_old) {
  struct play play;
  for (int kind = 0; kind < 4; kind++) {
    start(&play, false);
    if (kind == 1)
      fake_machine_fail(play.fake, "/sys/kernel/btf/vmlinux", EACCES);
    if (kind == 2)
      fake_machine_file(play.fake, "/sys/kernel/btf/vmlinux", "no BTF");
    if (kind == 3) /* cut off within the name */
      fake_machine_bytes(play.fake, "/sys/kernel/btf/vmlinux",
                         "\0idle_stealtime", 15);
    play_open(&play);
    play_sample(&play, 10 * FAKE_SECOND);
    assert_near(play_load(&play, 1), 0.25, PLAY_SECOND_ERROR / 10);
    play_end(&play);
  }
}

TEST(a_member_is_found_only_by_its_whole_name) {
  PLAY_WITH(start(&play, false));
  fake_machine_btf(play.fake, "idle not_idle_stealtime idle_stealtime_ns last");
  play_open(&play);
  play_sample(&play, 10 * FAKE_SECOND);
  assert_near(play_load(&play, 1), 0.25, PLAY_SECOND_ERROR / 10);
}

/* ---------------------------------------------------------------------------
 * Softirq
 */

TEST(a_kernel_that_counts_softirq_as_idle_is_reported_once) {
  static const struct {
    const char *members;
    double irq;
    bool flagged;
  } kernels[] = {
      {"rq", 0, false},
      {"prev_irq_time", 0, false},
      {"idle_dyntick", 0, true},
      {"idle_dyntick", 0.1, true},
      {"idle_dyntick prev_irq_time", 0,
       true}, /* interrupt time is switched off at boot */
      {"idle_dyntick prev_irq_time", 0.1, false},
  };
  for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
    PLAY(2);
    fake_machine_btf(play.fake, kernels[i].members);
    play.fake->cores[1].irq = kernels[i].irq;
    play.fake->cores[1].load = kernels[i].irq;
    play_open_for(&play, 30);
    assert_int_equal(engine_softirq_is_idle(play.engine), kernels[i].flagged);
    assert_int_equal(play_said(&play, "softirq"), kernels[i].flagged);
  }
}

TEST(softirqs_are_not_reported_if_counters_are_used) {
  PLAY_MPERF(2, 0.5);
  fake_machine_btf(play.fake, "idle_dyntick");
  play_open_for(&play, 30);
  assert_int_equal(play_said(&play, "softirq"), 0);
}
