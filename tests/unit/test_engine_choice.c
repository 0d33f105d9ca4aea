/* Tests which source a core uses. */
#include "unit.h"

#include "play.h"

#define DEVICES "/sys/bus/event_source/devices/"
#define PARTITIONS "/sys/fs/cgroup/cpuset.cpus.isolated"

/* ---------------------------------------------------------------------------
 * Choosing a source
 */

TEST(bare_metal_is_measured_by_mperf) {
  PLAY_MPERF(4, 0);
  fake_machine_ref_cycles(play.fake, PLAY_TSC_HZ);
  for (int core = 0; core < 4; core++)
    play.fake->cores[core].load = core / 3.0;
  play_open_for(&play, 2);
  for (int core = 0; core < 4; core++)
    assert_measured(&play, core, SOURCE_MPERF, core / 3.0, PLAY_EXACT);
}

TEST(in_a_virtual_machine_ref_cycles_are_used) {
  PLAY_REF_CYCLES(2, 0.37);
  play_open_for(&play, 2);
  assert_measured(&play, 1, SOURCE_REF_CYCLES, 0.37, PLAY_EXACT);
}

/* In a virtual machine, MPERF may belong to the physical core, which does not
 * halt when the virtual core does. */
TEST(under_a_hypervisor_auto_does_not_choose_mperf) {
  PLAY_MPERF(2, 0.5);
  fake_machine_hypervisor(play.fake);
  play_open_for(&play, 2);
  assert_int_equal(play_source(&play, 0), SOURCE_IDLE);
  assert_non_null(
      strstr(engine_source_reason(play.engine, SOURCE_MPERF), "hypervisor"));
}

TEST(under_a_hypervisor_mperf_serves_if_it_is_named_and_proven) {
  PLAY_MPERF(2, 0.5);
  fake_machine_hypervisor(play.fake);
  play.options.source = SOURCE_MPERF;
  play_open_for(&play, 2);
  assert_int_equal(play_source(&play, 0), SOURCE_IDLE);
  play_proof(&play, SOURCE_MPERF, PROOF_UNPROVEN);
  play_seconds(&play, 2);
  assert_int_equal(play_source(&play, 0), SOURCE_IDLE);
  play_proof(&play, SOURCE_MPERF, PROOF_PROVEN);
  play_seconds(&play, 2);
  assert_measured(&play, 0, SOURCE_MPERF, 0.5, PLAY_EXACT);
}

TEST(on_bare_metal_a_pending_or_unproven_counter_is_used) {
  PLAY_MPERF(1, 0.5);
  play_open_for(&play, 2);
  assert_int_equal(play_core(&play, 0)->proof, PROOF_PENDING);
  play_proof(&play, SOURCE_MPERF, PROOF_UNPROVEN);
  play_seconds(&play, 1);
  assert_int_equal(play_source(&play, 0), SOURCE_MPERF);
  assert_int_equal(play_core(&play, 0)->proof, PROOF_UNPROVEN);
}

TEST(a_refuted_counter_is_never_used) {
  PLAY_MPERF(2, 0.5);
  play_open(&play);
  play_proof(&play, SOURCE_MPERF, PROOF_REFUTED);
  play_seconds(&play, 2000);
  assert_int_equal(play_source(&play, 0), SOURCE_IDLE);
  assert_int_equal(fake_machine_descriptors(play.fake, -1), 0);
  assert_int_equal(play_said(&play, "mperf", "idle"), 1);
}

/* A host may run guests at any time, which a counter of the core can keep from
 * starting. */
TEST(on_bare_metal_ref_cycles_must_be_named) {
  for (int named = 0; named < 2; named++) {
    PLAY(1);
    fake_machine_msr(play.fake, PLAY_TSC_HZ, false);
    fake_machine_ref_cycles(play.fake, PLAY_TSC_HZ);
    if (named)
      play.options.source = SOURCE_REF_CYCLES;
    play_open_for(&play, 2);
    assert_int_equal(play_source(&play, 0),
                     named ? SOURCE_REF_CYCLES : SOURCE_IDLE);
  }
}

TEST(if_the_source_idle_is_named_no_counter_is_opened) {
  PLAY_MPERF(2, 0.5);
  play.options.source = SOURCE_IDLE;
  play_open_for(&play, 2);
  assert_int_equal(play_source(&play, 0), SOURCE_IDLE);
  assert_int_equal(play.fake->perf_opens, 0);
}

