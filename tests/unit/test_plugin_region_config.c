/* Tests the options of <Region> and <Table> blocks. */
#include "plugin_unit.h"

static const struct region_config *of(const char *region) {
  return region_config_of(&config.regions, region);
}

TEST(without_a_block_every_region_is_read) {
  assert_accepted("");
  const struct region_config *gtpu = of("gtpu");
  assert_non_null(gtpu);
  assert_int_equal(gtpu->report_per_core, REGION_PER_CORE_FEW);
  assert_true(gtpu->report_host);
  assert_false(gtpu->report_per_instance);
  assert_true(region_config_may_read(gtpu, 4711));
  assert_null(region_config_table(gtpu, "session"));
}

TEST(with_blocks_only_their_regions_are_read) {
  assert_accepted("<Region \"gtpu\">\nReportHost false\n</Region>\n");
  assert_false(of("gtpu")->report_host);
  assert_null(of("upf"));
}

TEST(a_star_is_every_region_without_a_block_of_its_own) {
  assert_accepted("<Region \"gtpu\">\nReportPerCore true\n</Region>\n"
                  "<Region \"*\">\nReportPerCore false\n</Region>\n");
  assert_int_equal(of("gtpu")->report_per_core, REGION_PER_CORE_ALL);
  assert_int_equal(of("upf")->report_per_core, REGION_PER_CORE_NONE);
}

TEST(blocks_of_one_name_add_up) {
  assert_accepted(
      "<Region \"gtpu\">\nReportPerInstance true\n"
      "<Table \"session\">\nField \"rx_bytes\"\n</Table>\n</Region>\n");
  assert_accepted("<Region \"gtpu\">\nReportHost false\n"
                  "<Table \"session\">\nField \"tx\" \"drops\"\n</Table>\n"
                  "</Region>\n");
  const struct region_config *gtpu = of("gtpu");
  const struct region_table_config *session =
      region_config_table(gtpu, "session");
  assert_true(gtpu->report_per_instance);
  assert_false(gtpu->report_host);
  assert_true(region_config_wants_field(session, "rx_bytes"));
  assert_true(region_config_wants_field(session, "drops"));
  assert_false(region_config_wants_field(session, "errors"));
  assert_true(region_config_wants_row(session, "any"));
}

TEST(rows_are_chosen_by_name_or_expression) {
  assert_accepted("<Region \"gtpu\">\n<Table \"session\">\n"
                  "Row \"alice\" \"/^vip-[0-9]+$/\"\nRow \"a/b\"\n"
                  "Top 100 \"rx\"\n</Table>\n</Region>\n");
  const struct region_table_config *session =
      region_config_table(of("gtpu"), "session");
  assert_true(region_config_wants_row(session, "alice"));
  assert_false(region_config_wants_row(session, "alice2"));
  assert_true(region_config_wants_row(session, "vip-42"));
  assert_false(region_config_wants_row(session, "vip-x"));
  assert_true(region_config_wants_row(session, "a/b"));
  assert_int_equal(session->top, 100);
  assert_string_equal(session->top_field, "rx");
}

TEST(buckets_are_up_to_twenty_bounds_of_a_field) {
  assert_accepted("<Region \"gtpu\">\n<Table \"session\">\n"
                  "Buckets \"a\" 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 "
                  "19 9007199254740992\n"
                  "Buckets \"b\" 5\nBuckets \"b\" 0 1e6\n"
                  "</Table>\n</Region>\n");
  const struct region_table_config *session =
      region_config_table(of("gtpu"), "session");
  const struct region_bounds *a = region_config_bounds(session, "a");
  const struct region_bounds *b = region_config_bounds(session, "b");
  assert_int_equal(a->len, 20);
  assert_true(a->at[19] == UINT64_C(9007199254740992));
  assert_int_equal(b->len, 2); /* the last line counts */
  assert_true(b->at[0] == 0 && b->at[1] == 1000000);
  assert_null(region_config_bounds(session, "c"));
  assert_null(region_config_bounds(NULL, "a"));
}

TEST(a_region_may_have_a_thousand_new_rows_an_hour_unless_told_otherwise) {
  assert_accepted("<Region \"gtpu\">\nMaxNewRows 20\n</Region>\n"
                  "Region \"*\"\n");
  assert_int_equal(of("gtpu")->max_new_rows, 20);
  assert_int_equal(of("other")->max_new_rows, 1000);
}

TEST(only_allowed_users_may_serve) {
  assert_accepted("<Region \"gtpu\">\nAllowUser \"root\" \"4711\"\n"
                  "</Region>\n");
  assert_true(region_config_may_read(of("gtpu"), 0));
  assert_true(region_config_may_read(of("gtpu"), 4711));
  assert_false(region_config_may_read(of("gtpu"), 4712));
}

TEST(a_user_that_this_host_does_not_have_lets_nobody_in) {
  assert_accepted("<Region \"gtpu\">\nAllowUser \"no-such-user\"\n"
                  "</Region>\n");
  assert_non_null(fake_logged(LOG_WARNING, "no-such-user"));
  assert_false(region_config_may_read(of("gtpu"), 0));
}

