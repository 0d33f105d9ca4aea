#include "unit.h"

#include "cycles/proof.h"

#define MS 1e6

TEST(a_spin_counts_from_95_percent_of_the_core) {
  assert_int_equal(proof_judge_spin(1, 0.95), PROOF_HALF_PASSED);
  assert_int_equal(proof_judge_spin(1, 0.9499), PROOF_HALF_NOT_RUN);
  assert_int_equal(proof_judge_spin(0, 0.9499), PROOF_HALF_NOT_RUN);
  assert_int_equal(proof_judge_spin(1, NAN), PROOF_HALF_NOT_RUN);
}

TEST(a_spinning_core_must_read_97_to_102_percent) {
  static const struct {
    double load;
    enum proof_half half;
  } spins[] = {{0.97, PROOF_HALF_PASSED},    {1, PROOF_HALF_PASSED},
               {1.02, PROOF_HALF_PASSED},    {0.9699, PROOF_HALF_FAILED},
               {1.0201, PROOF_HALF_FAILED},  {0, PROOF_HALF_FAILED},
               {1.74, PROOF_HALF_FAILED},    {-1, PROOF_HALF_FAILED},
               {INFINITY, PROOF_HALF_FAILED}};
  for (size_t i = 0; i < sizeof spins / sizeof spins[0]; i++)
    assert_int_equal(proof_judge_spin(spins[i].load, 1), spins[i].half);
}

/* A counter does not count time that the hypervisor stole, and the kernel does
 * not count it as CPU time of the thread. */
TEST(a_spinning_core_is_judged_by_the_share_that_ran) {
  assert_int_equal(proof_judge_spin(0.95, 0.95), PROOF_HALF_PASSED);
  assert_int_equal(proof_judge_spin(0.925, 0.95), PROOF_HALF_PASSED);
  assert_int_equal(proof_judge_spin(0.92, 0.95), PROOF_HALF_FAILED);
}

/* If the source could not be read, that half of the proof (spin or idle) counts
 * as not run. */
TEST(an_unknown_reading_proves_nothing) {
  assert_int_equal(proof_judge_spin(NAN, 1), PROOF_HALF_NOT_RUN);
  assert_int_equal(proof_judge_idle(NAN, 40 * MS, 45 * MS), PROOF_HALF_NOT_RUN);
}

TEST(idling_counts_from_30_ms) {
  assert_int_equal(proof_judge_idle(0.01, 30 * MS, 31 * MS), PROOF_HALF_PASSED);
  assert_int_equal(proof_judge_idle(0.01, 29.9 * MS, 31 * MS),
                   PROOF_HALF_NOT_RUN);
  assert_int_equal(proof_judge_idle(1, 29.9 * MS, 31 * MS), PROOF_HALF_NOT_RUN);
  assert_int_equal(proof_judge_idle(0.01, NAN, 31 * MS), PROOF_HALF_NOT_RUN);
  assert_int_equal(proof_judge_idle(0.01, 40 * MS, 0), PROOF_HALF_NOT_RUN);
}

/* A counter may continue while the core is idle: CPU_CYCLES of a Cortex-A57
 * continues in WFI, and MPERF of a physical core continues while a virtual core
 * is halted. */
TEST(a_counter_that_continues_while_idle_fails) {
  assert_int_equal(proof_judge_idle(1, 44 * MS, 45 * MS), PROOF_HALF_FAILED);
  assert_int_equal(proof_judge_idle(0.9, 44 * MS, 45 * MS), PROOF_HALF_FAILED);
}

TEST(the_load_must_fall_by_at_least_half_of_the_idle_share) {
  assert_int_equal(proof_judge_idle(0.6, 40 * MS, 50 * MS), PROOF_HALF_PASSED);
  assert_int_equal(proof_judge_idle(0.61, 40 * MS, 50 * MS), PROOF_HALF_FAILED);
  assert_int_equal(proof_judge_idle(0.5, 60 * MS, 50 * MS), PROOF_HALF_PASSED);
  assert_int_equal(proof_judge_idle(0.51, 60 * MS, 50 * MS), PROOF_HALF_FAILED);
}

