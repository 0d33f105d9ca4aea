/* Tests cores that go offline and come back online, including those that do
 * both between two samples. */
#include "unit.h"

#include "play.h"

TEST(an_offline_core_has_no_load_and_no_descriptor) {
  PLAY_MPERF(4, 0.5);
  play_open_for(&play, 2);
  fake_machine_online(play.fake, 2, false);
  play_seconds(&play, 1);
  assert_false(play_core(&play, 2)->online);
  assert_nan(play_load(&play, 2));
  assert_int_equal(play_source(&play, 2), SOURCE_NONE);
  assert_int_equal(fake_machine_descriptors(play.fake, 2), 0);
}

TEST(an_offline_core_does_not_affect_others) {
  PLAY_MPERF(4, 0.5);
  play_open_for(&play, 2);
  uint64_t epoch = play_core(&play, 0)->total.epoch;
  uint64_t stat_epoch = play_core(&play, 0)->total.stat_epoch;
  fake_machine_online(play.fake, 2, false);
  play_seconds(&play, 3);
  fake_machine_online(play.fake, 2, true);
  play_seconds(&play, 3);
  for (int core = 0; core < 4; core++)
    if (core != 2) {
      assert_int_equal(play_core(&play, core)->total.epoch, epoch);
      assert_int_equal(play_core(&play, core)->total.stat_epoch, stat_epoch);
      assert_near(play_load(&play, core), 0.5, PLAY_EXACT);
    }
}

TEST(a_core_that_comes_online_is_measured_from_its_second_sample_on) {
  PLAY_MPERF(4, 0.5);
  fake_machine_online(play.fake, 1, false);
  play_open(&play);
  assert_null(play_core(&play, 1));
  play_seconds(&play, 2);
  fake_machine_online(play.fake, 1, true);
  play_seconds(&play, 1);
  assert_true(play_core(&play, 1)->online);
  play_seconds(&play, 1);
  assert_measured(&play, 1, SOURCE_MPERF, 0.5, PLAY_EXACT);
}

/* The core is online at both samples, so the list of online cores does not show
 * that it was away. */
TEST(a_core_that_was_away_between_two_samples_loses_only_that_window) {
  PLAY_MPERF(2, 0.5);
  play_open_for(&play, 2);
  uint64_t discarded = play_counts(&play)->windows_discarded;
  fake_machine_run(play.fake, FAKE_SECOND / 4);
  fake_machine_online(play.fake, 1, false);
  fake_machine_run(play.fake, FAKE_SECOND / 4);
  fake_machine_online(play.fake, 1, true);
  play_sample(&play, FAKE_SECOND / 2);
  assert_nan(play_load(&play, 1));
  assert_near(play_load(&play, 0), 0.5, PLAY_EXACT);
  assert_int_equal(play_counts(&play)->windows_discarded, discarded + 1);
  play_seconds(&play, 1);
  assert_near(play_load(&play, 1), 0.5, PLAY_EXACT);
}

TEST(a_core_that_was_away_between_two_samples_loses_its_idle_window_too) {
  PLAY(2);
  fake_machine_load(play.fake, 0.5);
  play_open_for(&play, 2);
  fake_machine_online(play.fake, 1, false);
  fake_machine_run(play.fake, FAKE_SECOND / 2);
  fake_machine_online(play.fake, 1, true);
  play_sample(&play, FAKE_SECOND / 2);
  assert_nan(play_load(&play, 1));
  assert_near(play_load(&play, 0), 0.5, PLAY_SECOND_ERROR);
  play_seconds(&play, 1);
  assert_near(play_load(&play, 1), 0.5, PLAY_SECOND_ERROR);
}

/* The machine does not tell which directories of sysfs are new. */
static uint64_t no_identity(void *context, const char *path) {
  (void)context, (void)path;
  return 0;
}

/* A group is dissolved while its core is offline; one with a single event can
 * still be read, but no longer counts. */
TEST(a_group_that_stopped_with_its_core_is_opened_again) {
  for (int is_single = 0; is_single < 2; is_single++) {
    enum source_kind source = is_single ? SOURCE_EVENT : SOURCE_MPERF;
    PLAY_WITH(is_single ? play_start_cnt_cycles(&play, 2, 0.5)
                        : play_start_mperf(&play, 2, 0.5));
    play.fake->machine.identity = no_identity;
    play_open(&play);
    if (is_single)
      play_proof(&play, SOURCE_EVENT, PROOF_PROVEN);
    play_seconds(&play, 2);
    assert_measured(&play, 1, source, 0.5, PLAY_EXACT);
    fake_machine_online(play.fake, 1, false);
    fake_machine_online(play.fake, 1, true);
    play_seconds(&play, 1);
    assert_measured(&play, 1, SOURCE_IDLE, 0.5, PLAY_SECOND_ERROR);
    assert_near(play_load(&play, 0), 0.5, PLAY_EXACT);
    play_seconds(&play, 2);
    assert_measured(&play, 1, source, 0.5, PLAY_EXACT);
  }
}

TEST(uevents_of_other_devices_restart_no_core) {
  PLAY_MPERF(4, 0.5);
  play_open(&play);
  for (int second = 0; second < 10; second++) {
    play.fake->uevents += 1000;
    play_seconds(&play, 1);
    for (int core = 0; core < 4; core++)
      assert_near(play_load(&play, core), 0.5, PLAY_EXACT);
  }
}

/* LXCFS numbers its directories anew when the kernel has forgotten them. */
static uint64_t another_identity(void *context, const char *path) {
  static uint64_t last;
  (void)context, (void)path;
  return ++last;
}

