/* Tests the methods of `percore load --compare` on a simulated machine. */
#include "unit.h"

#include "fake_machine.h"
#include "tool/compare.h"

static void sample(struct methods *methods, struct fake_machine *fake) {
  const struct comparison *comparison;
  fake_machine_run(fake, FAKE_SECOND);
  assert_int_equal(methods_sample(methods, &comparison), 0);
}

static void nothing_is_opened_on_isolated_cores(void **state) {
  (void)state;
  struct fake_machine *fake = fake_machine_new(3);
  fake_machine_counter(fake, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK,
                       FAKE_PER_WALL, 1e9);
  fake_machine_file(fake, "/sys/devices/system/cpu/isolated", "1\n");
  /* The machine has no hardware counters, so no proof waits for the real clock.
   */
  struct engine_options options = {.machine = &fake->machine};
  struct methods *methods;
  assert_int_equal(methods_open(&methods, &options), 0);
  sample(methods, fake);
  assert_int_equal(fake_machine_descriptors(fake, 0), 1);
  assert_int_equal(fake_machine_descriptors(fake, 1), 0);
  assert_int_equal(fake_machine_descriptors(fake, 2), 1);
  fake_machine_file(fake, "/sys/devices/system/cpu/isolated", "1-2\n");
  for (int i = 0; i < 61; i++)
    sample(methods, fake);
  assert_int_equal(fake_machine_descriptors(fake, 2), 0);
  methods_close(methods);
  assert_int_equal(fake_machine_descriptors(fake, -1), 0);
  fake_machine_free(fake);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_opened_on_isolated_cores),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
