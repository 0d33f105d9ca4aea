#include "unit.h"

#include "cycles/schedstat.h"
#include "fake_machine.h"

TEST(each_core_has_its_run_time) {
  struct schedstat stat = {0};
  assert_int_equal(schedstat_parse(&stat,
                                   "version 15\n"
                                   "timestamp 4295205328\n"
                                   "cpu0 1 2 3 4 5 6 7000000000 8 9\n"
                                   "domain0 00000003 1 2 3 4 5 6 7 8 9\n"
                                   "cpu2 1 2 3 4 5 6 9000000000 10 11\n"),
                   0);
  assert_true(core_set_has(&stat.cores, 0));
  assert_int_equal(stat.run_ns[0], 7000000000);
  assert_false(core_set_has(&stat.cores, 1));
  assert_int_equal(stat.run_ns[2], 9000000000);
  assert_int_equal(schedstat_parse(&stat, "cpu0 1 2 3 4 5 6 7 8 9\n"), 0);
  assert_false(core_set_has(&stat.cores, 2));
  schedstat_free(&stat);
}

TEST(another_version_is_refused) {
  static const char *const texts[] = {
      "version 18\ncpu0 1 2 3 4 5 6 7 8 9\n",
      "version 14\ncpu0 1 2 3 4 5 6 7 8 9\n",
      "version x\n",
  };
  struct schedstat stat = {0};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
    assert_int_equal(schedstat_parse(&stat, texts[i]), -EPROTONOSUPPORT);
  schedstat_free(&stat);
}

TEST(a_malformed_row_is_ignored) {
  static const char *const texts[] = {
      "",
      "version 15\n",
      "version 15\ncpu0 1 2 3 4 5 6\n",
      "version 15\ncpu0 1 2 3 4 5 6 7 8 9",
      "version 15\ncpu0 0 0 0 0 0 0 99999999999999999999 0 0\n",
      "version 15\ncpu8192 1 2 3 4 5 6 7 8 9\n",
      "version 15\ncpux 1 2 3 4 5 6 7 8 9\n",
  };
  struct schedstat stat = {0};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
    assert_int_equal(schedstat_parse(&stat, texts[i]), -EINVAL);
  schedstat_free(&stat);
}

TEST(a_missing_or_empty_file_is_an_error) {
  struct fake_machine *fake = fake_machine_new(1);
  struct schedstat stat = {0};
  assert_int_equal(schedstat_read(&stat, &fake->machine), -ENOENT);
  fake_machine_file(fake, "/proc/schedstat", "");
  assert_int_equal(schedstat_read(&stat, &fake->machine), -EINVAL);
  schedstat_free(&stat);
  fake_machine_free(fake);
}
