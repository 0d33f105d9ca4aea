/* Tests what is read about idle states, and running functions on a given core.
 * A function that does not return simulates a core that real-time tasks keep
 * busy. */
#include "wake/core.h"

#include "temp_tree.h"
#include "unit.h"

#include <semaphore.h>

static sem_t is_over;
static int asked;

static int say_core(void *context) {
  *(int *)context = sched_getcpu();
  return 0;
}

static int wait_for_end(void *context) {
  (void)context;
  while (sem_wait(&is_over) != 0)
    continue;
  return 0;
}

static bool ends_at_second_look(void *context) {
  (void)context;
  if (++asked < 2)
    return true;
  sem_post(&is_over);
  return false;
}

/* Returns the number of a core on which this process may run. */
static int some_core(void) { return sched_getcpu(); }

TEST(a_function_runs_on_the_core) {
  char why[WHY_SIZE] = "";
  int core = some_core(), ran_on = -1;
  assert_int_equal(wake_core_run(core, say_core, &ran_on, NULL, NULL, why), 0);
  assert_int_equal(ran_on, core);
  assert_string_equal(why, "");
}

TEST(waiting_for_a_busy_core_ends_as_soon_as_it_must) {
  char why[WHY_SIZE] = "";
  sem_init(&is_over, 0, 0);
  asked = 0;
  assert_int_equal(wake_core_run(some_core(), wait_for_end, NULL,
                                 ends_at_second_look, NULL, why),
                   -EINTR);
  assert_int_equal(asked, 2);
  sem_destroy(&is_over);
}

TEST(a_core_that_does_not_exist_is_refused) {
  char why[WHY_SIZE] = "";
  int ran_on = -1;
  assert_int_equal(wake_core_run(8191, say_core, &ran_on, NULL, NULL, why),
                   -EINVAL);
  assert_non_null(strstr(why, "cannot run on core 8191"));
  assert_int_equal(ran_on, -1);
}

static struct temp_tree tree;

static void plant(int number, const char *file, const char *text) {
  char path[128];
  snprintf(path, sizeof(path),
           "/sys/devices/system/cpu/cpu5/cpuidle/state%d/%s", number, file);
  temp_tree_write(&tree, path, text);
}

static void plant_state(int number, const char *name, const char *latency,
                        const char *usage) {
  plant(number, "name", name);
  plant(number, "latency", latency);
  plant(number, "residency", "600\n");
  plant(number, "usage", usage);
  plant(number, "time", "5000\n");
  plant(number, "disable", number == 1 ? "1\n" : "0\n");
}

TEST(idle_states_are_those_of_cpuidle) {
  struct wake_states before, states;
  temp_tree_make(&tree);
  plant_state(0, "POLL\n", "0\n", "7\n");
  plant_state(1, "haltpoll idle\n", "133\n", "20\n");
  wake_core_states(tree.root, 5, &before);
  assert_int_equal(before.len, 2);
  assert_string_equal(before.list[1].name, "haltpoll_idle");
  assert_near(before.list[1].latency_us, 133, 0);
  assert_near(before.list[1].residency_us, 600, 0);
  assert_false(before.list[0].is_disabled);
  assert_true(before.list[1].is_disabled);
  plant(1, "usage", "25\n");
  plant(1, "time", "5900\n");
  wake_core_states(tree.root, 5, &states);
  assert_int_equal(wake_states_since(&states, &before), 5);
  assert_int_equal(states.list[0].entries, 0);
  assert_int_equal(states.list[1].entries, 5);
  assert_int_equal(states.list[1].time_us, 900);
  temp_tree_remove(&tree);
}

TEST(counts_that_go_backwards_or_states_that_go_are_unknown) {
  struct wake_states before, states;
  temp_tree_make(&tree);
  plant_state(0, "C1\n", "2\n", "20\n");
  plant_state(1, "C6\n", "133\n", "18446744073709551615\n");
  wake_core_states(tree.root, 5, &before);
  plant(0, "usage", "19\n");
  wake_core_states(tree.root, 5, &states);
  assert_int_equal(wake_states_since(&states, &before), -1);
  plant(0, "usage", "21\n");
  plant(1, "time", "4999\n");
  wake_core_states(tree.root, 5, &states);
  assert_int_equal(wake_states_since(&states, &before), -1);
  temp_tree_remove(&tree);
  temp_tree_make(&tree);
  wake_core_states(tree.root, 5, &states);
  assert_int_equal(wake_states_since(&states, &before), -1);
  temp_tree_remove(&tree);
}

TEST(states_beyond_the_last_are_left_out) {
  struct wake_states states;
  temp_tree_make(&tree);
  for (int i = 0; i < 64; i++)
    plant_state(i, "a name that is longer than any of the kernel\n", "2\n",
                "20\n");
  wake_core_states(tree.root, 5, &states);
  assert_int_equal(states.len, WAKE_STATES_MAX);
  assert_string_equal(states.list[15].name, "a_name_that_is_longer_than_any_");
  temp_tree_remove(&tree);
}

TEST(without_cpuidle_one_state_stands_for_all) {
  struct wake_states states, before;
  temp_tree_make(&tree);
  wake_core_states(tree.root, 5, &states);
  assert_int_equal(states.len, 1);
  assert_string_equal(states.list[0].name, "idle");
  assert_nan(states.list[0].latency_us);
  before = states;
  assert_int_equal(wake_states_since(&states, &before), -1);
  temp_tree_remove(&tree);
}
