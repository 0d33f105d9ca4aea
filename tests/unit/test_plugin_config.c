/* Tests the options of <Plugin percore>. */
#include "plugin_unit.h"

#define LOAD(lines) "<Load>\n" lines "\n</Load>"
#define A_32 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void assert_cores(const struct core_set *cores, const char *expected) {
  char list[256];
  core_set_format(cores, list, sizeof(list));
  assert_string_equal(list, expected);
}

TEST(without_options_every_default_is_as_documented) {
  assert_accepted("");
  struct sampler_options options;
  config_sampler_options(&config, &options);
  assert_null(options.engine.cores);
  assert_true(options.engine.hardware);
  assert_int_equal(options.engine.source, SOURCE_AUTO);
  assert_int_equal(options.engine.isolated_cores, ISOLATED_CORES_IDLE);
  assert_int_equal(options.sample_interval_ns, 0);
  assert_false(options.figures.cstates);
  assert_int_equal(options.figures.groups_len, 0);
  assert_int_equal(config.max_values, 100000);
  assert_true(config.max_memory == 1 << 30);
  assert_true(config.load.report_per_core);
  assert_true(config.load.report_host);
  assert_false(config.sampler.engine.bounds);
  assert_false(config.load.report_hidden);
  assert_false(config.load.report_time);
  assert_false(config.sampler.engine.frequency);
  assert_false(config.wake_latency);
  assert_false(options.figures.softirq);
  assert_false(config.pollers.wanted);
}

TEST(an_empty_block_asks_pollers_at_the_usual_places) {
  assert_accepted("<Pollers>\n</Pollers>");
  assert_true(config.pollers.wanted && config.pollers.usual);
}

/* collectd 5.12 drops empty blocks. */
TEST(an_option_asks_pollers_at_the_usual_places_as_well) {
  assert_accepted("<Pollers>\nUsualPlaces true\nSocket \"/a\"\n</Pollers>");
  assert_true(config.pollers.wanted && config.pollers.usual);
  assert_int_equal(config.pollers.sockets.len, 1);
}

TEST(sockets_of_pollers_are_patterns_and_may_be_long) {
  assert_accepted("<Pollers>\nSocket \"/run/*/a.ctl\" \"/" A_32 A_32 A_32 A_32
                  "\"\nSocket \"/run/b.ctl\"\n</Pollers>");
  const struct names *sockets = &config.pollers.sockets;
  assert_false(config.pollers.usual);
  assert_int_equal(sockets->len, 3);
  assert_string_equal(sockets->list[0], "/run/*/a.ctl");
  assert_string_equal(sockets->list[1], "/" A_32 A_32 A_32 A_32);
}

TEST(the_region_of_pollers_is_read_beside_named_regions) {
  assert_accepted("<Region \"gtpu\">\n</Region>");
  assert_null(region_config_of(&config.regions, POLLERS_REGION));
  assert_accepted("<Pollers>\n</Pollers>\n<Region \"gtpu\">\n</Region>");
  assert_non_null(region_config_of(&config.regions, "gtpu"));
  assert_non_null(region_config_of(&config.regions, POLLERS_REGION));
  assert_null(region_config_of(&config.regions, "other"));
}

TEST(wake_latency_is_a_switch_or_a_list_of_cores) {
  assert_accepted("WakeLatency true");
  assert_true(config.wake_latency);
  assert_null(config_cores(&config.wake_cores));
  assert_accepted("WakeLatency \"2-3\"\nWakeLatency 8");
  assert_true(config.wake_latency);
  assert_cores(&config.wake_cores, "2-3,8");
  assert_null(config_cores(&config.cores));
  assert_accepted("WakeLatency false");
  assert_false(config.wake_latency);
}

TEST(time_in_softirqs_is_measured_only_if_it_is_wanted) {
  struct sampler_options options;
  assert_accepted("<Load>\n  ReportSoftirq true\n</Load>\n");
  config_sampler_options(&config, &options);
  assert_true(options.figures.softirq);
}

