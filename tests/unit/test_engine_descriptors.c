/* Tests an engine whose counters need more descriptors than the process may
 * open. */
#include "unit.h"

#include "play.h"

#include "base/descriptors.h"

#define CORES 256

/* Sets up a process like collectd: its limit is 1024 descriptors, and other
 * plugins have opened 500. */
static void start(struct play *play) {
  play_start_mperf(play, CORES, 0.25);
  play->fake->limit = 1024;
  play->fake->others = 500;
  play->options.frequency = false;
}

static int cores_on(const struct play *play, enum source_kind source) {
  int count = 0;
  for (int core = 0; core < CORES; core++)
    count += play_source(play, core) == source;
  return count;
}

TEST(a_core_needs_two_descriptors_unless_frequency_is_wanted) {
  for (int frequency = 0; frequency < 2; frequency++) {
    PLAY_MPERF(4, 0.5);
    play.options.frequency = frequency;
    play_open_for(&play, 2);
    assert_int_equal(fake_machine_descriptors(play.fake, -1),
                     4 * (2 + frequency));
    assert_near(play_load(&play, 3), 0.5, PLAY_EXACT);
  }
}

TEST(at_the_limit_256_descriptors_are_left_for_others) {
  PLAY_WITH(start(&play));
  play_open_for(&play, 100);
  assert_true(fake_machine_used(play.fake) <= 1024 - DESCRIPTORS_RESERVE);
  assert_int_equal(cores_on(&play, SOURCE_MPERF),
                   (1024 - 500 - DESCRIPTORS_RESERVE) / 2);
  assert_int_equal(cores_on(&play, SOURCE_IDLE),
                   CORES - (1024 - 500 - DESCRIPTORS_RESERVE) / 2);
}

TEST(a_lack_of_descriptors_is_logged_once_with_its_remedy) {
  PLAY_WITH(start(&play));
  play_open_for(&play, 600);
  assert_int_equal(play_said(&play, "LimitNOFILE"), 1);
}

TEST(cores_get_their_counters_when_others_close_descriptors) {
  PLAY_WITH(start(&play));
  play_open_for(&play, 2);
  assert_true(cores_on(&play, SOURCE_IDLE) > 0);
  play.fake->others = 100;
  play_seconds(&play, 61);
  assert_int_equal(cores_on(&play, SOURCE_MPERF), CORES);
}
