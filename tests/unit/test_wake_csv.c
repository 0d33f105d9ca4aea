/* Tests datapoints as CSV (reading, writing) and filters for datapoints. */
#include "wake/csv.h"

#include "unit.h"

#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[96], info[96];
static struct wake_points points;
static char why[WAKE_WHY_SIZE];

static void write_file(const char *name, const void *bytes, size_t size) {
  FILE *file = fopen(name, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  fclose(file);
}

static void write_text(const char *name, const char *text) {
  write_file(name, text, strlen(text));
}

static int begin(void **state) {
  (void)state;
  strcpy(folder, "/tmp/percore-wake-XXXXXX");
  if (mkdtemp(folder) == NULL)
    return -1;
  snprintf(path, sizeof(path), "%s/datapoints.csv", folder);
  snprintf(info, sizeof(info), "%s/info.yml", folder);
  write_text(info, "toolname: wult\nformat_version: '1.3'\n");
  why[0] = '\0';
  return 0;
}

static int end(void **state) {
  (void)state;
  wake_points_free(&points);
  unlink(path);
  unlink(info);
  rmdir(folder);
  return 0;
}

static int read_with(const struct wake_csv_options *options) {
  return wake_csv_read(&points, path, options, why);
}

static int read_file(void) {
  return read_with(&(struct wake_csv_options){.us_per_unit = 0});
}

static void assert_refused(const char *text, const char *wanted) {
  write_text(path, text);
  assert_int_not_equal(read_file(), 0);
  if (strstr(why, wanted) == NULL) {
    print_error("'%s' does not say '%s'\n", why, wanted);
    fail();
  }
  wake_points_free(&points);
}

#define HEADER "WakeLatency,IntrLatency,SilentTime,IntrOff,ReqCState\n"

static void columns_are_found_by_name(void **state) {
  (void)state;
  write_text(path, "CC1%,ReqCState,IntrOff,SilentTime,SMICnt,IntrLatency,"
                   "WakeLatency,LDist\n"
                   "99.1,C6 deep,True,100.5,0,12.25,8.5,2000\r\n"
                   "0.0,POLL,0,50,0,2,1,10\n");
  assert_int_equal(read_file(), 0);
  assert_int_equal(points.len, 2);
  assert_near(points.list[0].us[WAKE_LATENCY], 8.5, 0);
  assert_near(points.list[0].us[WAKE_INTR_LATENCY], 12.25, 0);
  assert_near(points.list[0].us[WAKE_SILENT_TIME], 100.5, 0);
  assert_nan(points.list[0].us[WAKE_USER_LATENCY]);
  assert_near(points.list[0].distance_us, 2000, 0);
  assert_true(points.list[0].interrupts_off);
  assert_false(points.list[1].interrupts_off);
  assert_string_equal(points.states[points.list[0].state], "C6 deep");
}

static void with_interrupts_on_there_is_no_wake_latency(void **state) {
  (void)state;
  write_text(path, HEADER "8,9,100,False,C1\n8,9,100,True,C1\n"
                          "8,9,100,False,POLL\n");
  assert_int_equal(read_file(), 0);
  assert_int_equal(points.len, 3);
  assert_nan(points.list[0].us[WAKE_LATENCY]);
  assert_near(points.list[0].us[WAKE_INTR_LATENCY], 9, 0);
  assert_near(points.list[1].us[WAKE_LATENCY], 8, 0);
  assert_nan(points.list[2].us[WAKE_LATENCY]);
}

static void a_directory_holds_datapoints_csv(void **state) {
  (void)state;
  write_text(path, HEADER "1,2,3,True,C1\n");
  assert_int_equal(wake_csv_read(&points, folder,
                                 &(struct wake_csv_options){.us_per_unit = 0},
                                 why),
                   0);
  assert_int_equal(points.len, 1);
}

static void what_is_written_is_read_back(void **state) {
  (void)state;
  write_text(path, HEADER "8.5,12.25,100.125,True,C6\n,2,50,False,POLL\n");
  assert_int_equal(read_file(), 0);
  struct wake_points before = points;
  points = (struct wake_points){0};
  struct wake_csv_info written = {.version = "0.2.0"};
  assert_int_equal(wake_csv_write(&before, path, &written, why), 0);
  assert_int_equal(read_file(), 0);
  assert_int_equal(points.len, before.len);
  for (size_t i = 0; i < points.len; i++) {
    const struct wake_point *a = &points.list[i], *b = &before.list[i];
    for (int m = 0; m < WAKE_METRICS; m++)
      assert_true(a->us[m] == b->us[m] || (isnan(a->us[m]) && isnan(b->us[m])));
    assert_int_equal(a->interrupts_off, b->interrupts_off);
    assert_string_equal(points.states[a->state], before.states[b->state]);
  }
  wake_points_free(&before);
}

static bool info_matches(const char *pattern) {
  regex_t regex;
  char text[2048];
  FILE *file = fopen(info, "r");
  assert_non_null(file);
  text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
  fclose(file);
  assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NEWLINE), 0);
  bool matches = regexec(&regex, text, 0, NULL, 0) == 0;
  regfree(&regex);
  return matches;
}

