/* Tests which windows percore_load_update publishes, on a machine whose clock
 * the test advances. */
#include "calls.h"
#include "unit.h"

#include "board/load.h"
#include "play.h"

#include <unistd.h>

static struct play play;
static struct percore_load *load;
static int bounds; /* whether they are asked for */

static const char *isolated = "1\n";

/* Opens a load on two cores. Core 1 is isolated, so its source is "idle",
 * whatever the source of core 0 is. */
static void start(bool mperf, uint64_t shortest_ns) {
  if (mperf)
    play_start_mperf(&play, 2, 0.02);
  else
    play_start(&play, 2);
  fake_machine_load(play.fake, 0.02);
  fake_machine_file(play.fake, "/sys/devices/system/cpu/isolated", isolated);
  struct percore_load_options options = {
      .shortest_window = (double)shortest_ns / 1e9, .bounds = bounds};
  assert_int_equal(load_open(&load, &play.fake->machine, &options), 0);
}

static void end(void) {
  bounds = 0;
  percore_load_close(load);
  play_end(&play);
}

static void update_after(uint64_t ns) {
  fake_machine_run(play.fake, ns);
  assert_true(percore_load_update(load) >= 0);
}

TEST(a_call_right_after_another_does_not_change_the_loads) {
  start(false, 0);
  update_after(FAKE_SECOND);
  double before = percore_load_get(load, 0, NULL);
  assert_near(before, 0.02, PLAY_SECOND_ERROR);
  for (int i = 0; i < 100; i++) {
    update_after(5000);
    assert_near(percore_load_get(load, 0, NULL), before, 0);
    assert_near(load_window(load, 0, NULL), 1, 1e-9);
  }
}

/* Two schedulers share one handle, and each of them updates it every 200 ms. */
TEST(two_callers_never_shorten_each_others_windows) {
  start(false, 0);
  update_after(200 * FAKE_MS);
  for (int i = 0; i < 200; i++) {
    update_after(i % 2 == 0 ? 100000 : 199900000);
    assert_near(percore_load_get(load, 0, NULL), 0.02, 0.101);
    assert_true(load_window(load, 0, NULL) >= 0.1999);
  }
}

TEST(windows_are_at_least_10_ms_and_200_ms_while_a_core_uses_idle) {
  for (int idle = 0; idle < 2; idle++) {
    int windows[2] = {0};
    isolated = idle ? "1\n" : "\n";
    start(true, 0);
    update_after(FAKE_SECOND);
    for (int i = 0; i < 1000; i++) {
      double age;
      update_after(FAKE_MS);
      for (int core = 0; core < 2; core++) {
        double length = load_window(load, core, &age);
        if (length < 0 || age > 0)
          continue;
        windows[core]++;
        assert_near(length, idle ? 0.2 : 0.01, 1e-9);
      }
    }
    assert_string_equal(load_details(load, 0).source, "mperf");
    assert_string_equal(load_details(load, 1).source, idle ? "idle" : "mperf");
    for (int core = 0; core < 2; core++)
      assert_int_equal(windows[core], idle ? 5 : 100);
    if (!idle)
      end();
  }
}

TEST(a_handle_may_have_another_shortest_window) {
  start(true, 500 * FAKE_MS);
  for (int i = 0; i < 499; i++)
    update_after(FAKE_MS);
  assert_near(percore_load_get(load, 0, NULL), -1, 0);
  update_after(FAKE_MS);
  for (int core = 0; core < 2; core++)
    assert_near(load_window(load, core, NULL), 0.5, 1e-9);
}

/* A proof in a thread of its own reads, too. The next one is due 10 s later. */
static void await_proofs(void) {
  while (strcmp(load_details(load, 0).proof, "pending") == 0) {
    usleep(1000);
    update_after(FAKE_SECOND);
  }
}

TEST(a_call_that_is_too_early_reads_nothing) {
  start(false, 0);
  await_proofs();
  int reads = play.fake->stat_reads;
  for (int i = 0; i < 199; i++)
    update_after(FAKE_MS);
  assert_int_equal(play.fake->stat_reads, reads);
  update_after(FAKE_MS);
  assert_int_equal(play.fake->stat_reads, reads + 1);
}

TEST(a_window_has_an_age) {
  start(true, 0);
  double age = -1;
  assert_near(load_window(load, 0, &age), -1, 0);
  update_after(3 * FAKE_SECOND);
  fake_machine_run(play.fake, 700 * FAKE_MS);
  assert_near(load_window(load, 0, &age), 3, 1e-9);
  assert_near(age, 0.7, 1e-9);
  assert_near(load_window(load, 2, &age), -1, 0);
  assert_near(load_window(load, -1, &age), -1, 0);
}