TEST(every_option_reaches_the_sampler_or_the_config) {
  assert_accepted("Cores \"0-3,8\"\n"
                  "Group \"dataplane\" \"2-15\"\n"
                  "SysRoot \"/host/\"\n"
                  "MaxValues 5000\n"
                  "MaxMemory 8589934592\n"
                  "<Load>\n"
                  "  Source \"event\"\n"
                  "  IsolatedCores \"skip\"\n"
                  "  AlsoIsolated \"4-7\"\n"
                  "  SampleInterval 0.25\n"
                  "  ReportPerCore false\n"
                  "  ReportHost false\n"
                  "  ReportBounds true\n"
                  "  ReportHidden true\n"
                  "  ReportTime true\n"
                  "  ReportFrequency true\n"
                  "  ReportSoftirq true\n"
                  "  ReportCStates true\n"
                  "</Load>\n");
  struct sampler_options options;
  config_sampler_options(&config, &options);
  assert_cores(options.engine.cores, "0-3,8");
  assert_int_equal(options.figures.groups_len, 1);
  assert_string_equal(options.figures.groups[0].name, "dataplane");
  assert_cores(&options.figures.groups[0].cores, "2-15");
  assert_string_equal(config.sys_root, "/host");
  assert_false(options.engine.hardware);
  assert_int_equal(config.max_values, 5000);
  assert_true(config.max_memory == 8589934592.);
  assert_int_equal(options.engine.source, SOURCE_EVENT);
  assert_int_equal(options.engine.isolated_cores, ISOLATED_CORES_SKIP);
  assert_cores(&options.engine.also_isolated, "4-7");
  assert_int_equal(options.sample_interval_ns, 250000000);
  assert_false(config.load.report_per_core);
  assert_false(config.load.report_host);
  assert_true(config.sampler.engine.bounds);
  assert_true(config.load.report_hidden);
  assert_true(config.load.report_time);
  assert_true(options.engine.frequency);
  assert_false(options.figures.softirq); /* only per-core values include it */
  assert_true(options.figures.cstates);
  assert_int_equal(fake.lines_len, 0);
}

TEST(every_good_value_is_accepted) {
  static const char *const lines[] = {
      "Cores \"0\"",
      "Cores 7",
      "Cores \"8191\"",
      "Cores \"0-14:1/2\"",
      "Group \"a\" \"0\"",
      "Group \"A-9_z\" 3",
      "sysroot \"/\"",
      "SysRoot \"/host\"",
      LOAD("ReportHost \"yes\""),
      LOAD("ReportHost \"off\""),
      "MaxValues 1",
      "MaxValues 10000000",
      "MaxMemory 1048576",
      "MaxMemory 70368744177664",
      LOAD("Source \"auto\""),
      LOAD("Source \"mperf\""),
      LOAD("Source \"ref-cycles\""),
      LOAD("Source \"idle\""),
      LOAD("Source \"event\""),
      LOAD("IsolatedCores \"idle\""),
      LOAD("IsolatedCores \"hardware\""),
      LOAD("AlsoIsolated 5"),
      LOAD("SampleInterval 0.05"),
      LOAD("SampleInterval 60"),
      "<Load>\n</Load>",
      "<Map \"/a/c\">\nFieldAt \"rx_packets\" 0 8\n</Map>",
      "<Map \"/a/b\">\nRowName \"drop\" \"pass to the stack\"\n</Map>",
  };
  for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
    assert_accepted(lines[i]);
  assert_int_equal(fake.lines_len, 0);
}

