/* Tests a machine without a TSC, whose PMUs count cycles of the system counter.
 */
#include "unit.h"

#include "play.h"

TEST(auto_uses_cnt_cycles_once_it_is_proven) {
  PLAY_ARM64(2, 0.4);
  play_open_for(&play, 2);
  assert_int_equal(play_source(&play, 1), SOURCE_IDLE);
  play_proof(&play, SOURCE_EVENT, PROOF_PROVEN);
  play_seconds(&play, 2);
  assert_measured(&play, 1, SOURCE_EVENT, 0.4, PLAY_EXACT);
}

TEST(the_source_event_is_cnt_cycles) {
  PLAY_ARM64(2, 0.4);
  play.options.source = SOURCE_EVENT;
  play_open(&play);
  play_proof(&play, SOURCE_EVENT, PROOF_PROVEN);
  play_seconds(&play, 2);
  assert_measured(&play, 1, SOURCE_EVENT, 0.4, PLAY_EXACT);
  assert_int_equal(play.fake->last_attr.config, PLAY_CNT_CYCLES);
}

TEST(cnt_cycles_has_its_counter_for_itself) {
  PLAY_ARM64(2, 0.4);
  play_open(&play);
  play_proof(&play, SOURCE_EVENT, PROOF_PROVEN);
  play_seconds(&play, 2);
  assert_int_equal(play.fake->last_attr.pinned, 1);
}

TEST(each_pmu_with_cnt_cycles_is_used_on_its_own_cores) {
  PLAY_WITH(play_start(&play, 6));
  play_add_cnt_cycles(&play, "armv8_cortex_a510", 8, "0-1\n");
  play_add_cnt_cycles(&play, "armv8_cortex_a710", 9, "2-3\n");
  fake_machine_load(play.fake, 0.4);
  for (size_t i = 0; i < 2; i++)
    for (int core = 0; core < 6; core++) {
      struct fake_counter *counter =
          fake_machine_counter(play.fake, (uint32_t)(8 + i), PLAY_CNT_CYCLES,
                               FAKE_PER_UNHALTED, PLAY_SYSTEM_COUNTER_HZ);
      counter->core = core;
      counter->open_error = core / 2 == (int)i ? 0 : ENOENT;
    }
  play_open(&play);
  play_proof(&play, SOURCE_EVENT, PROOF_PROVEN);
  play_seconds(&play, 2);
  for (int core = 0; core < 6; core++)
    assert_int_equal(play_source(&play, core),
                     core < 4 ? SOURCE_EVENT : SOURCE_IDLE);
  assert_near(play_load(&play, 3), 0.4, PLAY_EXACT);
}

TEST(cnt_cycles_is_never_divided_by_a_tsc) {
  PLAY_ARM64(2, 0.42);
  fake_machine_msr(play.fake, PLAY_TSC_HZ, false);
  play.options.source = SOURCE_EVENT;
  play_open(&play);
  play_proof(&play, SOURCE_EVENT, PROOF_PROVEN);
  play_seconds(&play, 2);
  assert_near(play_load(&play, 1), 0.42, PLAY_EXACT);
}

TEST(without_cnt_cycles_idle_is_used) {
  PLAY_ARM64(1, 0.4);
  fake_machine_file(
      play.fake,
      "/sys/bus/event_source/devices/armv8_pmuv3_0/events/cnt_cycles", "");
  play_open_for(&play, 2);
  assert_int_equal(play_source(&play, 0), SOURCE_IDLE);
  assert_string_equal(engine_source_reason(play.engine, SOURCE_EVENT),
                      "no PMU of this machine has cnt_cycles");
  assert_string_not_equal(engine_source_reason(play.engine, SOURCE_REF_CYCLES),
                          "");
}