TEST(two_passed_halves_prove_and_one_failed_half_refutes) {
  static const enum proof verdicts[3][3] = {
      /* The rows are results of the spin half: not run, passed, failed. The
       * columns are the same results of the idle half. */
      [PROOF_HALF_NOT_RUN] = {PROOF_UNPROVEN, PROOF_UNPROVEN, PROOF_REFUTED},
      [PROOF_HALF_PASSED] = {PROOF_UNPROVEN, PROOF_PROVEN, PROOF_REFUTED},
      [PROOF_HALF_FAILED] = {PROOF_REFUTED, PROOF_REFUTED, PROOF_REFUTED},
  };
  for (int spin = 0; spin < 3; spin++)
    for (int idle = 0; idle < 3; idle++)
      assert_int_equal(proof_judge_counter(spin, idle), verdicts[spin][idle]);
}

TEST(idle_time_that_shows_the_hidden_work_is_proven) {
  assert_int_equal(proof_judge_tick(0.86, 0.004, 0.87), PROOF_PROVEN);
  assert_int_equal(proof_judge_tick(0.86, 0.004, 0.51), PROOF_PROVEN);
}

TEST(idle_time_that_does_not_show_the_work_is_tick_sampled) {
  assert_int_equal(proof_judge_tick(0.86, 0.004, 0.01), PROOF_TICK_SAMPLED);
  assert_int_equal(proof_judge_tick(0.86, 0.004, 0.5), PROOF_TICK_SAMPLED);
}

/* The columns counted the work, so the probe failed to evade the tick. Even a
 * kernel that samples at the tick would then appear correct. */
TEST(a_probe_that_the_tick_saw_proves_nothing) {
  assert_int_equal(proof_judge_tick(0.86, 0.9, 0.87), PROOF_PENDING);
  assert_int_equal(proof_judge_tick(0.86, 0.5, 0.87), PROOF_PENDING);
}

/* It slept at each tick, so idle time must have grown. */
TEST(idle_time_that_stood_still_is_not_proven) {
  assert_int_equal(proof_judge_tick(0.86, 0, 1), PROOF_PENDING);
}

TEST(a_probe_that_hardly_ran_proves_nothing) {
  assert_int_equal(proof_judge_tick(0.59, 0, 0), PROOF_PENDING);
  assert_int_equal(proof_judge_tick(0.59, 0, 1), PROOF_PENDING);
  assert_int_equal(proof_judge_tick(0, 0, 0), PROOF_PENDING);
  assert_int_equal(proof_judge_tick(NAN, 0, 0), PROOF_PENDING);
}

/* The kernel of ppc64 and s390x counts at each change between user, kernel and
 * idle (CONFIG_VIRT_CPU_ACCOUNTING_NATIVE). */
TEST(columns_that_agree_with_the_truth_are_exact) {
  assert_true(proof_columns_are_exact(0.85, 0.85, 0.86));
  assert_false(proof_columns_are_exact(0.5, 0.5, 0.5));
  assert_false(proof_columns_are_exact(0.86, 1, 1));
  assert_false(proof_columns_are_exact(0.86, 0.5, 0.86));
  assert_false(proof_columns_are_exact(0.86, 0, 0));
  assert_false(proof_columns_are_exact(0.86, 0.86, 0.5));
  assert_false(proof_columns_are_exact(0.98, 0.99, 0.99));
  assert_false(proof_columns_are_exact(NAN, NAN, NAN));
}

TEST(a_probe_without_figures_proves_nothing) {
  assert_int_equal(proof_judge_tick(0.86, NAN, NAN), PROOF_PENDING);
  assert_int_equal(proof_judge_tick(0.86, NAN, 0.9), PROOF_PENDING);
}
