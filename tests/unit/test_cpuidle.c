#include "unit.h"

#include "cycles/cpuidle.h"
#include "fake_machine.h"

#define FOLDER "/sys/devices/system/cpu/cpu0/cpuidle/"

static struct fake_machine *fake;
static struct cpuidle cpuidle;

static void setup(void) { fake = fake_machine_new(1); }

static void teardown(void) { fake_machine_free(fake); }

static void add(struct fake_machine *fake, int number, const char *name,
                const char *time_us, const char *usage) {
  fake_machine_filef(fake, name, FOLDER "state%d/name", number);
  fake_machine_filef(fake, time_us, FOLDER "state%d/time", number);
  fake_machine_filef(fake, usage, FOLDER "state%d/usage", number);
}

TEST(a_core_without_an_idle_driver_has_no_states) {
  assert_int_equal(cpuidle_read(&cpuidle, &fake->machine, 0), 0);
  assert_int_equal(cpuidle.states_len, 0);
  assert_int_equal(cpuidle_halted_ns(&cpuidle), 0);
}

TEST(states_have_their_names_times_and_entries) {
  add(fake, 0, "POLL\n", "12\n", "3\n");
  add(fake, 1, "C1\n", "5000\n", "70\n");
  add(fake, 2, "C6\n", "90000000\n", "800\n");
  assert_int_equal(cpuidle_read(&cpuidle, &fake->machine, 0), 3);
  assert_string_equal(cpuidle.state[0].name, "POLL");
  assert_string_equal(cpuidle.state[2].name, "C6");
  assert_int_equal(cpuidle.state[1].time_ns, 5000000);
  assert_int_equal(cpuidle.state[2].entries, 800);
}

TEST(polling_is_not_halting) {
  add(fake, 0, "POLL\n", "1000000\n", "500\n");
  add(fake, 1, "C1\n", "5\n", "1\n");
  add(fake, 2, "C6\n", "30\n", "4\n");
  cpuidle_read(&cpuidle, &fake->machine, 0);
  assert_true(cpuidle.state[0].poll);
  assert_false(cpuidle.state[1].poll);
  assert_int_equal(cpuidle_halted_ns(&cpuidle), 35000);
}

TEST(names_are_made_fit_for_a_metric) {
  add(fake, 0, "C1-HSW\n", "1\n", "1\n");
  add(fake, 1, "haltpoll idle\n", "1\n", "1\n");
  add(fake, 2, "a/b;c=d\"\x80\n", "1\n", "1\n");
  assert_int_equal(cpuidle_read(&cpuidle, &fake->machine, 0), 3);
  assert_string_equal(cpuidle.state[0].name, "C1-HSW");
  assert_string_equal(cpuidle.state[1].name, "haltpoll_idle");
  assert_string_equal(cpuidle.state[2].name, "a_b_c_d__");
}

TEST(a_state_without_a_name_ends_the_list) {
  add(fake, 0, "C1\n", "1\n", "1\n");
  add(fake, 1, "\n", "1\n", "1\n");
  assert_int_equal(cpuidle_read(&cpuidle, &fake->machine, 0), 1);
}

TEST(a_state_that_cannot_be_read_ends_the_list) {
  static const struct {
    const char *time_us, *usage;
  } bad[] = {{"", "1\n"},
             {"1\n", ""},
             {"x\n", "1\n"},
             {"1\n", "-1\n"},
             {"1\n", "9223372036854775808\n"},  /* too large for a store */
             {"18446744073709551615\n", "1\n"}, /* too large for nanoseconds */
             {"99999999999999999999\n", "1\n"}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    add(fake, 0, "POLL\n", "1\n", "1\n");
    add(fake, 1, "C1\n", bad[i].time_us, bad[i].usage);
    add(fake, 2, "C6\n", "1\n", "1\n");
    if (cpuidle_read(&cpuidle, &fake->machine, 0) != 1)
      fail_msg("taken: time %s usage %s", bad[i].time_us, bad[i].usage);
  }
  add(fake, 1, "C1\n", "1\n", "1\n");
  fake_machine_fail(fake, FOLDER "state1/time", EIO);
  assert_int_equal(cpuidle_read(&cpuidle, &fake->machine, 0), 1);
}

TEST(states_beyond_the_maximum_are_ignored) {
  for (int i = 0; i < 2 * CPUIDLE_STATES_MAX; i++)
    add(fake, i, "C1\n", "1\n", "1\n");
  assert_int_equal(cpuidle_read(&cpuidle, &fake->machine, 0),
                   CPUIDLE_STATES_MAX);
}

TEST(each_core_has_states_of_its_own) {
  struct fake_machine *fake = fake_machine_new(2);
  fake->cpuidle_states = 2;
  fake->cores[0].load = 1;
  fake->cores[1].load = 0.5;
  fake_machine_run(fake, FAKE_SECOND);
  assert_int_equal(cpuidle_read(&cpuidle, &fake->machine, 0), 2);
  assert_int_equal(cpuidle_halted_ns(&cpuidle), 0);
  assert_int_equal(cpuidle_read(&cpuidle, &fake->machine, 1), 2);
  assert_int_equal(cpuidle_halted_ns(&cpuidle), FAKE_SECOND / 2);
  assert_int_equal(cpuidle_read(&cpuidle, &fake->machine, 2), 0);
  fake_machine_free(fake);
}

const struct unit_fixtures unit_fixtures = {.before_each = setup,
                                            .after_each = teardown};
