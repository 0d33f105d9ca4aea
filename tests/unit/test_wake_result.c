/* Tests the results that are written for wult. The rules come from the source
 * of wult 1.12 (wultlibs/result): RORawResult reads datapoints.csv and
 * info.yml, wants the keys reportid, toolname and toolver, takes toolname
 * "wult" and format_version '1.3', and refuses a file with an empty value, a
 * value of another type, or no datapoint at all. `wult report` also refuses one
 * without LDist. */
#include "wake/result.h"

#include "unit.h"

#include <regex.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char above[64], folder[96], path[128];
static struct wake_points points;
static struct wake_result result;
static struct wake_collect_status status;
static char why[WHY_SIZE], text[8192];
static const char *ended;

static void begin(void) {
  strcpy(above, "/tmp/percore-wake-XXXXXX");
  assert_non_null(mkdtemp(above));
  snprintf(folder, sizeof(folder), "%s/result", above);
  points = (struct wake_points){0};
  status = (struct wake_collect_status){
      .core = 3,
      .method = "thread",
      .seconds = 12.34,
      .armed = 10,
      .datapoints = 7,
      .drops[WAKE_DROP_OTHER] = 3,
      .smis = -1,
      .states = {2, {{.name = "POLL"}, {.name = "C6_deep"}}}};
  ended = "time";
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
                             .smis = 2,
                             .interrupts_off = off};
  assert_int_equal(wake_points_add(&points, &status.states, &event), 1);
}

static int append(void) {
  int failed = wake_result_write(&result, &points, &status, ended, why);
  points.len = 0;
  return failed;
}

static void write_result(void) {
  assert_int_equal(wake_result_open(&result, folder, why), 0);
  assert_int_equal(append(), 0);
  wake_result_close(&result);
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
      "WakeLatency,IntrLatency,SilentTime,LDist,IntrOff,ReqCState,UserLatency\n"
      "15.000,12.250,4.000,7.000,False,POLL,30.000\n"
      "8.500,12.250,4.000,7.000,True,C6_deep,40.000\n");
}

TEST(what_was_not_measured_has_no_column) {
  add(1, true, 0);
  write_result();
  assert_string_equal(
      read_file("datapoints.csv"),
      "WakeLatency,IntrLatency,SilentTime,LDist,IntrOff,ReqCState\n"
      "8.500,12.250,4.000,7.000,True,C6_deep\n");
}

TEST(where_smis_are_counted_they_have_a_column) {
  status.smis = 2;
  add(1, true, 0);
  write_result();
  assert_string_equal(
      read_file("datapoints.csv"),
      "WakeLatency,IntrLatency,SilentTime,LDist,IntrOff,ReqCState,SMICnt\n"
      "8.500,12.250,4.000,7.000,True,C6_deep,2\n");
}

TEST(datapoints_are_written_as_they_come) {
  assert_int_equal(wake_result_open(&result, folder, why), 0);
  ended = NULL;
  for (int i = 1; i < 4; i++) {
    add(1, true, 0);
    assert_int_equal(append(), 0);
    const char *line = read_file("datapoints.csv");
    for (int lines = 0; lines < i; lines++)
      line = strstr(line + 1, "\n8.500");
    assert_non_null(line);
    assert_non_null(strstr(read_file("info.yml"), "\nended: 'running'\n"));
  }
  ended = "count";
  assert_int_equal(append(), 0);
  wake_result_close(&result);
  assert_non_null(strstr(read_file("info.yml"), "\nended: 'count'\n"));
  assert_null(strstr(text, "running"));
}