TEST(a_bad_value_is_an_error_that_names_option_value_and_what_is_allowed) {
  static const struct {
    const char *lines, *option, *value, *allowed;
  } bad[] = {
      {"Cores \"8192\"", "Cores", "\"8192\"", "0 to 8191"},
      {"Cores \"5-2\"", "Cores", "\"5-2\"", "0 to 8191"},
      {"Cores \"\"", "Cores", "\"\"", "empty"},
      {"Cores \"1,x\"", "Cores", "\"1,x\"", "not a list"},
      {"Cores 0 -15", "Cores", "0 -15", "one list"},
      {"Cores -1", "Cores", "-1", "0 to 8191"},
      {"Cores 1.5", "Cores", "1.5", "0 to 8191"},
      {"Cores true", "Cores", "true", "0 to 8191"},
      {"Cores", "Cores", "without a value", "0 to 8191"},
      {"Group \"dataplane\"", "Group", "\"dataplane\"", "a name"},
      {"Group \"all\" \"0\"", "Group", "\"all\" \"0\"", "itself"},
      {"Group \"Isolated\" \"0\"", "Group", "\"Isolated\"", "itself"},
      {"Group \"NODE12\" \"0\"", "Group", "\"NODE12\"", "itself"},
      {"Group \"self\" \"0\"", "Group", "\"self\"", "itself"},
      {"Group \"isolated\" \"0\"", "Group", "\"isolated\"", "itself"},
      {"Group \"housekeeping\" \"0\"", "Group", "\"housekeeping\"", "itself"},
      {"Group \"node12\" \"0\"", "Group", "\"node12\"", "itself"},
      {"Group \"a/b\" \"0\"", "Group", "\"a/b\"", "not a valid name"},
      {"Group \"\" \"0\"", "Group", "\"\"", "not a valid name"},
      {"Group \"0a\" \"0\"", "Group", "\"0a\"", "not a valid name"},
      {"Group 5 \"0\"", "Group", "5", "a name"},
      {"Group \"a\" \"9-1\"", "Group", "\"9-1\"", "0 to 8191"},
      {"SysRoot \"host\"", "SysRoot", "\"host\"", "absolute"},
      {"SysRoot 5", "SysRoot", "5", "absolute"},
      {LOAD("ReportHost \"perhaps\""), "ReportHost", "\"perhaps\"",
       "true or false"},
      {LOAD("ReportHost true true"), "ReportHost", "true true",
       "true or false"},
      {"MaxValues 0", "MaxValues", "0", "1 to 10000000"},
      {"MaxValues -5", "MaxValues", "-5", "1 to 10000000"},
      {"MaxValues 1.5", "MaxValues", "1.5", "1 to 10000000"},
      {"MaxValues 1e9", "MaxValues", "1000000000", "1 to 10000000"},
      {"MaxValues \"5\"", "MaxValues", "\"5\"", "without quotes"},
      {"MaxMemory 1048575", "MaxMemory", "1048575", "1048576 to"},
      {"MaxMemory 1e15", "MaxMemory", "1e+15", "70368744177664"},
      {"MaxMemory \"1G\"", "MaxMemory", "\"1G\"", "without quotes"},
      {LOAD("Source \"cpuacct\""), "Source", "\"cpuacct\"", "\"mperf\""},
      {LOAD("Source \"none\""), "Source", "\"none\"", "\"idle\""},
      {LOAD("Source true"), "Source", "true", "\"idle\""},
      {LOAD("IsolatedCores \"never\""), "IsolatedCores", "\"never\"",
       "\"skip\""},
      {LOAD("AlsoIsolated \"all\""), "AlsoIsolated", "\"all\"", "0 to 8191"},
      {LOAD("SampleInterval 0"), "SampleInterval", " 0:", "0.05 to 60"},
      {LOAD("SampleInterval 61"), "SampleInterval", "61", "0.05 to 60"},
      {LOAD("SampleInterval \"1\""), "SampleInterval", "\"1\"", "0.05 to 60"},
      {LOAD("SampleInterval nan"), "SampleInterval", "nan", "0.05 to 60"},
      {LOAD("ReportPerCore 7"), "ReportPerCore", "7", "true"},
      {LOAD("ReportHost 7"), "ReportHost", "7", "true"},
      {LOAD("ReportHidden 7"), "ReportHidden", "7", "true"},
      {LOAD("ReportFrequency 7"), "ReportFrequency", "7", "true"},
      {LOAD("ReportCStates 7"), "ReportCStates", "7", "true"},
      {"<Load \"x\">\n</Load>", "Load", "\"x\"", "block"},
      {"Load true", "Load", "true", "block"},
      {"<Cores \"0\">\nA 1\n</Cores>", "Cores", "\"0\"", "one list"},
      {"WakeLatency \"x\"", "WakeLatency", "\"x\"", "0 to 8191"},
      {"WakeLatency \"\"", "WakeLatency", "\"\"", "empty"},
      {"WakeLatency true true", "WakeLatency", "true true", "true, false or"},
      {"<WakeLatency>\nProbes 9\n</WakeLatency>", "WakeLatency",
       "without a value", "true, false or"},
      {"<Pollers>\nSocket \"run\"\n</Pollers>", "Socket", "\"run\"",
       "absolute path"},
      {"<Pollers>\nUsualPlaces 2\n</Pollers>", "UsualPlaces", "2", "true"},
      {"<Pollers>\nSocket 7\n</Pollers>", "Socket", "7", "in quotes"},
      {"<Map \"/a/b\">\nField \"Rx\"\n</Map>", "Field", "\"Rx\"", "lower-case"},
      {"<Map \"/a/b\">\nField \"" A_32 A_32 "\"\n</Map>", "Field",
       "\"" A_32 A_32 "\"", "lower-case"},
  };
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    forget_config();
    assert_refused(bad[i].lines, bad[i].option, bad[i].value, bad[i].allowed);
  }
}

