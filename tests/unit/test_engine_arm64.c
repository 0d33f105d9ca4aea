/* Tests a machine without a TSC, whose PMUs count cycles of the system counter.
 */
#include "unit.h"

#include "play.h"

#define PMUS "/sys/bus/event_source/devices/"
#define COUNTER_HZ 1e9
#define PMU_TYPE 8
#define CNT_CYCLES 0x4004

static void add_pmu(struct play *play, const char *name, int type,
                    const char *cpus, bool has_cnt_cycles) {
  struct fake_machine *fake = play->fake;
  char number[16];
  snprintf(number, sizeof number, "%d\n", type);
  fake_machine_filef(fake, number, PMUS "%s/type", name);
  fake_machine_filef(fake, cpus, PMUS "%s/cpus", name);
  fake_machine_filef(fake, "config:0-15\n", PMUS "%s/format/event", name);
  if (!has_cnt_cycles)
    return;
  fake_machine_filef(fake, "event=0x4004\n", PMUS "%s/events/cnt_cycles", name);
  fake_machine_counter(fake, (uint32_t)type, CNT_CYCLES, FAKE_PER_UNHALTED,
                       COUNTER_HZ);
}

static void start(struct play *play, int cores) {
  play_start(play, cores);
  fake_machine_file(play->fake, "/proc/cpuinfo",
                    "processor\t: 0\nFeatures\t: fp asimd evtstrm\n");
  fake_machine_file(
      play->fake,
      "/sys/devices/system/clocksource/clocksource0/current_clocksource",
      "arch_sys_counter\n");
  play->fake->machine.system_counter_hz = COUNTER_HZ;
  fake_machine_load(play->fake, 0.4);
}

TEST(auto_uses_cnt_cycles_once_it_is_proven) {
  PLAY_WITH(start(&play, 2));
  add_pmu(&play, "armv8_pmuv3_0", PMU_TYPE, "0-1\n", true);
  play_open_for(&play, 2);
  assert_int_equal(play_source(&play, 1), SOURCE_IDLE);
  play_proof(&play, SOURCE_EVENT, PROOF_PROVEN);
  play_seconds(&play, 2);
  assert_measured(&play, 1, SOURCE_EVENT, 0.4, PLAY_EXACT);
}

TEST(the_source_event_without_an_event_is_cnt_cycles) {
  PLAY_WITH(start(&play, 2));
  add_pmu(&play, "armv8_pmuv3_0", PMU_TYPE, "0-1\n", true);
  play.options.source = SOURCE_EVENT;
  play_open(&play);
  play_proof(&play, SOURCE_EVENT, PROOF_PROVEN);
  play_seconds(&play, 2);
  assert_measured(&play, 1, SOURCE_EVENT, 0.4, PLAY_EXACT);
}

TEST(each_pmu_with_cnt_cycles_is_used_on_its_own_cores) {
  PLAY_WITH(start(&play, 6));
  add_pmu(&play, "armv8_cortex_a510", 8, "0-1\n", true);
  add_pmu(&play, "armv8_cortex_a710", 9, "2-3\n", true);
  add_pmu(&play, "armv8_cortex_a76", 10, "4-5\n", false);
  for (size_t i = 0; i < 2; i++)
    for (int core = 0; core < 6; core++) {
      struct fake_counter *counter =
          fake_machine_counter(play.fake, (uint32_t)(8 + i), CNT_CYCLES,
                               FAKE_PER_UNHALTED, COUNTER_HZ);
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

TEST(a_configured_event_comes_before_cnt_cycles) {
  PLAY_WITH(start(&play, 1));
  add_pmu(&play, "armv8_pmuv3_0", PMU_TYPE, "0\n", true);
  fake_machine_counter(play.fake, PMU_TYPE, 0x11, FAKE_PER_UNHALTED, 5e8);
  play.options.event = "armv8_pmuv3_0/event=0x11/";
  play.options.base_frequency_hz = 5e8;
  play_open_for(&play, 2);
  assert_int_equal(play.fake->last_attr.config, 0x11);
  assert_near(play_load(&play, 0), 0.4, PLAY_EXACT);
}

TEST(ref_cycles_do_not_exist_and_need_no_frequency) {
  PLAY_WITH(start(&play, 1));
  add_pmu(&play, "armv8_pmuv3_0", PMU_TYPE, "0\n", false);
  play_open(&play);
  const char *reason = engine_source_reason(play.engine, SOURCE_REF_CYCLES);
  assert_null(strstr(reason, "base-frequency"));
  assert_string_not_equal(reason, "");
}

TEST(without_cnt_cycles_idle_is_used) {
  PLAY_WITH(start(&play, 1));
  add_pmu(&play, "armv8_pmuv3_0", PMU_TYPE, "0\n", false);
  play_open_for(&play, 2);
  assert_int_equal(play_source(&play, 0), SOURCE_IDLE);
  assert_string_equal(engine_source_reason(play.engine, SOURCE_EVENT),
                      "no event is configured");
}