TEST(directories_that_lxcfs_numbers_anew_restart_no_core) {
  PLAY_MPERF(2, 0.5);
  play.fake->lxcfs = true;
  play.fake->machine.identity = another_identity;
  play_open_for(&play, 1);
  for (int second = 0; second < 10; second++) {
    play.fake->uevents++;
    play_seconds(&play, 1);
    for (int core = 0; core < 2; core++)
      assert_near(play_load(&play, core), 0.5, PLAY_EXACT);
  }
}

TEST(a_core_that_is_not_selected_changes_nothing) {
  struct core_set set;
  PLAY_MPERF(4, 0.5);
  core_set_parse(&set, "0-1");
  play.options.cores = &set;
  play_open_for(&play, 2);
  fake_machine_online(play.fake, 3, false);
  play_seconds(&play, 1);
  assert_near(play_load(&play, 0), 0.5, PLAY_EXACT);
  assert_near(play_load(&play, 1), 0.5, PLAY_EXACT);
  assert_null(play_core(&play, 3));
}

TEST(where_uevents_are_not_counted_cores_that_bounce_are_noticed) {
  PLAY(2);
  play.fake->hotplug_events = false;
  fake_machine_load(play.fake, 0.1);
  play_open_for(&play, 3);
  fake_machine_online(play.fake, 1, false);
  play_seconds(&play, 1);
  assert_false(play_core(&play, 1)->online);
  fake_machine_online(play.fake, 1, true);
  play_seconds(&play, 2);
  assert_near(play_load(&play, 1), 0.1, PLAY_SECOND_ERROR);
  fake_machine_run(play.fake, 50 * FAKE_MS);
  fake_machine_online(play.fake, 1, false);
  fake_machine_run(play.fake, 900 * FAKE_MS);
  fake_machine_online(play.fake, 1, true);
  play_sample(&play, 50 * FAKE_MS);
  assert_nan(play_load(&play, 1));
  assert_near(play_load(&play, 0), 0.1, PLAY_SECOND_ERROR);
  play_seconds(&play, 1);
  assert_near(play_load(&play, 1), 0.1, PLAY_SECOND_ERROR);
}

/* It bounces again right after it was first seen. */
TEST(a_core_that_is_new_and_bounces_is_noticed) {
  PLAY(2);
  fake_machine_load(play.fake, 0.1);
  fake_machine_online(play.fake, 1, false);
  play_open_for(&play, 3);
  fake_machine_online(play.fake, 1, true);
  play_seconds(&play, 1);
  fake_machine_online(play.fake, 1, false);
  fake_machine_run(play.fake, 900 * FAKE_MS);
  fake_machine_online(play.fake, 1, true);
  play_sample(&play, 100 * FAKE_MS);
  assert_nan(play_load(&play, 1));
}

TEST(totals_never_decrease_while_cores_come_and_go) {
  PLAY_MPERF(8, 0.5);
  play_open(&play);
  uint32_t random = 1;
  for (int i = 0; i < 2000; i++) {
    random = random * 1664525 + 1013904223;
    int core = 1 + (int)(random >> 16) % 7;
    if (random & 0x100)
      fake_machine_online(play.fake, core, !play.fake->cores[core].online);
    play.fake->hotplug_events = (random & 0x200) != 0;
    assert_int_equal(play_sample(&play, 100 * FAKE_MS), 0);
    for (core = 0; core < 8; core++) {
      const struct core *it = play_core(&play, core);
      if (it == NULL)
        continue;
      assert_int_equal(it->online, play.fake->cores[core].online);
      assert_true(it->total.wall >= play.before[core].wall);
      assert_true(it->total.unhalted >= play.before[core].unhalted);
      assert_true(it->total.epoch >= play.before[core].epoch);
      double load = play_load(&play, core);
      if (!isnan(load))
        assert_near(load, 0.5, PLAY_EXACT);
    }
    assert_near(play_load(&play, 0), 0.5, PLAY_EXACT);
  }
  assert_true(fake_machine_descriptors(play.fake, -1) <= 24);
}

/* Core 2 goes offline after sysfs is read and before /proc/stat is read. */
static bool goes_now;
static ssize_t (*plain_read_file)(void *context, const char *path, char *buffer,
                                  size_t size);

static ssize_t core_2_goes(void *context, const char *path, char *buffer,
                           size_t size) {
  if (goes_now && strcmp(path, "/proc/stat") == 0) {
    fake_machine_online(context, 2, false);
    goes_now = false;
  }
  return plain_read_file(context, path, buffer, size);
}

TEST(a_core_that_goes_offline_during_a_sample_has_no_load) {
  PLAY(3);
  plain_read_file = play.fake->machine.read_file;
  play.fake->machine.read_file = core_2_goes;
  goes_now = false;
  fake_machine_load(play.fake, 0.5);
  play_open_for(&play, 2);
  goes_now = true;
  play_seconds(&play, 1);
  assert_false(play_core(&play, 2)->online);
  assert_near(play_load(&play, 0), 0.5, PLAY_SECOND_ERROR);
  assert_int_equal(play_said(&play, "withheld"), 0);
}

TEST(a_list_of_online_cores_that_vanishes_changes_nothing) {
  PLAY_MPERF(2, 0.5);
  play_open_for(&play, 2);
  fake_machine_fail(play.fake, "/sys/devices/system/cpu/online", EACCES);
  play_seconds(&play, 2);
  assert_near(play_load(&play, 0), 0.5, PLAY_EXACT);
  assert_near(play_load(&play, 1), 0.5, PLAY_EXACT);
  fake_machine_file(play.fake, "/sys/devices/system/cpu/online", "0-\n");
  play_seconds(&play, 2);
  assert_near(play_load(&play, 1), 0.5, PLAY_EXACT);
}