TEST(an_option_in_the_wrong_block_is_a_warning_with_the_right_block) {
  assert_accepted("ReportSoftirq true\nSource \"bpf\"\n");
  assert_int_equal(fake_count_logged(LOG_WARNING), 2);
  assert_non_null(fake_logged(
      LOG_WARNING,
      "\"ReportSoftirq\" belongs in the block <Load>; in <Plugin>"));
  assert_non_null(fake_logged(LOG_WARNING, "\"Source\" belongs in the block"));
}

TEST(an_unknown_option_is_only_a_warning) {
  assert_accepted("Colour \"red\"\n"
                  "<Load>\nSauce \"idle\"\nSource \"idle\"\n</Load>\n"
                  "<Wake \"gtpu\">\nReportHost true\n</Wake>\n");
  assert_int_equal(config.sampler.engine.source, SOURCE_IDLE);
  assert_int_equal(fake_count_logged(LOG_WARNING), 3);
  assert_non_null(fake_logged(LOG_WARNING, "\"Colour\" in <Plugin>"));
  assert_non_null(fake_logged(LOG_WARNING, "\"Sauce\" in <Load>"));
  assert_non_null(fake_logged(LOG_WARNING, "\"Wake\" in <Plugin>"));
  assert_int_equal(fake_count_logged(LOG_ERR), 0);
}

TEST(several_blocks_add_up) {
  assert_accepted("Cores \"0-3\"\nGroup \"a\" \"0\"\n");
  assert_accepted("Cores \"2-5\"\nGroup \"b\" \"4\"\nGroup \"a\" \"1\"\n"
                  "<Load>\nReportHidden true\n</Load>\n");
  assert_cores(&config.cores, "0-5");
  assert_int_equal(config.groups_len, 2);
  assert_cores(&config.groups[0].cores, "0-1");
  assert_cores(&config.groups[1].cores, "4");
  assert_true(config.load.report_hidden);
}

TEST(cores_that_this_host_lacks_are_allowed) {
  assert_accepted("Cores \"4000-8191\"\nGroup \"far\" \"8000\"\n");
  assert_int_equal(core_set_count(&config.cores), 4192);
  assert_int_equal(fake.lines_len, 0);
}

TEST(counters_are_those_of_this_kernel) {
  struct sampler_options options;
  assert_accepted("SysRoot \"/fixture///\"");
  assert_string_equal(config.sys_root, "/fixture");
  config_sampler_options(&config, &options);
  assert_false(options.engine.hardware);
  assert_accepted("SysRoot \"/proc/self/root\"");
  config_sampler_options(&config, &options);
  assert_true(options.engine.hardware);
  assert_accepted("SysRoot \"//\"");
  assert_null(config.sys_root);
  config_sampler_options(&config, &options);
  assert_true(options.engine.hardware);
}

TEST(bounds_are_measured_in_short_windows) {
  struct sampler_options options;
  assert_accepted(LOAD("ReportBounds true"));
  config_sampler_options(&config, &options);
  assert_int_equal(options.sample_interval_ns, LOADAVG_INTERVAL_NS / 4);
  assert_accepted(LOAD("SampleInterval 3"));
  config_sampler_options(&config, &options);
  assert_int_equal(options.sample_interval_ns, 3000000000);
}

const struct unit_fixtures unit_fixtures = {
    .before_each = plugin_unit_set_up, .after_each = plugin_unit_tear_down};