TEST(a_warning_names_a_configured_source_that_is_unavailable) {
  PLAY(2);
  play.options.source = SOURCE_MPERF;
  play_open_for(&play, 3);
  assert_int_equal(play_source(&play, 0), SOURCE_IDLE);
  assert_int_equal(play_said(&play, "mperf", "msr"), 1);
}

TEST(on_x86_the_source_event_is_unavailable) {
  PLAY(2);
  play.options.source = SOURCE_EVENT;
  play_open(&play);
  assert_int_equal(play_said(&play, "no PMU of this machine has cnt_cycles"),
                   1);
  assert_int_equal(play_source(&play, 0), SOURCE_IDLE);
}

/* ---------------------------------------------------------------------------
 * Hybrid processors
 */

static void start_hybrid(struct play *play) {
  play_start(play, 4);
  fake_machine_hypervisor(play->fake);
  fake_machine_msr(play->fake, PLAY_TSC_HZ, false);
  fake_machine_file(play->fake, DEVICES "cpu_core/type", "4\n");
  fake_machine_file(play->fake, DEVICES "cpu_core/cpus", "0-1\n");
  fake_machine_file(play->fake, DEVICES "cpu_atom/type", "10\n");
  fake_machine_file(play->fake, DEVICES "cpu_atom/cpus", "2-3\n");
  static const struct {
    uint64_t pmu;
    int core;
  } counters[] = {{4, 0}, {4, 1}, {10, 2}, {10, 3}};
  for (size_t i = 0; i < 4; i++)
    fake_machine_counter(play->fake, PERF_TYPE_HARDWARE,
                         counters[i].pmu << 32 | PERF_COUNT_HW_REF_CPU_CYCLES,
                         FAKE_PER_UNHALTED, PLAY_TSC_HZ)
        ->core = counters[i].core;
}

TEST(each_core_of_a_hybrid_is_read_through_its_own_pmu) {
  PLAY_WITH(start_hybrid(&play));
  fake_machine_load(play.fake, 0.61);
  play_open_for(&play, 2);
  for (int core = 0; core < 4; core++)
    assert_measured(&play, core, SOURCE_REF_CYCLES, 0.61, PLAY_EXACT);
}

/* On a machine with cores of several kinds, an event of one kind can also be
 * opened on the other kind, but counts something else there. */
TEST(no_core_of_a_hybrid_is_read_through_the_pmu_of_another) {
  PLAY(4);
  fake_machine_hypervisor(play.fake);
  fake_machine_msr(play.fake, PLAY_TSC_HZ, false);
  fake_machine_file(play.fake, DEVICES "cpu_core/type", "4\n");
  fake_machine_file(play.fake, DEVICES "cpu_core/cpus", "0-1\n");
  fake_machine_counter(play.fake, PERF_TYPE_HARDWARE,
                       UINT64_C(4) << 32 | PERF_COUNT_HW_REF_CPU_CYCLES,
                       FAKE_PER_UNHALTED, PLAY_TSC_HZ);
  fake_machine_load(play.fake, 0.5);
  play_open_for(&play, 2);
  assert_int_equal(play_source(&play, 1), SOURCE_REF_CYCLES);
  assert_int_equal(play_source(&play, 2), SOURCE_IDLE);
  assert_int_equal(play_source(&play, 3), SOURCE_IDLE);
}

TEST(a_failed_pmu_of_a_hybrid_does_not_affect_the_other) {
  PLAY_WITH(start_hybrid(&play));
  for (int core = 2; core < 4; core++)
    fake_machine_find_counter(play.fake, PERF_TYPE_HARDWARE,
                              UINT64_C(10) << 32 | PERF_COUNT_HW_REF_CPU_CYCLES,
                              core)
        ->open_error = ENOENT;
  play_open_for(&play, 2);
  assert_int_equal(play_source(&play, 0), SOURCE_REF_CYCLES);
  assert_int_equal(play_source(&play, 1), SOURCE_REF_CYCLES);
  assert_int_equal(play_source(&play, 2), SOURCE_IDLE);
  assert_int_equal(play_source(&play, 3), SOURCE_IDLE);
}

/* ---------------------------------------------------------------------------
 * Isolated cores
 */

static void isolate(struct play *play, const char *list) {
  fake_machine_file(play->fake, "/sys/devices/system/cpu/isolated", list);
}