TEST(an_update_tells_whether_loads_are_new) {
  start(false, 0);
  assert_int_equal(percore_load_update(load), 0);
  fake_machine_run(play.fake, 199 * FAKE_MS);
  assert_int_equal(percore_load_update(load), 0);
  fake_machine_run(play.fake, FAKE_MS);
  assert_int_equal(percore_load_update(load), 1);
  assert_int_equal(percore_load_update(load), 0);
}

TEST(without_a_source_every_update_says_so_and_the_next_source_is_used) {
  start(false, 0);
  update_after(FAKE_SECOND);
  fake_machine_fail(play.fake, "/proc/stat", EIO);
  fake_machine_run(play.fake, 200 * FAKE_MS);
  for (int i = 0; i < 20; i++) {
    errno = 0;
    assert_int_equal(percore_load_update(load), -1);
    assert_int_equal(errno, ENOTSUP);
    assert_near(percore_load_get(load, 0, NULL), -1, 0);
    fake_machine_run(play.fake, 50 * FAKE_MS);
  }
  fake_machine_remove(play.fake, "/proc/stat");
  for (int i = 0; i < 5; i++)
    fake_machine_run(play.fake, 500 * FAKE_MS), percore_load_update(load);
  assert_near(percore_load_get(load, 0, NULL), 0.02, 0.101);
}

TEST(what_only_bounds_need_is_read_only_for_them) {
  for (int wanted = 0; wanted < 2; wanted++) {
    bounds = wanted;
    start(false, 0);
    play.fake->cpuidle_states = 3;
    play.fake->cores[0].halts_per_s = 5000;
    for (int i = 0; i < 400; i++)
      update_after(200 * FAKE_MS);
    int reads = play.fake->cpuidle_reads;
    for (int i = 0; i < 10; i++)
      update_after(200 * FAKE_MS);
    assert_int_equal((play.fake->cpuidle_reads - reads) > 20, wanted);
    assert_int_equal(load_details(load, 0).low >= 0, wanted);
    assert_int_equal(load_details(load, 0).high >= 0, wanted);
    if (!wanted)
      end();
  }
}

/* With room .13 and .80. */
TEST(a_small_job_goes_where_the_room_is_and_leaves_it_there) {
  start(false, 0);
  play.fake->cores[0].load = 0.87;
  play.fake->cores[1].load = 0.20;
  for (int i = 0; i < 100; i++)
    update_after(FAKE_SECOND);
  struct percore_load_choice choice = {.size = sizeof(choice), .need = 0.001};
  int taken[2] = {0}, core;
  for (int i = 0; i < 600; i++) {
    assert_int_equal(percore_load_best(load, &choice, &core, 1), 1);
    taken[core]++;
  }
  assert_int_equal(taken[1], 600);
  update_after(FAKE_SECOND);
  choice.need = 0.1;
  taken[0] = taken[1] = 0;
  for (int i = 0; i < 100; i++) {
    percore_load_best(load, &choice, &core, 1);
    taken[core]++;
  }
  assert_in_range(taken[1] - taken[0], 67 / 10 - 5, 67 / 10 + 5);
  choice.need = 1.1;
  assert_int_equal(percore_load_best(load, &choice, &core, 1), -1);
}

TEST(the_truth_is_between_the_bounds) {
  bounds = 1;
  start(true, 0);
  assert_near(load_details(load, 0).low, -1, 0);
  fake_machine_load(play.fake, 0.5);
  play.fake->cores[0].steal = play.fake->cores[1].steal = 0.2;
  update_after(10 * FAKE_SECOND);
  assert_near(percore_load_get(load, 0, NULL), 0.5,
              PLAY_EXACT); /* measured by mperf */
  assert_near(load_details(load, 0).low, 0.5 / 1.02, PLAY_EXACT * 10);
  assert_near(load_details(load, 0).high, 0.5 / 0.97, PLAY_EXACT * 10);
  assert_near(percore_load_get(load, 1, NULL), 0.7, PLAY_SECOND_ERROR / 10);
  assert_near(load_details(load, 1).low, 0.497, PLAY_SECOND_ERROR / 10);
  assert_near(load_details(load, 1).high, 0.702, PLAY_SECOND_ERROR / 10);
  assert_near(load_details(load, 2).low, -1, 0);
  assert_near(load_details(load, 2).high, -1, 0);
}