static void info_has_the_keys_of_wult(void **state) {
  (void)state;
  static const char *const keys[] = {
      "^toolname: percore$",
      "^toolver: 0\\.2\\.0$",
      "^format_version: '1\\.3'$",
      "^reportid: [A-Za-z0-9._-]+-cpu3-thread-[0-9]{8}$",
      "^cpu: 3$",
      "^date: [0-9]{2} [^ ]+ [0-9]{4}$",
      "^devid: thread$",
      "^devdescr: percore wake, method thread, source perf$",
      "^resolution: [0-9]+$",
      "^duration: 12\\.3s$"};
  struct wake_csv_info measured = {.version = "0.2.0",
                                   .method = "thread",
                                   .source = "perf",
                                   .core = 3,
                                   .seconds = 12.34};
  assert_int_equal(wake_csv_write(&points, path, &measured, why), 0);
  for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
    if (!info_matches(keys[i]))
      fail_msg("info.yml has no %s", keys[i]);
}

static void info_of_a_converted_file_has_no_measurement(void **state) {
  (void)state;
  struct wake_csv_info converted = {.version = "0.2.0"};
  assert_int_equal(wake_csv_write(&points, path, &converted, why), 0);
  assert_true(info_matches("^format_version: '1\\.3'$"));
  assert_false(info_matches("^(reportid|cpu|date|dev.*|resolution|duration):"));
}

static void filters_take_and_leave_out(void **state) {
  (void)state;
  struct wake_csv_options options = {.us_per_unit = 0};
  write_text(path, HEADER "1,1,90,True,C1\n2,1,110,True,C1\n"
                          "3,1,120,True,C6\n4,1,130,True,C6\n");
  assert_int_equal(
      wake_filter_parse(&options.include, " SilentTime>= 110", why), 0);
  assert_int_equal(wake_filter_parse(&options.exclude,
                                     "ReqCState == C6 and SilentTime < 125",
                                     why),
                   0);
  assert_int_equal(read_with(&options), 0);
  assert_int_equal(points.len, 2);
  assert_near(points.list[0].us[WAKE_LATENCY], 2, 0);
  assert_near(points.list[1].us[WAKE_LATENCY], 4, 0);
}

static void filters_can_use_any_column(void **state) {
  (void)state;
  struct wake_csv_options options = {.us_per_unit = 0};
  write_text(path, "IntrLatency,SMICnt\n5,0\n6,2\n");
  wake_filter_parse(&options.exclude, "SMICnt != 0", why);
  assert_int_equal(read_with(&options), 0);
  assert_int_equal(points.len, 1);
  wake_filter_parse(&options.exclude, "NMICnt != 0", why);
  assert_int_not_equal(read_with(&options), 0);
  assert_non_null(strstr(why, "no column NMICnt"));
}