TEST(isolated_cores_are_not_disturbed) {
  PLAY_MPERF(2, 0.5);
  isolate(&play, "1\n");
  play_open_for(&play, 3);
  assert_int_equal(play_source(&play, 0), SOURCE_MPERF);
  assert_int_equal(fake_machine_descriptors(play.fake, 0), 3);
  assert_int_equal(play_source(&play, 1), SOURCE_IDLE);
  assert_true(core_set_has(&engine_topology(play.engine)->isolated, 1));
  assert_int_equal(fake_machine_descriptors(play.fake, 1), 0);
  assert_near(play_load(&play, 1), 0.5, PLAY_SECOND_ERROR);
}

TEST(nohz_full_cores_are_not_disturbed) {
  PLAY_MPERF(2, 0.5);
  fake_machine_file(play.fake, "/sys/devices/system/cpu/nohz_full", "1\n");
  play_open_for(&play, 3);
  assert_int_equal(play_source(&play, 1), SOURCE_IDLE);
  assert_int_equal(fake_machine_descriptors(play.fake, 1), 0);
}

TEST(isolated_cores_are_read_by_hardware_if_configured) {
  PLAY_MPERF(2, 0.4);
  isolate(&play, "1\n");
  play.options.isolated_cores = ISOLATED_CORES_HARDWARE;
  play_open_for(&play, 2);
  assert_measured(&play, 1, SOURCE_MPERF, 0.4, PLAY_EXACT);
  assert_true(core_set_has(&engine_topology(play.engine)->isolated, 1));
}

TEST(isolated_cores_can_be_skipped) {
  PLAY_MPERF(2, 0.5);
  isolate(&play, "1\n");
  play.options.isolated_cores = ISOLATED_CORES_SKIP;
  play_open_for(&play, 2);
  assert_int_equal(play_source(&play, 1), SOURCE_NONE);
  assert_nan(play_load(&play, 1));
  assert_int_equal(fake_machine_descriptors(play.fake, 1), 0);
  assert_true(engine_has_source(play.engine));
}

TEST(isolated_partitions_of_cgroups_are_not_disturbed) {
  PLAY_MPERF(2, 0.5);
  fake_machine_file(play.fake, PARTITIONS, "1\n");
  play_open_for(&play, 3);
  assert_true(core_set_has(&engine_topology(play.engine)->isolated, 1));
  assert_int_equal(play_source(&play, 1), SOURCE_IDLE);
  assert_int_equal(fake_machine_descriptors(play.fake, 1), 0);
}

TEST(a_core_isolated_later_is_left_undisturbed_within_a_minute) {
  PLAY_MPERF(2, 0.5);
  play_open_for(&play, 3);
  fake_machine_file(play.fake, PARTITIONS, "1\n");
  play_seconds(&play, 60);
  assert_int_equal(play_source(&play, 1), SOURCE_IDLE);
  assert_int_equal(fake_machine_descriptors(play.fake, 1), 0);
  fake_machine_file(play.fake, PARTITIONS, "\n");
  play_seconds(&play, 61);
  assert_int_equal(play_source(&play, 1), SOURCE_MPERF);
  assert_int_equal(fake_machine_descriptors(play.fake, 1), 3);
  assert_near(play_load(&play, 1), 0.5, PLAY_EXACT);
}

TEST(cores_that_an_option_names_are_not_disturbed) {
  PLAY_MPERF(3, 0.5);
  isolate(&play, "1\n");
  core_set_add(&play.options.also_isolated, 2);
  play_open_for(&play, 100);
  assert_int_equal(play_source(&play, 0), SOURCE_MPERF);
  for (int core = 1; core < 3; core++) {
    assert_true(core_set_has(&engine_topology(play.engine)->isolated, core));
    assert_int_equal(play_source(&play, core), SOURCE_IDLE);
    assert_int_equal(fake_machine_descriptors(play.fake, core), 0);
  }
}

TEST(cores_that_are_named_as_isolated_but_absent_are_said) {
  struct play play;
  play_start(&play, 2);
  fake_machine_online(play.fake, 0, false);
  core_set_parse(&play.options.also_isolated, "0-1,64");
  play_open_for(&play, 3);
  assert_int_equal(play_said(&play, "not online: 0,64", "AlsoIsolated"), 1);
  play_end(&play);
}
