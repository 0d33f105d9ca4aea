/* Tests PMUs that cover only some cores, that guests of this host need, or that
 * cannot be opened for a while. */
#include "unit.h"

#include "cycles/engine_private.h"
#include "play.h"

#include <sched.h>

#define DEVICES "/sys/bus/event_source/devices/"

/* Proofs are run with this flag, so they open their counter and end
 * immediately. On a fake machine they have nothing to measure. */
static const atomic_bool cancelled = true;

static void fail_open(struct play *play, uint32_t type, uint64_t config,
                      int error) {
  struct fake_counter *counter =
      fake_machine_find_counter(play->fake, type, config, -1);
  assert_non_null(counter);
  counter->open_error = error;
}

/* ---------------------------------------------------------------------------
 * Failing opens
 */

TEST(a_failed_open_during_a_proof_is_retried) {
  static const int errors[] = {ENODEV, EOPNOTSUPP, EBUSY, ENOMEM, EACCES};
  for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
    PLAY_MPERF(2, 0.5);
    play.options.cancel = &cancelled;
    fail_open(&play, FAKE_MSR_TYPE, FAKE_MSR_MPERF, errors[i]);
    play_open(&play);
    engine_prove(play.engine);
    play_seconds(&play, 5);
    assert_int_equal(play_source(&play, 0), SOURCE_IDLE);
    fail_open(&play, FAKE_MSR_TYPE, FAKE_MSR_MPERF, 0);
    play_seconds(&play, 70);
    for (int core = 0; core < 2; core++)
      assert_measured(&play, core, SOURCE_MPERF, 0.5, PLAY_EXACT);
  }
}

TEST(a_proof_without_a_result_leaves_a_condemned_source_as_it_was) {
  PLAY_MPERF(1, 0.5);
  play.options.cancel = &cancelled;
  play_open(&play);
  struct source *mperf = &play.engine->sources[0];
  mperf->proof = PROOF_PROVEN;
  mperf->condemned_core = 0;
  strcpy(mperf->reason, "it missed work");
  engine_prove(play.engine);
  assert_int_equal(mperf->proof, PROOF_PROVEN);
  assert_string_equal(mperf->reason, "it missed work");
}

/* A proof measures the rates of a copy of the source. */
TEST(rates_come_from_the_proof) {
  PLAY_MPERF(1, 0.5);
  play.options.cancel = &cancelled;
  play_open(&play);
  struct source *mperf = &play.engine->sources[0];
  mperf->rate_low = 0.98;
  mperf->rate_high = 1.01;
  engine_prove_aside(play.engine);
  mperf->rate_low = mperf->rate_high = 0;
  engine_prove_end(play.engine);
  assert_near(mperf->rate_low, 0.98, 0);
  assert_near(mperf->rate_high, 1.01, 0);
}

TEST(a_counter_that_does_not_exist_is_not_tried_again) {
  PLAY_REF_CYCLES(2, 0.5);
  play.options.cancel = &cancelled;
  fail_open(&play, PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES, ENOENT);
  play_open(&play);
  engine_prove(play.engine);
  uint64_t opens =
      (uint64_t)fake_machine_find_counter(play.fake, PERF_TYPE_HARDWARE,
                                          PERF_COUNT_HW_REF_CPU_CYCLES, -1)
          ->opens;
  play_seconds(&play, 3600);
  assert_int_equal(fake_machine_find_counter(play.fake, PERF_TYPE_HARDWARE,
                                             PERF_COUNT_HW_REF_CPU_CYCLES, -1)
                       ->opens,
                   opens);
}

/* ---------------------------------------------------------------------------
 * Cores of several kinds
 */

static void add_event(struct play *play, const char *cpus) {
  play_add_cnt_cycles(play, "armv8_cortex_a72", 9, cpus);
  play->options.source = SOURCE_EVENT;
  fake_machine_load(play->fake, 0.3);
}

