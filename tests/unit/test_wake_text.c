/* Tests the text that `percore wake` prints. */
#include "tool/wake.h"

#include "unit.h"

static char *text_of(const struct wake_run *run) {
  FILE *out = unit_open();
  wake_write_text(out, run);
  return unit_close();
}

static struct wake_run run;

static void begin(void) {
  run = (struct wake_run){.limit = {INFINITY, ""}};
  run.status = (struct wake_collect_status){.method = "thread",
                                            .usage = -1,
                                            .smis = -1,
                                            .states = {1, {{.name = "C1"}}}};
}

static void end(void) { wake_stats_free(&run.stats); }

TEST(a_core_that_went_offline_is_said_to_be_offline) {
  char *text = text_of(&run);
  assert_non_null(strstr(text, "cpuidle has no driver"));
  run.status.is_gone = true;
  text = text_of(&run);
  assert_non_null(strstr(text, "went offline"));
  assert_null(strstr(text, "driver"));
}

TEST(idle_states_may_differ_by_two_and_half_a_percent) {
  char why[WHY_SIZE];
  struct wake_collect_status *status = &run.status;
  status->usage = 1000;
  status->idles = 1007;
  assert_int_equal(wake_collect_check(status, why), WAKE_AGREES);
  status->idles = 1008;
  assert_int_equal(wake_collect_check(status, why), WAKE_DIFFERS);
  assert_string_equal(why,
                      "cpuidle counted 1000 idle states, the programs 1008");
  status->idles = 992;
  assert_int_equal(wake_collect_check(status, why), WAKE_DIFFERS);
  status->usage = 0;
  status->idles = 2;
  assert_int_equal(wake_collect_check(status, why), WAKE_AGREES);
  status->is_gone = true;
  assert_int_equal(wake_collect_check(status, why), WAKE_UNCHECKED);
}

TEST(less_than_a_twentieth_of_the_events_is_no_result) {
  struct wake_collect_status *status = &run.status;
  assert_false(wake_collect_has_result(status));
  status->datapoints = 22;
  assert_true(wake_collect_has_result(status));
  status->armed = 440;
  assert_true(wake_collect_has_result(status));
  status->armed = 441;
  assert_false(wake_collect_has_result(status));
}

TEST(smis_are_shown_where_they_are_counted) {
  assert_null(strstr(text_of(&run), "system management"));
  run.status.smis = 0;
  assert_non_null(strstr(text_of(&run), "system management interrupts: 0\n"));
}

/* Adds datapoints with a WakeLatency of 8 us, or with interrupts on and an
 * IntrLatency of 5 us. */
static void add(uint8_t state, bool off) {
  struct wake_point point = {
      .us = {8, off ? 10 : 5, NAN, 99}, .state = state, .interrupts_off = off};
  for (int i = 0; i < 30; i++)
    assert_int_equal(wake_stats_add(&run.stats, &point), 0);
}

static int count(const char *text, const char *words) {
  int times = 0;
  while ((text = strstr(text, words)) != NULL) {
    times++;
    text += strlen(words);
  }
  return times;
}

TEST(statistics_are_of_all_states_and_of_each) {
  run.status.states =
      (struct wake_states){2, {{.name = "POLL"}, {.name = "C1"}}};
  add(0, false);
  char *text = text_of(&run);
  assert_int_equal(count(text, "All states"), 0);
  assert_int_equal(count(text, "median"), 1);
  assert_null(strstr(text, "WakeLatency"));
  add(1, true);
  text = text_of(&run);
  assert_int_equal(count(text, "All states\n"), 1);
  assert_int_equal(count(text, "\nPOLL\n"), 1);
  assert_int_equal(count(text, "\nC1\n"), 1);
  assert_int_equal(count(text, "median"), 3);
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
  static const char *const name = "a-name-of-31-bytes_0123456789.x";
  run.status = (struct wake_collect_status){.core = 1000,
                                            .seconds = 86400,
                                            .method = "bpf-timer",
                                            .armed = 43200000,
                                            .datapoints = 12345678,
                                            .idles = 12345678,
                                            .usage = 23456789,
                                            .smis = 123456};
  run.status.states.len = 1;
  run.status.states.list[0] = (struct wake_state){.latency_us = 12345,
                                                  .residency_us = 123456,
                                                  .entries = 123456789,
                                                  .time_us = 86400000000};
  strcpy(run.status.states.list[0].name, name);
  for (int reason = 0; reason < WAKE_DROPS; reason++)
    run.status.drops[reason] = 1234567;
  run.limit.us = 3;
  run.limit.text = "/dev/cpu_dma_latency, held by a process: fuser -v "
                   "/dev/cpu_dma_latency";
  for (int i = 0; i < 40; i++)
    add(0, true);
  char *text = text_of(&run);
  assert_int_equal(count(text, "\ndropped "), WAKE_DROPS);
  assert_in_range(widest_line(text), 1, 80);
  run.status.usage = -1;
  assert_in_range(widest_line(text_of(&run)), 1, 80);
  run.status.is_gone = true;
  assert_in_range(widest_line(text_of(&run)), 1, 80);
}

const struct unit_fixtures unit_fixtures = {.before_each = begin,
                                            .after_each = end};
