/* Tests the results that are written for wult. The rules come from the source
 * of wult 1.12 (wultlibs/result): RORawResult reads datapoints.csv and
 * info.yml, wants the keys reportid, toolname and toolver, takes toolname
 * "wult" and format_version '1.3', and refuses a file with an empty value, a
 * value of another type, or no datapoint at all. `wult report` also refuses one
 * without LDist. */
#include "wake/result.h"

#include "unit.h"

#include <regex.h>
#include <sys/stat.h>
#include <unistd.h>

static char above[64], folder[96], path[128];
static struct wake_points points;
static char why[WHY_SIZE], text[4096];
static const struct wake_result_info info = {
    .version = "0.2.0", .method = "thread", .core = 3, .seconds = 12.34};

static void begin(void) {
  strcpy(above, "/tmp/percore-wake-XXXXXX");
  assert_non_null(mkdtemp(above));
  snprintf(folder, sizeof(folder), "%s/result", above);
  points = (struct wake_points){.states = {"POLL", "C6 deep"}, .states_len = 2};
  why[0] = '\0';
}

static const char *in_folder(const char *name) {
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  return path;
}

static void end(void) {
  unlink(in_folder("datapoints.csv"));
  unlink(in_folder("info.yml"));
  rmdir(folder);
  rmdir(above);
  wake_points_free(&points);
}

static void add(uint32_t state, bool off, uint64_t user_us) {
  struct wake_event event = {.tbi = 1000,
                             .ltime = 5000,
                             .distance = 7000,
                             .end = user_us > 0 ? 5000 + user_us * 1000 : 0,
                             .tai = off ? 13500 : 20000,
                             .tintr = 17250,
                             .state = state,
                             .interrupts_off = off};
  assert_int_equal(wake_points_add(&points, &event), 0);
}

static void write_result(void) {
  assert_int_equal(wake_result_prepare(folder, why), 0);
  assert_int_equal(wake_result_write(&points, folder, &info, why), 0);
}

static const char *read_file(const char *name) {
  FILE *file = fopen(in_folder(name), "r");
  assert_non_null(file);
  text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
  fclose(file);
  return text;
}

TEST(every_datapoint_has_a_value_in_every_column) {
  add(0, false, 30);
  add(1, true, 40);
  write_result();
  assert_string_equal(
      read_file("datapoints.csv"),
      "WakeLatency,IntrLatency,UserLatency,SilentTime,LDist,IntrOff,ReqCState\n"
      "15.000,12.250,30.000,4.000,7.000,False,POLL\n"
      "8.500,12.250,40.000,4.000,7.000,True,C6 deep\n");
}

TEST(what_was_not_measured_has_no_column) {
  add(1, true, 0);
  write_result();
  assert_string_equal(
      read_file("datapoints.csv"),
      "WakeLatency,IntrLatency,SilentTime,LDist,IntrOff,ReqCState\n"
      "8.500,12.250,4.000,7.000,True,C6 deep\n");
}

TEST(datapoints_that_do_not_count_are_not_written) {
  add(1, false, 0);
  add(1, true, 0);
  add(1, true, 0);
  write_result();
  assert_null(strstr(read_file("datapoints.csv"), "False"));
}

TEST(info_has_the_keys_of_wult) {
  static const char *const keys[] = {
      "^toolname: wult$",
      "^toolver: percore 0\\.2\\.0$",
      "^format_version: '1\\.3'$",
      "^reportid: [A-Za-z0-9._-]+-cpu3-thread-[0-9]{8}-[0-9]{6}$",
      "^cpu: 3$",
      "^date: [0-9]{2} [^ ]+ [0-9]{4}$",
      "^devid: thread$",
      "^devdescr: [^:]+$",
      "^resolution: [0-9]+$",
      "^duration: 12\\.3s$"};
  add(1, true, 0);
  write_result();
  read_file("info.yml");
  for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
    regex_t regex;
    assert_int_equal(regcomp(&regex, keys[i], REG_EXTENDED | REG_NEWLINE), 0);
    if (regexec(&regex, text, 0, NULL, 0) != 0)
      fail_msg("info.yml has no %s", keys[i]);
    regfree(&regex);
  }
}

TEST(a_result_is_never_overwritten) {
  add(1, true, 0);
  write_result();
  assert_int_equal(wake_result_prepare(folder, why), -EEXIST);
  assert_non_null(strstr(why, "never overwritten"));
  /* Nor is one that another program has written during the measurement. */
  add(1, true, 0);
  assert_int_not_equal(wake_result_write(&points, folder, &info, why), 0);
  read_file("datapoints.csv");
  assert_int_equal(strchr(strchr(text, '\n') + 1, '\n')[1], '\0');
}

TEST(what_cannot_be_written_is_refused_first) {
  snprintf(path, sizeof(path), "%s/none/result", above);
  assert_int_equal(wake_result_prepare(path, why), -ENOENT);
  assert_non_null(strstr(why, "No such file"));
  assert_int_equal(wake_result_prepare("/dev/null", why), -EEXIST);
}

const struct unit_fixtures unit_fixtures = {.before_each = begin,
                                            .after_each = end};