static void values_may_be_in_quotes(void **state) {
  (void)state;
  static const char *const quoted[] = {"ReqCState == 'C6'",
                                       "ReqCState == \"C6\""};
  write_text(path, HEADER "1,1,90,True,C1\n2,1,110,True,C6\n");
  for (size_t i = 0; i < sizeof(quoted) / sizeof(quoted[0]); i++) {
    struct wake_csv_options options = {.us_per_unit = 0};
    assert_int_equal(wake_filter_parse(&options.exclude, quoted[i], why), 0);
    wake_points_free(&points);
    points = (struct wake_points){.len = 0};
    assert_int_equal(read_with(&options), 0);
    assert_int_equal(points.len, 1);
  }
}

static void a_column_of_numbers_is_compared_with_numbers(void **state) {
  (void)state;
  struct wake_csv_options options = {.us_per_unit = 0};
  write_text(path, HEADER "1,1,90,True,C1\n");
  assert_int_equal(wake_filter_parse(&options.include, "SilentTime == C6", why),
                   0);
  assert_int_equal(read_with(&options), -EINVAL);
  assert_non_null(strstr(why, "SilentTime is a number, but 'C6' is not"));
}

static void if_nothing_matches_the_idle_states_are_named(void **state) {
  (void)state;
  struct wake_csv_options options = {.us_per_unit = 0};
  write_text(path, HEADER "1,1,90,True,C1\n2,1,110,True,C3\n");
  wake_filter_parse(&options.include, "ReqCState == C6", why);
  assert_int_equal(read_with(&options), -ENOENT);
  assert_non_null(strstr(why, "none of 2 datapoints matches; idle states in "
                              "this file: C1, C3"));
}

static void what_is_no_comparison_is_refused(void **state) {
  (void)state;
  static const char *const bad[] = {"",
                                    "SilentTime",
                                    "> 3",
                                    "SilentTime >",
                                    "SilentTime ! 3",
                                    " == ",
                                    "SilentTime > 3 and ",
                                    "SilentTime > 100 or SilentTime < 3",
                                    "ReqCState == 'C6"};
  struct wake_filter filter;
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
    assert_int_equal(wake_filter_parse(&filter, bad[i], why), -EINVAL);
}

static void every_operator_compares_numbers_and_text(void **state) {
  (void)state;
  static const struct {
    const char *filter, *value;
    bool holds;
  } cases[] = {
      {"a == 2", "2.0", true}, {"a == 2", "3", false}, {"a != 2", "2", false},
      {"a != 2", "3", true},   {"a < 2", "1", true},   {"a < 2", "2", false},
      {"a <= 2", "2", true},   {"a <= 2", "3", false}, {"a > 2", "3", true},
      {"a > 2", "2", false},   {"a >= 2", "2", true},  {"a >= 2", "1", false},
      {"a == b", "b", true},   {"a == b", "c", false}, {"a != b", "b", false},
      {"a != b", "c", true},   {"a < b", "a", false},  {"a >= b", "b", false},
      {"a > 2", "", false},    {"a != 2", "", true}};
  struct wake_filter filter;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    assert_int_equal(wake_filter_parse(&filter, cases[i].filter, why), 0);
    if (wake_comparison_holds(&filter.list[0], cases[i].value) !=
        cases[i].holds)
      fail_msg("%s with '%s'", cases[i].filter, cases[i].value);
  }
}