TEST(an_event_is_used_only_on_the_cores_of_its_pmu) {
  PLAY(4);
  add_event(&play, "2-3\n");
  play_open(&play);
  play_proof(&play, SOURCE_EVENT, PROOF_PROVEN);
  play_seconds(&play, 2);
  for (int core = 0; core < 4; core++) {
    assert_int_equal(play_source(&play, core),
                     core < 2 ? SOURCE_IDLE : SOURCE_EVENT);
    assert_near(play_load(&play, core), 0.3, PLAY_SECOND_ERROR);
  }
}

static bool may_use_two_cores(void) {
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof allowed, &allowed);
  return CPU_ISSET(0, &allowed) && CPU_ISSET(1, &allowed);
}

TEST(an_event_is_proven_on_a_core_of_its_pmu) {
  if (!may_use_two_cores()) {
    print_message("skipped: this process may not use cores 0 and 1\n");
    skip();
  }
  for (int own = 0; own < 2; own++) {
    PLAY(2);
    add_event(&play, own == 0 ? "0\n" : "1\n");
    play.options.cancel = &cancelled;
    fake_machine_find_counter(play.fake, 9, PLAY_CNT_CYCLES, -1)->core = own;
    play_open(&play);
    for (int i = 0; i < 3; i++)
      engine_prove(play.engine);
    assert_string_equal(engine_source_reason(play.engine, SOURCE_EVENT), "");
    play_proof(&play, SOURCE_EVENT, PROOF_PROVEN);
    play_seconds(&play, 2);
    assert_int_equal(play_source(&play, own), SOURCE_EVENT);
    assert_int_equal(play_source(&play, 1 - own), SOURCE_IDLE);
  }
}

static void start_hybrid(struct play *play, const char *atoms) {
  play_start(play, 4);
  fake_machine_hypervisor(play->fake);
  fake_machine_msr(play->fake, PLAY_TSC_HZ, false);
  fake_machine_file(play->fake, DEVICES "cpu_core/type", "4\n");
  fake_machine_file(play->fake, DEVICES "cpu_core/cpus", "0-1\n");
  fake_machine_file(play->fake, DEVICES "cpu_atom/type", "10\n");
  fake_machine_file(play->fake, DEVICES "cpu_atom/cpus", atoms);
  fake_machine_load(play->fake, 0.5);
  for (int core = 0; core < 4; core++) {
    uint64_t type = core < 2 ? 4 : 10;
    static const struct {
      uint64_t config;
      double hz;
    } events[] = {{PERF_COUNT_HW_REF_CPU_CYCLES, PLAY_TSC_HZ},
                  {PERF_COUNT_HW_CPU_CYCLES, 3e9},
                  {PERF_COUNT_HW_INSTRUCTIONS, 6e9}};
    for (size_t i = 0; i < 3; i++)
      fake_machine_counter(play->fake, PERF_TYPE_HARDWARE,
                           type << 32 | events[i].config, FAKE_PER_UNHALTED,
                           events[i].hz)
          ->core = core;
  }
}

/* The engine measures only core 0, so on core 1 only a proof opens counters. */
TEST(mperf_of_a_hybrid_is_proven_on_each_kind_of_core) {
  if (!may_use_two_cores()) {
    print_message("skipped: this process may not use cores 0 and 1\n");
    skip();
  }
  struct core_set measured;
  core_set_parse(&measured, "0");
  PLAY_MPERF(2, 0.5);
  fake_machine_file(play.fake, DEVICES "cpu_core/type", "4\n");
  fake_machine_file(play.fake, DEVICES "cpu_core/cpus", "0\n");
  fake_machine_file(play.fake, DEVICES "cpu_atom/type", "10\n");
  fake_machine_file(play.fake, DEVICES "cpu_atom/cpus", "1\n");
  fake_machine_counter(play.fake, FAKE_MSR_TYPE, FAKE_MSR_MPERF,
                       FAKE_PER_UNHALTED, PLAY_TSC_HZ)
      ->core = 1;
  play.options.cores = &measured;
  play.options.cancel = &cancelled;
  play_open(&play);
  engine_prove(play.engine);
  assert_true(
      fake_machine_find_counter(play.fake, FAKE_MSR_TYPE, FAKE_MSR_MPERF, 1)
          ->opens > 0);
}

