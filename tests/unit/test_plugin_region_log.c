/* Tests that producers cannot fill the log. */
#include "plugin_unit.h"

#include "plugin/region_log.h"

#define SECOND_NS UINT64_C(1000000000)
#define MINUTE_NS (60 * SECOND_NS)

static struct region_log region_log;

static void set_up(void) {
  region_log = (struct region_log){0};
  region_log_begin(&region_log, SECOND_NS);
  return plugin_unit_set_up();
}

static struct region_about about(const char *region) {
  return (struct region_about){.log = &region_log, .region = region};
}

static void warn(const char *region) {
  region_warn(about(region), "region %s is odd", region);
}

TEST(a_condition_that_persists_is_logged_once) {
  for (unsigned minute = 1; minute < 300; minute++) {
    region_log_begin(&region_log, minute * MINUTE_NS);
    warn("gtpu");
  }
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
}

TEST(a_condition_that_comes_back_is_logged_once_an_hour) {
  for (unsigned hour = 1; hour <= 3; hour++)
    for (unsigned minute = 0; minute < 2; minute++) {
      region_log_begin(&region_log, (2 * hour * 60 + minute) * MINUTE_NS);
      warn("gtpu");
    }
  assert_int_equal(fake_count_logged(LOG_WARNING), 3);
}

TEST(each_region_and_table_has_its_own_conditions) {
  struct region_about table = about("gtpu");
  warn("gtpu");
  warn("upf");
  table.part = "port";
  region_warn(table, "region %s is odd", "gtpu");
  region_warn(table, "region %s is strange", "gtpu");
  assert_int_equal(fake_count_logged(LOG_WARNING), 4);
}

TEST(at_most_100_lines_are_logged_in_an_hour) {
  char name[16];
  for (unsigned second = 1; second < 3600; second++) {
    snprintf(name, sizeof(name), "r%u", second);
    region_log_begin(&region_log, second * SECOND_NS);
    warn(name);
    if (region_log_takes(about(name)))
      WARNING("percore: region %s is gone", name);
  }
  assert_in_range(fake_count_logged(LOG_WARNING), 90, 100);
  assert_non_null(
      fake_logged(LOG_WARNING, "messages about regions that were left out: "));
  size_t lines = fake_count_logged(LOG_WARNING);
  region_log_begin(&region_log, 2 * 3600 * SECOND_NS);
  warn("late");
  assert_int_equal(fake_count_logged(LOG_WARNING), lines + 2);
}

TEST(each_condition_that_was_left_out_is_counted_once) {
  char name[16], text[64];
  enum { REGIONS = 200, ENDS = 500 };
  for (int again = 0; again < 3; again++)
    for (unsigned user = 1; user <= REGIONS; user++) {
      snprintf(name, sizeof(name), "r%u", user);
      warn(name);
    }
  size_t lines = fake_count_logged(LOG_WARNING);
  assert_in_range(lines, 90, 100);
  for (unsigned user = 1; user <= ENDS; user++)
    assert_false(region_log_takes(about("gone")));
  snprintf(text, sizeof(text), "left out: %zu,", REGIONS - lines + ENDS);
  region_log_begin(&region_log, 2 * 3600 * SECOND_NS);
  assert_non_null(fake_logged(LOG_WARNING, text));
}

const struct unit_fixtures unit_fixtures = {
    .before_each = set_up, .after_each = plugin_unit_tear_down};