/* The machine runs for one of ten seconds. */
TEST(a_window_in_which_the_machine_was_paused_has_no_load) {
  for (int mperf = 0; mperf < 2; mperf++) {
    start(mperf, 0);
    for (int i = 0; i < 3; i++)
      update_after(FAKE_SECOND);
    fake_machine_run(play.fake, FAKE_SECOND / 2);
    fake_machine_pause(play.fake, 9 * FAKE_SECOND);
    update_after(FAKE_SECOND / 2);
    for (int core = 0; core < 2; core++)
      assert_near(percore_load_get(load, core, NULL), -1, 0);
    update_after(FAKE_SECOND);
    for (int core = 0; core < 2; core++)
      assert_near(percore_load_get(load, core, NULL), 0.02, PLAY_SECOND_ERROR);
    if (mperf == 0)
      end();
  }
}

TEST(callers_may_update_when_they_like) {
  start(false, 0);
  play.fake->cores[0].load = 0.8; /* and its work evades the tick */
  play.fake->cores[0].seen = 0;
  update_after(FAKE_SECOND);
  for (int i = 0; i < 100; i++) {
    update_after((uint64_t)(1 + i % 7) * (i % 50 == 49 ? 100 : 1) *
                 FAKE_SECOND);
    assert_near(percore_load_get(load, 0, NULL), 0.8, PLAY_SECOND_ERROR);
  }
}

/* The idle columns cover the window in which the counter failed. */
TEST(a_load_always_has_a_source) {
  start(true, 0);
  update_after(FAKE_SECOND);
  assert_string_equal(load_details(load, 0).source, "mperf");
  play.fake->cores[0].read_error = EIO;
  for (int i = 0; i < 3; i++) {
    update_after(FAKE_SECOND);
    assert_near(percore_load_get(load, 0, NULL), 0.02, PLAY_SECOND_ERROR);
    assert_string_equal(load_details(load, 0).source, "idle");
  }
}

TEST(loads_end_when_their_source_does) {
  start(false, 0);
  for (int i = 0; i < 3; i++)
    update_after(FAKE_SECOND);
  fake_machine_fail(play.fake, "/proc/stat", EIO);
  fake_machine_run(play.fake, FAKE_SECOND);
  assert_int_equal(percore_load_update(load), -1);
  assert_int_equal(errno, ENOTSUP);
  assert_near(percore_load_get(load, 0, NULL), -1, 0);
  assert_string_equal(load_details(load, 0).source, "none");
  fake_machine_remove(play.fake, "/proc/stat");
  update_after(FAKE_SECOND);
  update_after(FAKE_SECOND);
  assert_near(percore_load_get(load, 0, NULL), 0.02, PLAY_SECOND_ERROR);
}

TEST(what_a_core_polls_in_its_idle_loop_is_room) {
  start(false, 0);
  play.fake->cpuidle_states = 3;
  play.fake->cores[0].load = 0.9;
  play.fake->cores[0].polled = 0.8;
  play.fake->cores[0].idle = 0.9;
  play.fake->cores[1].load = 0.5;
  for (int i = 0; i < 70; i++) /* the driver is found after a minute */
    update_after(FAKE_SECOND);
  assert_near(percore_load_get(load, 0, NULL), 0.9, PLAY_SECOND_ERROR);
  int core = -1;
  const struct percore_load_choice by_load = {.size = sizeof by_load,
                                              .by = PERCORE_BY_LOAD};
  assert_int_equal(percore_load_best(load, NULL, &core, 1), 1);
  assert_int_equal(core, 0);
  assert_int_equal(percore_load_best(load, &by_load, &core, 1), 1);
  assert_int_equal(core, 1);
}

TEST(a_core_that_goes_offline_loses_its_load_in_the_next_window) {
  start(true, 0);
  update_after(FAKE_SECOND);
  fake_machine_online(play.fake, 0, false);
  update_after(200 * FAKE_MS + 1);
  assert_near(percore_load_get(load, 0, NULL), -1, 0);
  assert_near(load_details(load, 0).low, -1, 0);
  fake_machine_online(play.fake, 0, true);
  update_after(FAKE_SECOND);
  update_after(FAKE_SECOND);
  assert_near(percore_load_get(load, 0, NULL), 0.02, PLAY_EXACT);
}

const struct unit_fixtures unit_fixtures = {.after_each = end};
