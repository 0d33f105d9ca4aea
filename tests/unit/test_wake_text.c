/* Tests the text that `percore wake` prints. */
#include "tool/wake.h"

#include "unit.h"

static char *text_of(const struct wake_run *run) {
  FILE *out = unit_open();
  assert_int_equal(wake_write_text(out, run, 0), 0);
  return unit_close();
}

TEST(a_core_that_went_offline_is_said_to_be_offline) {
  struct wake_run run = {.points = {.states = {"C1"}, .states_len = 1},
                         .method = "thread",
                         .status = {.usage = -1}};
  char *text = text_of(&run);
  assert_non_null(strstr(text, "no cpuidle driver"));
  run.status.is_offline = true;
  text = text_of(&run);
  assert_non_null(strstr(text, "went offline"));
  assert_null(strstr(text, "driver"));
}

/* Adds datapoints with a WakeLatency of 8 us, or with interrupts on and an
 * IntrLatency of 5 us. */
static void add(struct wake_points *points, uint32_t state, bool off) {
  struct wake_event event = {.tbi = 1000,
                             .ltime = 100000,
                             .tai = 108000,
                             .tintr = off ? 110000 : 105000,
                             .state = state,
                             .interrupts_off = off};
  for (int i = 0; i < 30; i++)
    assert_int_equal(wake_points_add(points, &event), 0);
}

static int count(const char *text, const char *words) {
  int times = 0;
  while ((text = strstr(text, words)) != NULL) {
    times++;
    text += strlen(words);
  }
  return times;
}

TEST(statistics_and_a_histogram_are_of_all_states_and_of_each) {
  struct wake_run run = {.points = {.states = {"POLL", "C1"}, .states_len = 2},
                         .method = "thread"};
  add(&run.points, 0, false);
  char *text = text_of(&run);
  assert_int_equal(count(text, "All states"), 0);
  assert_int_equal(count(text, "median"), 1);
  assert_int_equal(count(text, "IntrLatency, us"), 1);
  assert_null(strstr(text, "WakeLatency"));
  add(&run.points, 1, true);
  text = text_of(&run);
  assert_int_equal(count(text, "All states\n"), 1);
  assert_int_equal(count(text, "\nPOLL\n"), 1);
  assert_int_equal(count(text, "\nC1\n"), 1);
  assert_int_equal(count(text, "median"), 3);
  assert_int_equal(count(text, "  WakeLatency, us"), 2);
  assert_int_equal(count(text, "  8.0 to 11.3          30 ###"), 2);
  wake_points_free(&run.points);
}

static size_t widest_line(const char *text) {
  size_t widest = 0;
  for (const char *end; *text != '\0'; text = end + (*end != '\0')) {
    end = text + strcspn(text, "\n");
    if ((size_t)(end - text) > widest)
      widest = (size_t)(end - text);
  }
  return widest;
}

TEST(the_lines_of_a_long_measurement_fit_80_columns) {
  struct wake_run run = {.points = {.states = {"C1"}, .states_len = 1},
                         .method = "bpf-timer",
                         .core = 1000,
                         .seconds = 86400,
                         .status = {.armed = 43200000,
                                    .overrun = 1234567,
                                    .idles = 12345678,
                                    .usage = 23456789}};
  for (int reason = 0; reason < WAKE_DROPS; reason++)
    run.status.drops[reason] = 1234567;
  for (int i = 0; i < 3; i++)
    add(&run.points, 0, true);
  add(&run.points, 0, false);
  char *text = text_of(&run);
  assert_int_equal(count(text, "dropped "), WAKE_DROPS + 1);
  assert_in_range(widest_line(text), 1, 80);
  wake_points_free(&run.points);
}