TEST(info_has_the_keys_of_wult) {
  static const char *const keys[] = {
      "^toolname: wult$",
      "^toolver: percore [0-9.]+$",
      "^format_version: '1\\.3'$",
      "^reportid: [A-Za-z0-9._-]+-cpu3-thread-[0-9]{8}-[0-9]{6}$",
      "^cpu: 3$",
      "^date: [0-9]{2} [^ ]+ [0-9]{4}$",
      "^devid: thread$",
      "^devdescr: [^:]+$",
      "^resolution: [0-9]+$",
      "^duration: 12\\.3s$",
      "^ended: 'time'$",
      "^armed: 10$",
      "^datapoints: 7$",
      "^dropped:$",
      "^  other: 3$",
      "^  unfinished: 0$"};
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

TEST(info_says_if_too_few_events_count) {
  add(1, true, 0);
  status.armed = 9851;
  status.datapoints = 22;
  write_result();
  assert_non_null(strstr(read_file("info.yml"),
                         ", NOT A RESULT because only 22 of 9851 events"));
}

TEST(a_result_is_never_overwritten) {
  add(1, true, 0);
  write_result();
  assert_int_equal(wake_result_open(&result, folder, why), -EEXIST);
  assert_non_null(strstr(why, "never overwritten"));
  assert_non_null(strstr(why, "info.yml says how that measurement ended"));
}

TEST(a_result_that_another_program_has_begun_is_kept) {
  struct wake_result other;
  assert_int_equal(wake_result_open(&result, folder, why), 0);
  assert_int_equal(wake_result_open(&other, folder, why), -EEXIST);
  add(1, true, 0);
  assert_int_equal(append(), 0);
  wake_result_close(&result);
  assert_non_null(strstr(read_file("datapoints.csv"), "8.500"));
}

TEST(of_a_directory_that_has_only_an_info_nothing_is_changed) {
  assert_int_equal(mkdir(folder, 0777), 0);
  fclose(fopen(in_folder("info.yml"), "w"));
  assert_int_equal(wake_result_open(&result, folder, why), -EEXIST);
  assert_int_equal(access(in_folder("info.yml"), F_OK), 0);
  assert_int_equal(access(in_folder("datapoints.csv"), F_OK), -1);
}

TEST(a_directory_without_a_result_is_taken) {
  assert_int_equal(mkdir(folder, 0777), 0);
  add(1, true, 0);
  write_result();
  assert_non_null(strstr(read_file("datapoints.csv"), "8.500"));
}

TEST(without_datapoints_no_new_directory_is_left) {
  assert_int_equal(wake_result_open(&result, folder, why), 0);
  assert_int_equal(append(), 0);
  wake_result_close(&result);
  assert_int_equal(access(folder, F_OK), -1);
}

/* Stands for a disk that becomes full. */
static void limit_files(rlim_t bytes) {
  struct rlimit limit = {bytes, RLIM_INFINITY};
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST(what_does_not_fit_leaves_whole_rows_and_says_so) {
  assert_int_equal(wake_result_open(&result, folder, why), 0);
  add(1, true, 0);
  assert_int_equal(append(), 0);
  for (int i = 0; i < 200; i++)
    add(1, true, 0);
  limit_files(4096);
  assert_int_equal(append(), -EFBIG);
  ended = "full";
  assert_int_equal(append(), 0);
  limit_files(RLIM_INFINITY);
  wake_result_close(&result);
  size_t length = strlen(read_file("datapoints.csv"));
  assert_in_range(length, 4000, 4096);
  assert_string_equal(text + length - 8, "C6_deep\n");
  assert_non_null(strstr(read_file("info.yml"), "ended: 'full'"));
}

TEST(what_never_fits_leaves_nothing) {
  assert_int_equal(wake_result_open(&result, folder, why), 0);
  add(1, true, 0);
  limit_files(0);
  assert_int_equal(append(), -EFBIG);
  limit_files(RLIM_INFINITY);
  wake_result_close(&result);
  assert_int_equal(access(folder, F_OK), -1);
}

TEST(the_first_rows_that_fit_come_after_the_titles) {
  assert_int_equal(wake_result_open(&result, folder, why), 0);
  add(1, true, 0);
  limit_files(10);
  assert_int_equal(append(), -ENOSPC);
  limit_files(RLIM_INFINITY);
  add(1, true, 0);
  assert_int_equal(append(), 0);
  wake_result_close(&result);
  assert_int_equal(strncmp(read_file("datapoints.csv"), "WakeLatency", 11), 0);
}

TEST(what_cannot_be_written_is_refused_first) {
  snprintf(path, sizeof(path), "%s/none/result", above);
  assert_int_equal(wake_result_open(&result, path, why), -ENOENT);
  assert_non_null(strstr(why, "No such file"));
  assert_int_equal(wake_result_open(&result, "/dev/null", why), -ENOTDIR);
}

const struct unit_fixtures unit_fixtures = {.before_each = begin,
                                            .after_each = end};