/* The other core is idler. */
TEST(a_condemned_source_is_proven_where_it_was_condemned) {
  if (!may_use_two_cores()) {
    print_message("skipped: this process may not use cores 0 and 1\n");
    skip();
  }
  for (int condemned = 0; condemned < 2; condemned++) {
    PLAY_MPERF(2, 0.1);
    play.fake->cores[condemned].load = 0.2;
    fake_machine_counter(play.fake, FAKE_MSR_TYPE, FAKE_MSR_MPERF,
                         FAKE_PER_UNHALTED, PLAY_TSC_HZ)
        ->core = condemned;
    play.options.cancel = &cancelled;
    play_open_for(&play, 10);
    play.engine->sources[0].condemned_core = condemned;
    int *opens = &fake_machine_find_counter(play.fake, FAKE_MSR_TYPE,
                                            FAKE_MSR_MPERF, condemned)
                      ->opens;
    int before = *opens;
    engine_prove(play.engine);
    assert_int_equal(*opens, before + 1);
  }
}

/* Otherwise, the last core would be taken. */
TEST(no_source_is_proven_on_a_core_that_this_process_may_not_use) {
  if (!may_use_two_cores()) {
    print_message("skipped: this process may not use cores 0 and 1\n");
    skip();
  }
  cpu_set_t before, first;
  CPU_ZERO(&first);
  CPU_SET(0, &first);
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  assert_int_equal(sched_setaffinity(0, sizeof first, &first), 0);
  PLAY_MPERF(2, 0.1);
  struct fake_counter *counter = fake_machine_counter(
      play.fake, FAKE_MSR_TYPE, FAKE_MSR_MPERF, FAKE_PER_UNHALTED, PLAY_TSC_HZ);
  counter->core = 1;
  play.options.cancel = &cancelled;
  play_open(&play);
  int opens = counter->opens;
  engine_prove(play.engine);
  assert_int_equal(counter->opens, opens);
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(mperf_refuted_on_one_kind_of_core_is_used_on_the_other) {
  PLAY_WITH(start_hybrid(&play, "2-3\n"));
  fake_machine_plain_server(play.fake);
  fake_machine_msr(play.fake, PLAY_TSC_HZ, true);
  play_open_for(&play, 2);
  assert_int_equal(play_source(&play, 3), SOURCE_MPERF);
  play_proof_on(&play, SOURCE_MPERF, 3, PROOF_REFUTED);
  play_seconds(&play, 2);
  for (int core = 0; core < 4; core++)
    assert_int_equal(play_source(&play, core),
                     core < 2 ? SOURCE_MPERF : SOURCE_IDLE);
}

TEST(a_pmu_whose_list_of_cores_is_malformed_is_not_used) {
  PLAY_WITH(start_hybrid(&play, "2-3,x\n"));
  play_open_for(&play, 2);
  for (int core = 0; core < 4; core++)
    assert_int_equal(play_source(&play, core),
                     core < 2 ? SOURCE_REF_CYCLES : SOURCE_IDLE);
}

TEST(a_core_that_comes_online_uses_its_current_pmu) {
  PLAY_WITH(start_hybrid(&play, "2\n"));
  fake_machine_online(play.fake, 3, false);
  play_open_for(&play, 2);
  fake_machine_file(play.fake, DEVICES "cpu_atom/cpus", "2-3\n");
  fake_machine_online(play.fake, 3, true);
  play_seconds(&play, 2);
  assert_measured(&play, 3, SOURCE_REF_CYCLES, 0.5, PLAY_EXACT);
}