#define IN_REGION(line) "<Region \"a\">\n" line "\n</Region>\n"
#define IN_TABLE(line) IN_REGION("<Table \"t\">\n" line "\n</Table>")

TEST(a_bad_value_is_an_error_that_names_option_and_value) {
  static const struct {
    const char *lines, *option, *value;
  } bad[] = {
      {"<Region>\n</Region>\n", "Region", "without a value"},
      {"<Region \"Gtpu\">\n</Region>\n", "Region", "\"Gtpu\""},
      {"<Region \"a_b\">\n</Region>\n", "Region", "\"a_b\""},
      {"<Region \"a\" \"b\">\n</Region>\n", "Region", "\"b\""},
      {IN_REGION("ReportPerCore 2"), "ReportPerCore", "2"},
      {IN_REGION("ReportHost \"x\""), "ReportHost", "\"x\""},
      {IN_REGION("ReportPerInstance 1"), "ReportPerInstance", "1"},
      {IN_REGION("MaxNewRows 0"), "MaxNewRows", "0"},
      {IN_REGION("MaxNewRows 2.5"), "MaxNewRows", "2.5"},
      {IN_REGION("AllowUser 0"), "AllowUser", "0"},
      {IN_REGION("AllowUser \"\""), "AllowUser", "\"\""},
      {"<Region \"a\">\n<Table \"T\">\n</Table>\n</Region>\n", "Table",
       "\"T\""},
      {IN_TABLE("Field 3"), "Field", "3"},
      {IN_TABLE("Field \"a-b\""), "Field", "\"a-b\""},
      {IN_TABLE("Row \"/(/\""), "Row", "\"/(/\""},
      {IN_TABLE("Row \"\""), "Row", "\"\""},
      {IN_TABLE("Top 0 \"rx\""), "Top", "0"},
      {IN_TABLE("Top \"rx\" 3"), "Top", "\"rx\" 3"},
      {IN_TABLE("Top 3"), "Top", "3"},
      {IN_TABLE("Buckets \"a\""), "Buckets", "\"a\""},
      {IN_TABLE("Buckets 1 2"), "Buckets", "1 2"},
      {IN_TABLE("Buckets \"a-b\" 1"), "Buckets", "\"a-b\" 1"},
      {IN_TABLE("Buckets \"a\" 2 2"), "Buckets", "\"a\" 2 2"},
      {IN_TABLE("Buckets \"a\" 1 \"2\""), "Buckets", "\"a\" 1 \"2\""},
      {IN_TABLE("Buckets \"a\" -1 2"), "Buckets", "\"a\" -1 2"},
      {IN_TABLE("Buckets \"a\" 0.5"), "Buckets", "\"a\" 0.5"},
      {IN_TABLE("Buckets \"a\" 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 "
                "19 20 21"),
       "Buckets", "19 20 21"},
  };
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
    assert_refused(bad[i].lines, bad[i].option, bad[i].value, "must be ");
}

TEST(a_region_or_table_that_cannot_be_read_is_an_error) {
  static const struct {
    const char *lines, *option, *value;
  } bad[] = {
      {"<Region \"board\">\n</Region>\n", "Region", "\"board\": the board"},
      {"<Region \"host\">\n</Region>\n", "Region", "\"host\""},
      {"<Map \"/a/b\">\nRegion \"host\"\n</Map>\n", "Region", "\"host\""},
      {"<Map \"/a/b\">\nRegion \"board\"\n</Map>\n", "Region", "\"board\""},
      {"<Map \"/a/b\">\nTable \"core\"\n</Map>\n", "Table", "\"core\""},
      {"<Map \"/a/b\">\nTable \"host\"\n</Map>\n", "Table", "\"host\""},
  };
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    forget_config();
    assert_refused(bad[i].lines, bad[i].option, bad[i].value, "must be ");
  }
  assert_refused("<Map \"/1/b\">\nMaxRows 1\n</Map>\n", "Map", "/1/b",
                 "set Region");
}

TEST(a_row_with_a_slash_at_one_end_only_is_an_error) {
  static const char *const bad[] = {"/abc", "abc/", "/^vip-/i", "/"};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    char lines[128];
    snprintf(lines, sizeof(lines),
             "<Region \"a\">\n<Table \"t\">\nRow \"%s\"\n</Table>\n"
             "</Region>\n",
             bad[i]);
    assert_refused(lines, "Row", bad[i], "a slash at both ends");
  }
}

TEST(an_option_that_is_unknown_is_a_warning) {
  assert_accepted("<Region \"gtpu\">\nColour 5\n<Table \"t\">\nSauce 1\n"
                  "</Table>\n</Region>\n");
  assert_non_null(fake_logged(LOG_WARNING, "\"Colour\" in <Region>"));
  assert_non_null(fake_logged(LOG_WARNING, "\"Sauce\" in <Table>"));
  assert_accepted("<Map \"/a/b\">\nTop 5\n</Map>\n");
  assert_non_null(fake_logged(LOG_WARNING, "\"Top\" in <Map>"));
  assert_int_equal(fake_count_logged(LOG_ERR), 0);
}

const struct unit_fixtures unit_fixtures = {
    .before_each = plugin_unit_set_up, .after_each = plugin_unit_tear_down};
