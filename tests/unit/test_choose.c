/* Tests the rule by which a core is chosen. */
#include "board/choose.h"

#include "unit.h"

#define CORES 64

static struct chooser *chooser;
static double loads[CORES], room[CORES];

static void begin(void) {
  chooser = chooser_open(CORES, 1);
  for (int i = 0; i < CORES; i++)
    room[i] = 1 - (loads[i] = 0.5);
}

static void end(void) { free(chooser); }

static void learn(int times, double (*load)(int time, int core)) {
  for (int time = 0; time < times; time++) {
    for (int i = 0; i < CORES; i++)
      loads[i] = load(time, i);
    chooser_learn(chooser, loads);
  }
  for (int i = 0; i < CORES; i++)
    room[i] = 1 - loads[i];
}

/* Core 5 has room for a long time, then core 9. */
static double lasting(int time, int core) {
  return core == (time < 10 ? 5 : 9) ? 0.1 : 0.6 + 0.001 * core;
}

/* A load that says nothing about the next. */
static double fleeting(int time, int core) {
  unsigned x = (unsigned)(time * CORES + core + 1) * 2654435761u;
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  return (double)(x % 1000) / 1000;
}

TEST(if_loads_last_the_core_with_most_room_is_chosen) {
  learn(20, lasting);
  assert_int_equal(chooser_pick(chooser, room, 1), 9);
}

TEST(if_loads_do_not_last_the_cores_take_turns) {
  int taken[CORES] = {0};
  learn(50, fleeting);
  for (int i = 0; i < 10 * CORES; i++)
    taken[chooser_pick(chooser, room, 1)]++;
  for (int i = 0; i < CORES; i++)
    assert_in_range(taken[i], 8, 12);
}

TEST(choosers_with_the_same_picture_choose_different_cores) {
  int taken[CORES] = {0}, different = 0;
  for (int i = 0; i < CORES; i++) {
    struct chooser *other = chooser_open(CORES, (uint64_t)i);
    chooser_learn(other, loads);
    taken[chooser_pick(other, room, 1)]++;
    free(other);
  }
  for (int i = 0; i < CORES; i++)
    different += taken[i] > 0;
  assert_true(different > CORES / 2);
}

TEST(a_core_that_was_chosen_is_not_chosen_again_at_once) {
  learn(20, lasting);
  for (int i = 0; i < CORES; i++)
    loads[i] = -1; /* chosen already */
  for (int i = 0; i < CORES; i++) {
    int core = chooser_pick(chooser, room, 1);
    assert_true(loads[core] < 0);
    loads[core] = 0;
  }
}

TEST(cores_without_room_to_give_are_excluded) {
  for (int i = 0; i < CORES; i++)
    room[i] = i == 17 ? 0 : -1;
  assert_int_equal(chooser_pick(chooser, room, 1), 17);
  assert_int_equal(chooser_pick(chooser, room, 1), 17);
  room[17] = -1;
  assert_int_equal(chooser_pick(chooser, room, 1), -1);
}

TEST(unknown_loads_are_learned_as_unknown) {
  for (int time = 0; time < 5; time++) {
    for (int i = 0; i < CORES; i++)
      loads[i] = -1;
    chooser_learn(chooser, loads);
  }
  assert_in_range(chooser_pick(chooser, room, 1), 0, CORES - 1);
}

const struct unit_fixtures unit_fixtures = {.before_each = begin,
                                            .after_each = end};