static void times_in_ns_need_their_unit(void **state) {
  (void)state;
  write_text(path, HEADER "8500,12250,100500,True,C6\n");
  write_text(info, "toolname: wult\n");
  assert_int_not_equal(read_file(), 0);
  assert_non_null(strstr(why, "--unit ns"));
  wake_points_free(&points);
  write_text(info, "format_version: 1.1\n");
  assert_int_not_equal(read_file(), 0);
  assert_non_null(strstr(why, "1.1"));
  wake_points_free(&points);
  unlink(info);
  assert_int_not_equal(read_file(), 0);
  wake_points_free(&points);
  assert_int_equal(read_with(&(struct wake_csv_options){.us_per_unit = 0.001}),
                   0);
  assert_near(points.list[0].us[WAKE_LATENCY], 8.5, 1e-6);
}

static void bad_files_are_refused_with_line_and_reason(void **state) {
  (void)state;
  assert_refused("", "is empty");
  assert_refused("a,b,c\n1,2,3\n", "no column WakeLatency");
  assert_refused("WakeLatency,WakeLatency\n", "two columns");
  assert_refused(HEADER "1,2,3,True\n", ":2: the line has 4 values");
  assert_refused(HEADER "1,2,3,True,C1,9\n", ":2: the line has 6 values");
  assert_refused(HEADER "\n", ":2: the line has 1 values");
  assert_refused(HEADER "1,2,3,True,C1\nx,2,3,True,C1\n",
                 ":3: WakeLatency is 'x'");
  assert_refused("WakeLatency,CC6%\n1,2.5\n1,\n1,deep\n",
                 ":4: column 2 is 'deep'");
  assert_refused("SMICnt,WakeLatency\n0x,1\n", ":2: column 1 is '0x'");
  assert_refused(HEADER " ,2,3,True,C1\n", "WakeLatency is ' '");
  assert_refused(HEADER "nan,2,3,True,C1\n", "WakeLatency is 'nan'");
  assert_refused(HEADER "1e39,2,3,True,C1\n", "WakeLatency is '1e39'");
  assert_refused(HEADER "1,2,3,maybe,C1\n", "IntrOff is 'maybe'");
  assert_refused(HEADER "1,2,3,True,\x1b[2J\n", "ReqCState is not text");
  assert_refused(HEADER
                 "1,2,3,True,a state whose name is longer than any state's\n",
                 "too long");
}

static void binary_files_are_refused(void **state) {
  (void)state;
  char bytes[200000];
  memset(bytes, 0, sizeof(bytes));
  write_file(path, bytes, sizeof(bytes));
  assert_int_not_equal(read_file(), 0);
  assert_non_null(strstr(why, "binary"));
  memset(bytes, 'x', sizeof(bytes));
  write_file(path, bytes, sizeof(bytes));
  assert_int_not_equal(read_file(), 0);
  assert_non_null(strstr(why, "longer than"));
  struct wake_csv_options options = {.us_per_unit = 1};
  assert_int_not_equal(wake_csv_read(&points, "/dev/urandom", &options, why),
                       0);
  assert_int_not_equal(wake_csv_read(&points, "/dev/zero", &options, why), 0);
  assert_int_not_equal(wake_csv_read(&points, "/", &options, why), 0);
  assert_int_equal(wake_csv_read(&points, "/nowhere", &options, why), -ENOENT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(columns_are_found_by_name),
      TEST(with_interrupts_on_there_is_no_wake_latency),
      TEST(a_directory_holds_datapoints_csv),
      TEST(what_is_written_is_read_back),
      TEST(info_has_the_keys_of_wult),
      TEST(info_of_a_converted_file_has_no_measurement),
      TEST(filters_take_and_leave_out),
      TEST(filters_can_use_any_column),
      TEST(values_may_be_in_quotes),
      TEST(a_column_of_numbers_is_compared_with_numbers),
      TEST(if_nothing_matches_the_idle_states_are_named),
      TEST(what_is_no_comparison_is_refused),
      TEST(every_operator_compares_numbers_and_text),
      TEST(times_in_ns_need_their_unit),
      TEST(bad_files_are_refused_with_line_and_reason),
      TEST(binary_files_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
